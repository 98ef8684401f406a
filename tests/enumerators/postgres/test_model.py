"""Random interleavings of writers, polls, tasks, crashes: the copy equals the table, no change comes twice.

A simpler version of any of the assigner's rules is found to lose or invent rows.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from flip27_source.enumerators.postgres import assigner as real_assigner
from flip27_source.enumerators.postgres.assigner import Assigner, Horizon, Observation
from flip27_source.enumerators.postgres.chunk_transactions import TransactionSnapshot
from flip27_source.enumerators.postgres.split import LogRead, TableName
from flip27_source.readers.postgres import delivered_changes
from flip27_source.snapshot_then_log.tables import Cut
from tests.enumerators.postgres.model_query import ModelQuery, Row
from tests.enumerators.postgres.model_server import ModelServer, Snapshot
from tests.mutating import Patch, assert_found, replacing

SEEDS = int(os.environ.get("FLIP27_MODEL_SEEDS", "300"))
MOST_SEEDS = 3_000
"""The number of seeds that are tried at most to find a defect."""

_OPS_IN_ORDER = "dcurt"


class WrongCopyError(AssertionError):
    """The copy differs from the table."""


def simulate(seed: int) -> ModelQuery:
    """Play one history: sessions write while a query reads; then both come to rest."""
    rng = random.Random(seed)
    server = ModelServer()
    server.published.add(1)
    for table in (1, 2):
        server.begin()
        for key in range(0, 15, 2):
            server.write(server.running[-1], table, key, 2)
        server.write_commit(server.running[-1])
        server.end_of(server.running[-1])
    query = ModelQuery(server, rng, keeps_reports=rng.random() < 0.3, most_lag_bytes=rng.choice([0, 30, 200]))
    truncates = rng.random() < 0.4
    weights = [0.02 + rng.random() for _ in range(6)]
    if rng.random() < 0.5:
        weights[5] = 0.0  # no crash
    weights.append(rng.choice([0.0, 0.0, 0.1]))
    kills = rng.choice([0.0, 0.0, 0.05])
    ends = rng.choice([0.0, 0.2])
    for step in range(rng.randint(30, 200)):
        write(server, rng, truncates=truncates)
        if rng.random() < kills:
            server.kill()
        act(query, rng, weights, new_tables=step > 20)
        while rng.random() < ends:
            if not query.run_to_end(lambda: write_or_empty(server, rng, truncates=truncates)):
                raise WrongCopyError("a run that ends has not read exactly what was there at its start")
    come_to_rest(server, query)
    check(server, query)
    return query


def write(server: ModelServer, rng: random.Random, *, truncates: bool) -> None:
    """Do one step of the writers."""
    what = rng.random()
    if not server.running or (what < 0.15 and len(server.running) < 4):
        server.begin()
        return
    transaction = rng.choice(server.running)
    if what < 0.55:
        for _ in range(rng.randint(1, 3)):
            server.write(transaction, rng.choice([1, 1, 2]), rng.randrange(15), rng.randrange(4))
    elif what < 0.6 and truncates:
        server.truncate(transaction, rng.choice([1, 2]))
    elif what < 0.8:
        server.write_commit(transaction)
    elif transaction.commit is not None or what < 0.85:
        server.end_of(transaction)


def write_or_empty(server: ModelServer, rng: random.Random, *, truncates: bool) -> None:
    """Do one step of the writers; often a whole transaction with a TRUNCATE, which others would delay."""
    if truncates and rng.random() < 0.3:
        server.end_all()
        server.begin()
        server.truncate(server.running[-1], rng.choice([1, 2]))
        server.end_all()
    else:
        write(server, rng, truncates=truncates)


def act(query: ModelQuery, rng: random.Random, weights: list[float], *, new_tables: bool) -> None:
    """Do one step of the query."""
    tables = {2} if new_tables and rng.random() < 0.3 else set()
    (step,) = rng.choices(
        [
            lambda: query.poll_server(tables),
            query.take_in,
            query.plan,
            query.read_some,
            query.complete,
            query.crash,
            lambda: query.leave_out(2),
        ],
        weights,
    )
    step()


def come_to_rest(server: ModelServer, query: ModelQuery) -> None:
    """End all transactions, and let the query read everything."""
    server.end_all()
    server.flush()
    for _ in range(300):
        query.poll_server(server.published)
        query.take_in()
        query.plan()
        for _ in range(len(query.batch)):
            query.read_some()
        query.complete()
        if query.is_caught_up:
            return
    raise WrongCopyError("the query does not catch up")


def check(server: ModelServer, query: ModelQuery) -> None:
    """Check copies of all tables, made in the order of commits and in the order of batches."""
    changes = [row for batch in query.batches for row in batch]
    events = [row[:5] for row in changes if row[2] != "r"]
    if len(events) != len(set(events)):
        raise WrongCopyError("a change was delivered twice")
    values = [row[3:] for row in changes if row[2] in "rcu"]
    if query.is_exact and len(values) != len(set(values)):
        raise WrongCopyError("a change in a chunk was delivered as well")
    table = {
        (number, key): value
        for number in sorted(server.published)
        for key, value in server.rows(number, server.snapshot()).items()
    }
    by_commit = copy_of([sorted(changes, key=order)], is_exact=query.is_exact)
    by_batch = copy_of([sorted(batch, key=order) for batch in query.batches], is_exact=query.is_exact)
    for name, copy in (("commits", by_commit), ("batches", by_batch)):
        for key in copy.keys() - table.keys():
            if {key, (key[0], None)} & query.missed:
                del copy[key]
        if copy != table:
            wrong = sorted(set(copy.items()) ^ set(table.items()))
            raise WrongCopyError(f"in the order of {name}, the copy differs from the table: {wrong}")


def order(row: Row) -> tuple[int, int, int]:
    return row[0], row[1], _OPS_IN_ORDER.index(row[2])


def copy_of(batches: list[list[Row]], *, is_exact: bool) -> dict[tuple[int, int], int]:
    """Apply the changes; if the copy is exact, each must fit."""
    rows: dict[tuple[int, int], int] = {}
    for row in (row for batch in batches for row in batch):
        _, _, op, table, key, value = row
        if op == "t":
            for at in [at for at in rows if at[0] == table]:
                del rows[at]
            continue
        if is_exact and ((table, key) in rows) != (op in "ud"):
            raise WrongCopyError(f"{row} does not fit")
        if op == "d":
            rows.pop((table, key), None)
        else:
            rows[table, key] = value
    return rows


@pytest.mark.slow
def test_the_copy_equals_the_table_in_every_interleaving() -> None:
    for seed in range(SEEDS):
        try:
            simulate(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_the_interleavings_reach_the_cases_that_matter() -> None:
    exact = again = windows_beside_chunks = stale_cuts = polled_again = 0
    for seed in range(150):
        query = simulate(seed)
        exact += query.is_exact
        again += any(".1/" in split_id for split_id in query.planned_ids)
        windows_beside_chunks += query.windows_beside_chunks > 0
        stale_cuts += query.stale_cuts > 0
        polled_again += query.polled_again > 0
    assert exact > 20
    assert again > 1
    assert windows_beside_chunks > 10
    assert stale_cuts > 30
    assert polled_again > 1


def commits_are_compared_by_position(patch: pytest.MonkeyPatch) -> None:
    """Flink CDC's rule: a chunk contains the changes that are in the log before the chunk is read."""

    def snapshot(self: ModelServer) -> Snapshot:
        logged = {t.xid for t in self.log}
        seen = _snapshot(self)
        open_ids = tuple(xid for xid in seen.in_progress if xid not in logged)
        newest = max([seen.xmax, *(xid + 1 for xid in logged)])
        more = {t.xid for t in self.running if t.commit is None and t.xid < newest}
        return Snapshot(xmin=seen.xmin, xmax=newest, in_progress=tuple(sorted({*open_ids, *more})))

    _snapshot = ModelServer.snapshot
    patch.setattr(ModelQuery, "reported_snapshot", lambda self: str(snapshot(self.server)))


