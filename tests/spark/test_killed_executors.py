"""Python workers and executors are killed in a batch: on real Spark, nothing is lost or repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.child_processes import ChildProcess
from tests.soak.kill import kill_worker_then_executor, reported_attempts

from .audited_soak import assert_exact, audited_soak


@pytest.mark.slow  # slow because it starts a local cluster; test_crash.py covers killed drivers
def test_a_python_worker_and_an_executor_killed_in_a_batch_lose_and_repeat_nothing(tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    hanging.mkdir()
    soak = audited_soak(
        tmp_path, settings={"spark.master": "local-cluster[2,1,1024]"}, quick={}, hangIn=str(hanging)
    )

    def kill(child: ChildProcess) -> bool:
        kill_worker_then_executor(child, hanging)
        return False

    assert soak.life(kill)
    assert_exact(soak)
    assert max(reported_attempts(soak.root)) > 0
