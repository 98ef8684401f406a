"""Tasks that fail, are speculative copies, or are killed: on real Spark, nothing is lost or repeated."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.deadline import until
from tests.soak.cluster import two_hosts
from tests.soak.life import DEADLINE_S, Life
from tests.soak.processes import parent_of

from .audited_soak import AuditedSoak

SPECULATION = {
    "speculation": "true",
    "speculation.interval": "100ms",
    "speculation.quantile": "0.5",
    "speculation.multiplier": "1.1",
    "speculation.minTaskRuntime": "100ms",
}


@pytest.mark.slow  # it starts three JVMs; tests/executor and the model test the same rule without Spark
def test_a_slow_subtask_and_its_speculative_copy_are_one_subtask_S66_S96(tmp_path: Path) -> None:
    soak = AuditedSoak(tmp_path, slowFirstMs="4000", rows="200")
    with two_hosts(tmp_path) as url:
        soak.finish(master=url, **{"executor.memory": "1g"}, **SPECULATION)
    soak.assert_exact()
    assert max(soak.reported_attempts()) > 0


@pytest.mark.slow  # slow because it starts a local cluster; test_drivers.py covers killed drivers
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


@pytest.mark.slow  # tests/executor and the testing kit have failing attempts without Spark
def test_tasks_whose_first_attempt_fails_lose_and_repeat_nothing_S38_S45(tmp_path: Path) -> None:
    soak = AuditedSoak(tmp_path, failFirst="1")
    soak.finish(master="local[2,4]")
    soak.assert_exact()
    assert max(soak.reported_attempts()) > 0
