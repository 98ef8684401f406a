"""Processes are killed while tables are copied: a short form of ``make soak ARGS="--postgres 50"``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres_server import NEWEST
from tests.soak.table_disasters import table_disasters

MOVES = ("server", "worker", "driver", "server")


@pytest.mark.slow  # a short form of the soak
def test_copies_of_tables_stay_exact_while_processes_and_the_server_are_killed(tmp_path: Path) -> None:
    with table_disasters(tmp_path, seed=27, kills=len(MOVES), version=NEWEST, say=print) as disasters:
        outcome = disasters.run(MOVES)
    assert outcome.is_exact, "\n".join(outcome.lines())
    assert outcome.kills.total() == len(MOVES)
    assert outcome.batches > 10
    assert outcome.counts["table-copy"].rows > 0
