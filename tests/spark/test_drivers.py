"""Drivers are killed at each step of a batch, or run twice on one checkpoint: no row is lost or repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.deadline import until

from .audited_soak import AuditedSoak
from .streams import Folders, lake_lines

REPOSITORY = Path(__file__).parents[2]

STEPS = ["after-document", "in-batch", "in-commit"]
OTHER_STEPS = ["during-discovery", "before-document", "after-batch-before-next-offset"]


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
    "steps", [STEPS, pytest.param(OTHER_STEPS, marks=pytest.mark.long)], ids=["three", "others"]
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


# flip27 reports it at the next checkpoint; Spark's log or the sink may notice it first.
TOLD = (
    "has taken over",
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Multiple streaming queries are concurrently using",
    "another writer already committed this batch",
    "Race while writing batch",  # Spark's file sink
)


@pytest.mark.slow  # tests/driver/test_two_drivers.py and the simulator test this without Spark
def test_one_of_two_drivers_on_one_checkpoint_stops_and_nothing_is_lost_or_repeated_S98(
    tmp_path: Path,
) -> None:
    """They start at the same time; the one that loses stops with an error about it."""
    soak = AuditedSoak(tmp_path, rows="5000")
    with soak.life() as killed:
        killed.wait_until_all_are_alive(time.time())
        killed.signal(signal.SIGKILL)
    with soak.life() as one, soak.life() as other:
        for driver in (one, other):
            driver.tell("once")
        until(lambda: bool(one.ended or other.ended), one.child.log_tail, seconds=300)
        errors = [ended.error for ended in (*one.ended, *other.ended)]
    assert any(words in error for error in errors for words in TOLD), errors
    soak.finish()
    soak.assert_exact()
