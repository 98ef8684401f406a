"""Spark repeats failed tasks: on real Spark, nothing is lost or repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from .audited_soak import AuditedSoak


@pytest.mark.slow  # tests/executor and the testing kit have failing attempts without Spark
def test_tasks_whose_first_attempt_fails_lose_and_repeat_nothing_S38_S45(tmp_path: Path) -> None:
    soak = AuditedSoak(tmp_path, failFirst="1")
    soak.finish(master="local[2,4]")
    soak.assert_exact()
    assert max(soak.reported_attempts()) > 0
