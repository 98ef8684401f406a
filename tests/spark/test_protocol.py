"""The protocol on real Spark: pages bounded by the reader and events both ways, through failures.

The source keeps account of its events itself (see tests/soak/source.py): one that is lost, comes
twice or out of order shows in the audit.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from flip27_source.cli.demo.processes import ChildProcess
from tests.soak.cluster import two_hosts
from tests.soak.kill import Soak, kill_worker_then_executor, reported_attempts

OPTIONS = {"counters": "8", "rows": "300", "pageMs": "2", "maxRowsPerSplit": "100"}
QUICK = {"pageMs": "0", "maxRowsPerSplit": "600"}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "query").mkdir()
    return tmp_path / "query"


def assert_exact(soak: Soak) -> None:
    outcome = soak.outcome(0)
    assert outcome.is_exact, outcome
    assert outcome.audit.count("notes=") == 1


def test_tasks_whose_first_attempt_fails_lose_and_repeat_nothing_S38_S45(root: Path) -> None:
    soak = Soak(
        root=root,
        options=OPTIONS | {"failFirst": "1"},
        settings={"spark.master": "local[2,4]"},
        quick=QUICK,
    )
    assert soak.life(lambda _: False, last=True)
    assert_exact(soak)
    assert max(reported_attempts(root)) > 0


def test_a_python_worker_and_an_executor_killed_in_a_batch_lose_and_repeat_nothing(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "hanging").mkdir()
    soak = Soak(
        root=root,
        options=OPTIONS | {"hangIn": str(tmp_path / "hanging")},
        settings={"spark.master": "local-cluster[2,1,1024]"},
        quick={},
    )

    def kill(child: ChildProcess) -> bool:
        kill_worker_then_executor(child, tmp_path / "hanging")
        return False

    assert soak.life(kill)
    assert_exact(soak)
    assert max(reported_attempts(root)) > 0


def test_a_slow_subtask_and_its_speculative_copy_are_one_subtask_S66_S96(root: Path, tmp_path: Path) -> None:
    with two_hosts(tmp_path) as url:
        soak = Soak(
            root=root,
            options=OPTIONS | {"slowFirstMs": "4000", "rows": "200"},
            settings={"spark.master": url, "spark.executor.memory": "1g"} | SPECULATION,
            quick=QUICK,
        )
        assert soak.life(lambda _: False, last=True)
    assert_exact(soak)
    assert max(reported_attempts(root)) > 0


def test_of_two_drivers_on_one_checkpoint_one_stops_and_nothing_is_lost_or_repeated_S98(
    root: Path, tmp_path: Path
) -> None:
    """Started together where a third one died; whichever loses stops with an error that says so."""
    soak = Soak(root=root, options=OPTIONS | {"rows": "1000"}, settings={}, quick=QUICK)

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
    # We say it at the next checkpoint; Spark's log or the sink may notice first.
    told = ("has taken over", "CONCURRENT_STREAM_LOG_UPDATE", "another writer already committed this batch")
    assert any(words in log for words in told)
    assert soak.life(lambda _: False, last=True)
    assert_exact(soak)
