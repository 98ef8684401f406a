"""A cluster of several hosts: a short form of ``make cluster``."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

FAULTS = ("executor-killed", "driver-moved")


@pytest.mark.slow  # a short form of make cluster
def test_a_query_on_a_cluster_goes_on_after_faults_and_is_exact() -> None:
    command = [sys.executable, "-m", "tests.cluster", "--seed", "27", "--faults", *FAULTS]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert run.returncode == 0, run.stdout
    counts = re.search(r"rows (\d+)  lost 0  duplicated 0  unexplained 0", run.stdout)
    assert counts is not None, run.stdout
    assert int(counts[1]) > 0
    for fault in FAULTS:
        assert re.search(rf"fault \d: {fault}: .*\n(.*\n)*.* went on with batch", run.stdout), run.stdout
