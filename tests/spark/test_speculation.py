"""Speculative copies of slow tasks on a Spark of two hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.cluster import two_hosts
from tests.soak.kill import reported_attempts

from .audited_soak import assert_exact, audited_soak

# It starts a Spark cluster of three JVMs; tests/executor and the model test the same rule without Spark.
pytestmark = pytest.mark.slow

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


def test_a_slow_subtask_and_its_speculative_copy_are_one_subtask_S66_S96(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as url:
        soak = audited_soak(
            tmp_path,
            settings={"spark.master": url, "spark.executor.memory": "1g"} | SPECULATION,
            slowFirstMs="4000",
            rows="200",
        )
        assert soak.life(lambda _: False, last=True)
    assert_exact(soak)
    assert max(reported_attempts(soak.root)) > 0
