"""Spark repeats failed tasks: on real Spark, nothing is lost or repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.kill import reported_attempts

from .audited_soak import assert_exact, audited_soak


@pytest.mark.slow  # tests/executor and the testing kit have failing attempts without Spark
def test_tasks_whose_first_attempt_fails_lose_and_repeat_nothing_S38_S45(tmp_path: Path) -> None:
    soak = audited_soak(tmp_path, settings={"spark.master": "local[2,4]"}, failFirst="1")
    assert soak.life(lambda _: False, last=True)
    assert_exact(soak)
    assert max(reported_attempts(soak.root)) > 0