def a_horizon_settles_at_once(patch: pytest.MonkeyPatch) -> None:
    def observe(self: Assigner, seen: Observation) -> None:
        _observe(self, Observation(end=seen.end, xmin=1 << 60, lsn_after=1 << 60, horizon=seen.horizon))
        self._past_at.clear()

    _observe = Assigner.observe
    patch.setattr(Assigner, "observe", observe)
    patch.setattr(ModelQuery, "checks_horizon", False)


def windows_go_beyond_the_horizon_of_a_chunk_that_is_not_read(patch: pytest.MonkeyPatch) -> None:
    def window(self: Assigner, first: int, most_bytes: int | None) -> object:
        tables, settled = self._tables, self._settled
        self._tables = {oid: replace(one, assigned={}) for oid, one in self._tables.items()}
        found = _window(self, first, most_bytes)
        self._tables, self._settled = tables, settled
        return found

    _window = Assigner.window
    patch.setattr(Assigner, "window", window)


def windows_go_beyond_the_newest_horizon(patch: pytest.MonkeyPatch) -> None:
    def window(self: Assigner, first: int, most_bytes: int | None) -> object:
        settled = self._settled
        if settled is not None:
            self._settled = Horizon(lsn=1 << 60, xid=settled.xid)
        found = _window(self, first, most_bytes)
        self._settled = settled
        return found

    _window = Assigner.window
    patch.setattr(Assigner, "window", window)


def rules_are_dropped_wherever_the_log_is(patch: pytest.MonkeyPatch) -> None:
    def observe(self: Assigner, seen: Observation) -> None:
        _observe(self, Observation(end=seen.end, xmin=seen.xmin, lsn_after=0, horizon=seen.horizon))

    _observe = Assigner.observe
    patch.setattr(Assigner, "observe", observe)


