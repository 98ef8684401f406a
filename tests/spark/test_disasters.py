"""Disasters on real Spark: short forms of parts of ``make soak``."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.slow  # a short form of the soak
def test_copies_of_tables_stay_exact_while_processes_and_the_server_are_killed(tmp_path: Path) -> None:
    with table_disasters(tmp_path, seed=27, kills=len(TABLE_MOVES), version=NEWEST, say=print) as disasters:
        outcome = disasters.run(TABLE_MOVES)
    assert outcome.is_exact, "\n".join(outcome.lines())
    assert outcome.kills.total() == len(TABLE_MOVES)
    assert outcome.batches > 10
    assert outcome.counts["table-copy"].rows > 0


@pytest.mark.slow  # a short form of the soak
def test_copies_of_mariadb_tables_stay_exact_while_processes_and_the_server_are_killed(
    tmp_path: Path,
) -> None:
    with mysql_disasters(tmp_path, seed=27, kills=len(TABLE_MOVES), say=print) as disasters:
        outcome = disasters.run(TABLE_MOVES)
    assert outcome.is_exact, "\n".join(outcome.lines())
    assert outcome.kills.total() == len(TABLE_MOVES)
    assert outcome.batches > 10
    assert outcome.counts["mysql-copy"].rows > 0


TOPIC_MOVES = (BROKER, "worker", "driver", BROKER)


@pytest.mark.slow  # a short form of the soak
def test_copies_of_topics_stay_exact_while_processes_and_the_broker_are_killed(tmp_path: Path) -> None:
    with topic_disasters(
        tmp_path, seed=27, kills=len(TOPIC_MOVES), say=print, longest_pause_s=0.5
    ) as disasters:
        outcome = disasters.run(TOPIC_MOVES)
    assert outcome.is_exact, "\n".join(outcome.lines())
    assert outcome.kills.total() == len(TOPIC_MOVES)
    assert outcome.batches >= len(TOPIC_MOVES)
    assert outcome.counts["topic-copy"].rows > 0
