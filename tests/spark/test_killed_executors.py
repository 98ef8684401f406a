"""Python workers and executors are killed in a batch: on real Spark, nothing is lost or repeated."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.deadline import until
from tests.soak.life import DEADLINE_S, Life
from tests.soak.processes import parent_of

from .audited_soak import AuditedSoak


@pytest.mark.slow  # slow because it starts a local cluster; test_crash.py covers killed drivers
def test_a_python_worker_and_an_executor_killed_in_a_batch_lose_and_repeat_nothing(tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    hanging.mkdir()
    soak = AuditedSoak(tmp_path, hangIn=str(hanging))
    with soak.life(master="local-cluster[2,1,1024]") as life:
        os.kill(announced(life, hanging / "worker"), signal.SIGKILL)
        daemon = parent_of(announced(life, hanging / "executor"))
        os.kill(parent_of(daemon), signal.SIGKILL)
        life.wait_until_all_are_alive(time.time())
        assert life.finish(DEADLINE_S)
    soak.assert_exact()
    assert max(soak.reported_attempts()) > 0


def announced(life: Life, file: Path) -> int:
    """The process of a task that hangs."""
    until(file.exists, life.child.log_tail, round(DEADLINE_S))
    return int(file.read_text())
