"""Disasters on real Spark: a short form of ``make soak ARGS="--disasters 300"``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.disasters import Disasters

MOVES = ("driver", "coordinator", "worker", "file size limit", "planner", "permissions", "jvm")


@pytest.mark.slow  # a short form of the soak
def test_killed_processes_and_a_disk_that_fails_lose_and_repeat_nothing_S36_S37(tmp_path: Path) -> None:
    shapes = ("talking", "archived")
    disasters = Disasters(tmp_path, seed=27, kills=5, shapes=shapes, longest_pause_s=0.5)
    outcome = disasters.run(MOVES)
    assert outcome.is_exact, "\n".join(outcome.lines())
    assert outcome.kills.total() == 5
    assert outcome.faults.total() == 2
    assert outcome.errors["StateLocationError"] > 0, "the disk did not fail"
    assert outcome.batches > 10
