"""Random interleavings of writers, polls, tasks and crashes: the copy is the table, no change comes twice.

A simpler version of any of the assigner's rules is found to lose or to repeat changes.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace

import numpy as np
import pytest

from flip27_source.snapshot_then_log import delivery
from flip27_source.snapshot_then_log.assigner import PositionAssigner, SnapshotThenLog
from flip27_source.snapshot_then_log.tables import TableProgress
from tests.mutating import Patch, assert_found, replacing
from tests.snapshot_then_log.table_in_chunks import STEP, Change, Progress, Query, Server, copy_of

SEEDS = int(os.environ.get("FLIP27_MODEL_SEEDS", "300"))
MOST_SEEDS = 2_000
"""The number of seeds that are tried at most to find a defect."""


def simulate(seed: int) -> Query:
    """Play one history: a writer writes while a query reads; then both come to rest."""
    rng = random.Random(seed)
    server = Server()
    for key in range(0, 15, 2):
        server.write(key, key)
    server.visible = len(server.log)
    query = Query(server, rng)
    steps = [query.poll, query.plan, query.read, query.read, query.complete, query.crash]
    weights = [0.02 + rng.random() for _ in steps]
    empties = rng.choice([0.0, 0.03])
    for _ in range(rng.randint(30, 150)):
        if rng.random() < empties:
            server.empty()
        elif rng.random() < 0.6:
            server.write(rng.randrange(15), rng.choice([None, rng.randrange(1000)]))
        if rng.random() < 0.3:
            server.visible = rng.randint(server.visible, len(server.log))
        rng.choices(steps, weights)[0]()
    come_to_rest(server, query)
    events = [change for batch in query.delivered for change in batch if change[1] != "r"]
    assert len(events) == len(set(events)), "a change was delivered twice"
    for batches in ([chain(query.delivered)], query.delivered):
        # In a batch, rows of a chunk come before the change at their position.
        ordered = [sorted(batch, key=lambda change: (change[0], change[1] != "r")) for batch in batches]
        assert copy_of(chain(ordered), is_exact=query.is_exact) == server.rows(len(server.log))
    return query


def chain(batches: list[list[Change]]) -> list[Change]:
    return [change for batch in batches for change in batch]


def come_to_rest(server: Server, query: Query) -> None:
    server.visible = len(server.log)
    for _ in range(200):
        for step in (query.poll, query.plan, *[query.read] * 4, query.complete):
            step()
        if query.is_caught_up:
            return
    raise AssertionError("the query does not catch up")


@pytest.mark.parametrize("part", range(4))
def test_the_copy_is_the_table_in_every_interleaving(part: int) -> None:
    for seed in range(part, SEEDS, 4):
        try:
            simulate(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def test_the_histories_read_log_beside_chunks_and_chunks_again() -> None:
    queries = [simulate(seed) for seed in range(60)]
    assert {query.is_exact for query in queries} == {True, False}
    assert sum(query.windows_beside_chunks for query in queries) > 50


def the_last_mark_of_a_chunk_counts(patch: pytest.MonkeyPatch) -> None:
    original = TableProgress.after_read

    def after_read(self: Progress, split_id: str, number: int, mark: str) -> Progress:
        found = original(self, split_id, number, mark)
        marks = (*found.snapshots[:number], mark, *found.snapshots[number + 1 :])
        return replace(found, snapshots=marks)

    patch.setattr(TableProgress, "after_read", after_read)


def chunks_are_assigned_with_what_no_snapshot_sees_yet(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Server, "known_end", property(lambda self: STEP * len(self.log)))
    patch.setattr(Query, "checks_barrier", False)


def rules_are_dropped_once_all_chunks_are_read(patch: pytest.MonkeyPatch) -> None:
    original = PositionAssigner.note_past
    patch.setattr(PositionAssigner, "note_past", lambda self, _: original(self, lambda _progress: 0))


SIMPLE_DEFECTS: dict[str, tuple[object, str, object]] = {
    "emptied_tables_are_not_read_again": (SnapshotThenLog, "read_again", lambda *_: None),
    "rows_of_every_chunk_have_the_rule_of_the_first": (delivery, "are_delivered", lambda has, *_: ~has[0]),
    "changes_of_unread_chunks_are_delivered": (
        delivery,
        "are_delivered",
        lambda _, empties, __: np.ones(len(empties), np.bool_),
    ),
    "neighbouring_chunks_share_a_rule": (TableProgress, "ranges", lambda self: ((), self.snapshots[:1])),
}
"""An attribute that is replaced, and its wrong value."""

DEFECTS: list[Patch] = [
    *(replacing(name, *what) for name, what in SIMPLE_DEFECTS.items()),
    the_last_mark_of_a_chunk_counts,
    chunks_are_assigned_with_what_no_snapshot_sees_yet,
    rules_are_dropped_once_all_chunks_are_read,
]


@pytest.mark.slow  # it tests the model itself
@pytest.mark.parametrize("defect", DEFECTS)
def test_every_defect_is_found(defect: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)
    assert_found(simulate, MOST_SEEDS)
