"""Disasters on real Spark: short forms of parts of ``make soak``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.postgres_server import NEWEST
from tests.soak.disasters import Disasters
from tests.soak.mysql_disasters import mysql_disasters
from tests.soak.table_disasters import table_disasters
from tests.soak.topic_disasters import BROKER, topic_disasters

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


TABLE_MOVES = ("server", "worker", "driver", "server")
TOPIC_MOVES = (BROKER, "worker", "driver", BROKER)


@pytest.mark.slow  # a short form of the soak
@pytest.mark.parametrize(
    ("disasters_of", "copy", "moves", "fewest_batches"),
    [
        (partial(table_disasters, version=NEWEST), "table-copy", TABLE_MOVES, 11),
        (mysql_disasters, "mysql-copy", TABLE_MOVES, 11),
        (partial(topic_disasters, longest_pause_s=0.5), "topic-copy", TOPIC_MOVES, len(TOPIC_MOVES)),
    ],
    ids=["postgres", "mysql", "topics"],
)
def test_copies_stay_exact_while_processes_and_the_server_are_killed(
    tmp_path: Path, disasters_of: Callable[..., Any], copy: str, moves: Sequence[str], fewest_batches: int
) -> None:
    with disasters_of(tmp_path, seed=27, kills=len(moves), say=print) as disasters:
        outcome = disasters.run(moves)
    assert outcome.is_exact, "\n".join(outcome.lines())
    assert outcome.kills.total() == len(moves)
    assert outcome.batches >= fewest_batches
    assert outcome.counts[copy].rows > 0
