"""Real processes are killed with SIGKILL at each step of a batch: no row is lost or repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from .streams import Folders, lake_lines

REPOSITORY = Path(__file__).parents[2]

STEPS = ["in-batch", "in-commit"]
OTHER_STEPS = ["during-discovery", "before-document", "after-document", "after-batch-before-next-offset"]


def run_until_end_or_crash(folders: Folders, requests: Path) -> int:
    """Run the program once; return 0 if it ended by itself, -9 if it was killed."""
    environment = os.environ | {"FLIP27_TEST_CRASH_DIR": str(requests), "PYTHONPATH": str(REPOSITORY)}
    program = [sys.executable, "-m", "tests.spark.crashing_query"]
    done = subprocess.run(
        [*program, str(folders.root), f"crashing://{folders.state}"],
        env=environment,
        cwd=folders.root,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode not in (0, -signal.SIGKILL):
        raise AssertionError(done.stdout + done.stderr)
    return done.returncode


@pytest.mark.parametrize(
    "steps", [STEPS, pytest.param(OTHER_STEPS, marks=pytest.mark.long)], ids=["two", "others"]
)
def test_a_driver_killed_at_steps_of_a_batch_loses_nothing_and_repeats_nothing(
    spark: SparkSession, folders: Folders, tmp_path: Path, steps: list[str]
) -> None:
    requests = tmp_path / "crash"
    requests.mkdir()
    expected = []
    for number in range(5 * len(steps) + 10):
        lines = [f"{number:02d}-{row}" for row in range(5)]
        folders.land(f"{number}.txt", lines)
        expected += lines
    crashed = []
    for step in steps:
        (requests / step).touch()
        if run_until_end_or_crash(folders, requests) == -signal.SIGKILL:
            crashed.append(step)
    assert crashed == steps
    assert run_until_end_or_crash(folders, requests) == 0
    assert lake_lines(spark, folders) == sorted(expected)
