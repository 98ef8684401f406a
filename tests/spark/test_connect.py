"""Spark Connect: the same behaviour from a client that has no JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow  # it starts a separate server and client
def test_streams_and_registered_sources_run_on_spark_connect(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_query", str(tmp_path / "query")],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.splitlines() == [
        "metrics [2]",
        "files ['1', '2']",
        "restarted ['1', '2', '3']",
        "registered ['a', 'b', 'c']",
        "batch [0, 1, 2, 3, 4]",
        "parsed [(0, 'b', 'x,b'), (1, 'a', None), (2, None, '2')]",
        "native [('1', 'a'), ('2', None), ('x', 'b')]",
        "arrays [1, 2]",
    ]
