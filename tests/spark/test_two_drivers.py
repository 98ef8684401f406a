"""Two drivers on one checkpoint, after a third driver was killed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.child_processes import ChildProcess

from .audited_soak import assert_exact, audited_soak

# It starts a query four times; tests/driver/test_two_drivers.py and the simulator test this without Spark.
pytestmark = pytest.mark.slow


def test_one_of_two_drivers_on_one_checkpoint_stops_and_nothing_is_lost_or_repeated_S98(
    tmp_path: Path,
) -> None:
    """They start at the same time; the one that loses stops with an error about it."""
    soak = audited_soak(tmp_path, settings={}, rows="1000")

    def kill(child: ChildProcess) -> bool:
        soak.wait_for_an_offset(child)
        os.killpg(child.popen.pid, signal.SIGKILL)
        return True

    soak.life(kill)
    ends: list[str] = []

    def drive() -> None:
        try:
            ends.append("finished" if soak.life(lambda _: False) else "killed")
        except AssertionError as error:
            ends.append(str(error))

    drivers = [threading.Thread(target=drive) for _ in range(2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    lost = [end for end in ends if end != "finished"]
    assert len(lost) >= 1
    log = (tmp_path / "soak.log").read_text()
    # flip27 reports it at the next checkpoint; Spark's log or the sink may notice it first.
    told = ("has taken over", "CONCURRENT_STREAM_LOG_UPDATE", "another writer already committed this batch")
    assert any(words in log for words in told)
    assert soak.life(lambda _: False, last=True)
    assert_exact(soak)
