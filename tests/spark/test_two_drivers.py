"""Two drivers on one checkpoint, after a third driver was killed."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.deadline import until

from .audited_soak import AuditedSoak

# It starts a query four times; tests/driver/test_two_drivers.py and the simulator test this without Spark.
pytestmark = pytest.mark.slow

# flip27 reports it at the next checkpoint; Spark's log or the sink may notice it first.
TOLD = ("has taken over", "CONCURRENT_STREAM_LOG_UPDATE", "another writer already committed this batch")


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
        until(lambda: bool(one.ended or other.ended), one.child.log_tail)
        errors = [ended.error for ended in (*one.ended, *other.ended)]
    assert any(words in error for error in errors for words in TOLD), errors
    soak.finish()
    soak.assert_exact()