def a_table_is_read_anew_after_a_truncate(patch: pytest.MonkeyPatch) -> None:
    """First snapshots are dropped: deletes between the two reads are seen by the second, not delivered."""

    def log_read(self: Assigner, event: LogRead) -> None:
        self.reads_up_to(event.end)
        for oid in event.truncated:
            found = self._tables.get(oid)
            if found is not None:
                self._past_at.pop(oid, None)
                self._tables[oid] = real_assigner.TableProgress(
                    table=found.table, key=found.key, generation=found.generation + 1
                )

    def split_id(self: real_assigner.TableProgress, number: int) -> str:
        return f"{self.table}/{self.table.oid}.{self.generation}/{number}"

    patch.setattr(Assigner, "log_read", log_read)
    patch.setattr(real_assigner.TableProgress, "split_id", split_id)


def the_last_snapshot_of_a_chunk_counts(patch: pytest.MonkeyPatch) -> None:
    def mark(self: Assigner, split_id: str, snapshot: str) -> bool:
        was_assigned = _mark(self, split_id, snapshot)
        for oid, progress in self._tables.items():
            number = int(split_id.rpartition("/")[2])
            if split_id.startswith(f"{progress.table}/"):
                snapshots = list(progress.snapshots)
                snapshots[number] = snapshot
                self._tables[oid] = replace(progress, snapshots=tuple(snapshots))
        return was_assigned

    _mark = Assigner.mark
    patch.setattr(Assigner, "mark", mark)


def a_table_that_was_left_out_comes_back_as_a_new_one(patch: pytest.MonkeyPatch) -> None:
    def keep(self: Assigner, is_wanted: Callable[[TableName], bool]) -> None:
        _keep(self, is_wanted)
        self._left.clear()

    _keep = Assigner.keep
    patch.setattr(Assigner, "keep", keep)


def chunks_of_a_table_that_was_left_out_see_all_of_its_changes(patch: pytest.MonkeyPatch) -> None:
    """Deletes between the poll that adds the table again and the read of the chunk are not delivered."""
    patch.setattr(real_assigner.TableProgress, "sees_nothing", None)


def bounds_are_added_whatever_precedes_them(patch: pytest.MonkeyPatch) -> None:
    def cut(self: Assigner, cut: Cut) -> None:
        found = self._tables.get(cut.table_id)
        if found is not None:
            self._tables[cut.table_id] = replace(found, is_cut=False)
            _cut(self, replace(cut, lower=found.last_bound))

    _cut = Assigner.cut
    patch.setattr(Assigner, "cut", cut)


SIMPLE_DEFECTS: dict[str, tuple[object, str, object]] = {
    "a_run_that_ends_polls_once": (ModelQuery, "polls_again", False),
    "the_end_of_a_run_moves_with_every_poll": (
        Assigner, "end_at", lambda self, lsn: setattr(self, "_most_end", lsn)
    ),
    "ids_of_a_chunk_are_assigned_again": (ModelQuery, "keep_ids", lambda _query: None),
    "an_old_horizon_still_counts": (
        Assigner, "has_barrier", property(lambda self: self.barrier is not None)
    ),
    "a_new_table_is_read_with_an_old_horizon": (Assigner, "renew_horizon", lambda _: None),
    "chunks_are_not_read_again_after_a_truncate": (
        Assigner, "log_read", lambda self, event: self.reads_up_to(event.end)
    ),
    "ids_lose_their_epoch": (delivered_changes, "widened", lambda xids, _: xids),
    "transactions_in_progress_count_as_seen": (
        TransactionSnapshot, "sees", lambda self, xids: np.asarray(xids) < self.xmax
    ),
    "snapshots_see_only_what_ended_below_their_xmin": (
        TransactionSnapshot, "sees", lambda self, xids: np.asarray(xids) < self.xmin
    ),
}  # fmt: skip
"""An attribute that is replaced, and its wrong value."""

DEFECTS: list[Patch] = [
    *(replacing(name, *what) for name, what in SIMPLE_DEFECTS.items()),
    bounds_are_added_whatever_precedes_them,
    commits_are_compared_by_position,
    a_horizon_settles_at_once,
    windows_go_beyond_the_horizon_of_a_chunk_that_is_not_read,
    windows_go_beyond_the_newest_horizon,
    rules_are_dropped_wherever_the_log_is,
    a_table_is_read_anew_after_a_truncate,
    the_last_snapshot_of_a_chunk_counts,
    a_table_that_was_left_out_comes_back_as_a_new_one,
    chunks_of_a_table_that_was_left_out_see_all_of_its_changes,
]


@pytest.mark.slow  # it tests the model itself
@pytest.mark.parametrize("defect", DEFECTS)
def test_every_defect_is_found(defect: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)
    assert_found(simulate, MOST_SEEDS)
