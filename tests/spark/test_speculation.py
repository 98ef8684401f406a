"""Speculative copies of slow tasks on a Spark of two hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.cluster import two_hosts

from .audited_soak import AuditedSoak

# It starts a Spark cluster of three JVMs; tests/executor and the model test the same rule without Spark.
pytestmark = pytest.mark.slow

SPECULATION = {
    "speculation": "true",
    "speculation.interval": "100ms",
    "speculation.quantile": "0.5",
    "speculation.multiplier": "1.1",
    "speculation.minTaskRuntime": "100ms",
}


def test_a_slow_subtask_and_its_speculative_copy_are_one_subtask_S66_S96(tmp_path: Path) -> None:
    soak = AuditedSoak(tmp_path, slowFirstMs="4000", rows="200")
    with two_hosts(tmp_path) as url:
        soak.finish(master=url, **{"executor.memory": "1g"}, **SPECULATION)
    soak.assert_exact()
    assert max(soak.reported_attempts()) > 0
