"""A query that reads the model server with the real assigner and the real rules for rows.

It imitates the enumerator and the coordinator: polls of the server are made first and applied later, several
of them at once if a batch ran meanwhile, a batch has chunks and at most one window, its tasks read at
different moments, and after a crash only the last checkpoint is left.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from flip27_source.enumerators.postgres.assigner import Assigner, AssignerState, Observation, TableProgress
from flip27_source.enumerators.postgres.poller import PollRequest
from flip27_source.enumerators.postgres.split import (
    ChunkRead,
    KeyColumn,
    LogRead,
    LogWindow,
    PostgresSplit,
    TableName,
)
from flip27_source.readers.postgres import delivered_changes as real
from flip27_source.readers.postgres.delivered_changes import DeliveredChanges
from flip27_source.readers.postgres.relations import Relation, RelationColumn
from flip27_source.snapshot_then_log.tables import Cut, Key
from tests.enumerators.postgres.model_server import ModelServer, Write
from tests.readers.postgres.changing import ranges_of

KEY = (KeyColumn(name="id", type="integer"),)
BOUNDS = (5, 10)

Row = tuple[int, int, str, int, int, int]
"""Position, index in the transaction, operation, table, key, value."""


def table_name(number: int) -> TableName:
    return TableName(oid=number, schema="public", name=f"t{number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a task: rows for the sink, and an event for the enumerator."""

    rows: tuple[Row, ...]
    event: ChunkRead | LogRead


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A checkpoint: the state of the assigner, the live splits, and the planned batch."""

    assigner: AssignerState
    start: int
    log_first: int
    live: tuple[PostgresSplit, ...]
    batch: tuple[PostgresSplit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """The result of a poll that is not applied yet."""

    seen: Observation
    new: tuple[int, ...]
    cuts: tuple[Cut, ...]


@dataclass
class ModelQuery:
    """One query. Its steps may be called in any order; a step that is not possible does nothing.

    Attributes:
        keeps_reports: a task that is repeated after a crash has new rows and the report of its first run.
        batches: the rows of each batch, as the sink received them.
        is_exact: false once rows have been read a second time.
        polled: the results of polls that are not applied yet.
        next_request: what the next poll is to find out, if it has begun; None if it has not.
        stale_cuts: how many results were applied whose bounds do not follow the present last bound.
        is_bounded: whether the present run ends.
        polled_again: how often runs that end have polled the server once more.
        left_out, ever_left: the tables that the option does not name now, or has not named for a while.
        missed: the rows that were deleted while their table was left out; without a key, all of a table.
    """

    server: ModelServer
    rng: random.Random
    keeps_reports: bool = False
    most_lag_bytes: int = 30
    batches: list[list[Row]] = field(default_factory=list)
    is_exact: bool = True
    assigner: Assigner = field(init=False)
    start: int = field(init=False)
    log_first: int = field(init=False)
    live: list[PostgresSplit] = field(default_factory=list)
    batch: tuple[PostgresSplit, ...] = ()
    done: dict[str, Done] = field(default_factory=dict)
    polled: list[Polled] = field(default_factory=list)
    next_request: PollRequest | None = None
    stored: Stored | None = None
    planned_ids: set[str] = field(default_factory=set)
    windows_beside_chunks: int = 0
    stale_cuts: int = 0
    is_bounded: bool = False
    polled_again: int = 0
    checks_horizon: bool = True
    left_out: set[int] = field(default_factory=set)
    ever_left: set[int] = field(default_factory=set)
    missed: set[tuple[int, int | None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.start = self.log_first = self.server.end
        self.assigner = self._assigner_of(AssignerState())
        for number in sorted(self.server.published):
            self.assigner.add(TableProgress.of(table_name(number), KEY))

    # Facts.

    def poll_server(self, tables: Iterable[int] = ()) -> None:
        """Poll the server, after these tables have been published."""
        request = self.next_request or self._request_of_poll()
        listed = tuple(sorted(tables))
        self.server.published |= set(listed)
        known = {table.oid for table in request.known}
        new = [(number, None) for number in listed if number not in known]
        if request.pending is not None:
            self.server.reach_id(request.pending.xid)
        seen = self.server.observe(makes_horizon=request.makes_horizon or bool(new))
        uncut = [(table.oid, last) for table, _, last in request.cut]
        self.polled.append(Polled(seen=seen, new=listed, cuts=tuple(self._cut(*one) for one in uncut + new)))
        # The next poll may begin before this result is applied and query the server afterwards.
        self.next_request = self._request_of_poll() if self.rng.random() < 0.3 else None

    def take_in(self) -> None:
        """Apply the results of all polls, in their order."""
        results, self.polled = self.polled, []
        for result in results:
            self.left_out -= set(result.new)
            added = [self.assigner.add(TableProgress.of(table_name(number), KEY)) for number in result.new]
            if any(added):
                self.assigner.renew_horizon()
            self.assigner.observe(result.seen)
            present = {progress.table.oid: progress.last_bound for progress in self.assigner.uncut}
            for cut in result.cuts:
                self.stale_cuts += cut.table_id not in present or present[cut.table_id] != cut.lower
                self.assigner.cut(cut)

    def _request_of_poll(self) -> PollRequest:
        uncut = self.assigner.uncut
        return PollRequest(
            makes_horizon=self.assigner.wants_horizon,
            pending=self.assigner.pending,
            cut=tuple((progress.table, progress.key, progress.last_bound) for progress in uncut),
            known=tuple(self.assigner.known),
        )

    def _cut(self, oid: int, last: Key | None) -> Cut:
        left = [bound for bound in BOUNDS if last is None or bound > int(last[0])]
        some = left if self.is_bounded else left[: self.rng.randint(0, len(left))]
        bounds = tuple(((str(bound),), 5) for bound in some)
        return Cut(table_id=oid, lower=last, bounds=bounds, is_end=len(some) == len(left))

    # Batches.

    def plan(self) -> None:
        """Plan a batch, and store it with the state in a checkpoint."""
        if self.batch:
            return
        asks_first = self.rng.random() < 0.5
        if asks_first:
            self._request()
        planned = [split for split in self.live if self.rng.random() < 0.7]
        window = self._window()
        if not asks_first:
            self._request()
        self.live = [split for split in self.live if split not in planned]
        self.batch = (*planned, *window)
        self.planned_ids |= {split.split_id for split in self.batch}
        self.windows_beside_chunks += bool(window) and self.assigner.reads_chunks
        if self.batch:
            self._store()

    def read_some(self) -> None:
        """Let one task of the batch read."""
        missing = [split for split in self.batch if split.split_id not in self.done]
        if missing:
            split = self.rng.choice(missing)
            if not self._waits(split):
                self.done[split.split_id] = self._read(split)

    def complete(self) -> None:
        """Complete the batch if all of its tasks have read: rows go to the sink, events to the enumerator."""
        if not self.batch or len(self.done) < len(self.batch):
            return
        self.batches.append([row for done in self.done.values() for row in done.rows])
        events = [done.event for done in self.done.values()]
        self.rng.shuffle(events)
        self.batch, self.done = (), {}
        for event in events:
            if isinstance(event, ChunkRead):
                self.assigner.mark(event.split_id, event.snapshot)
            else:
                self.is_exact = self.is_exact and not event.truncated
                self.assigner.log_read(event)
                self.start = event.end

    def run_to_end(self, write: Callable[[], None]) -> bool:
        """Start again as a run that ends, while others write.

        Return whether it has read exactly what was there at its start.
        """
        if self.stored is None:
            return True
        self.is_bounded = True
        self.crash()
        end = self._poll_until_settled()
        for _ in range(300):
            write()
            if self.polled:
                self.assigner.end_at(self.polled[-1].seen.end)
                self.take_in()
            self.plan()
            for _ in range(len(self.batch)):
                self.read_some()
            self.complete()
            if self.polls_again:
                self._poll_until_settled()
                self.polled_again += 1
            is_idle = not (self.batch or self.live or self.assigner.reads_chunks)
            if is_idle and self.log_first >= end:
                break
        has_read = is_idle and self.log_first == end
        self.is_bounded = False
        self.crash()
        return has_read

    @property
    def polls_again(self) -> bool:
        """Whether a run that ends polls the server once more."""
        return self.assigner.is_stopped and not self.polled

    def _poll_until_settled(self) -> int:
        """Poll as a run that ends: until the horizon has settled. Return the end of the log by then."""
        pending = (self.next_request or self._request_of_poll()).pending
        self.poll_server()
        self.next_request = None
        horizon = self.polled[-1].seen.horizon or pending
        if horizon is not None and self.polled[-1].seen.xmin <= horizon.xid:
            self.server.end_all()
            self.polled.append(Polled(seen=self.server.observe(makes_horizon=False), new=(), cuts=()))
        return self.polled[-1].seen.end

    def leave_out(self, table: int) -> None:
        """Start again with an option that does not name the table, until a poll lists it again."""
        if self.stored is not None and table in self.server.published:
            self.left_out.add(table)
            self.ever_left.add(table)
            self.is_exact = False
            self.crash()

    def crash(self) -> None:
        """Forget everything except the last checkpoint and, possibly, the reports of its tasks."""
        if self.stored is None:
            return
        is_complete = not self.batch
        self.polled, self.next_request = [], None
        self.assigner = self._assigner_of(self.stored.assigner, start=self.stored.start)
        self.start, self.log_first = self.stored.start, self.stored.log_first
        self.live, self.batch = list(self.stored.live), self.stored.batch
        if is_complete:
            # The batch is in the commit log: its reports are delivered again.
            self.batch, self.done = self.stored.batch, self._completed
            self.batches.pop()
            if self.rng.random() < 0.5:
                # The first poll begins before the reports are processed.
                self.next_request = self._request_of_poll()
            self.complete()
        elif self.keeps_reports:
            again = {split_id: done for split_id, done in self.done.items() if self.rng.random() < 0.7}
            self.is_exact = self.is_exact and not again
            splits = {split.split_id: split for split in self.batch}
            self.done = {
                split_id: Done(rows=self._read(splits[split_id]).rows, event=done.event)
                for split_id, done in again.items()
            }
        else:
            self.done = {}
        self.assigner.keep(lambda table: table.oid not in self.left_out)

    @property
    def is_caught_up(self) -> bool:
        assigner = self.assigner
        return not (self.batch or self.live or assigner.reads_chunks) and self.log_first >= self.server.end

    _completed: dict[str, Done] = field(default_factory=dict)

    def _request(self) -> None:
        for _ in range(self.rng.randint(0, 3)):
            split = self.assigner.next_chunk()
            if split is not None:
                assert split.split_id not in {other.split_id for other in (*self.live, *self.batch)}
                self.live.append(split)

    def _window(self) -> list[PostgresSplit]:
        self.assigner.reads_up_to(self.log_first)
        window = self.assigner.window(self.log_first, self.rng.choice([None, None, 40]))
        if window is None or window.end is None:
            return []
        self.log_first = window.end
        return [PostgresSplit(split_id="log", log=window)]

    def _store(self) -> None:
        self.stored = Stored(
            assigner=self.assigner.stored(),
            start=self.start,
            log_first=self.log_first,
            live=tuple(self.live),
            batch=self.batch,
        )
        self._completed = {}

    def _read(self, split: PostgresSplit) -> Done:
        done = self._chunk(split) if split.log is None else self._log(split.log)
        self._completed = {**self._completed, split.split_id: done}
        return done

    def _chunk(self, split: PostgresSplit) -> Done:
        chunk = split.chunk
        assert chunk is not None
        snapshot = self.server.snapshot()
        assert snapshot.xmin > chunk.horizon or not self.checks_horizon
        lower = int(chunk.lower[0]) if chunk.lower else -1
        upper = int(chunk.upper[0]) if chunk.upper else 1 << 30
        rows = self.server.rows(chunk.table.oid, snapshot)
        reported = self.reported_snapshot()
        self.keep_ids()
        return Done(
            rows=tuple(
                (chunk.lsn, 0, "r", chunk.table.oid, key, value)
                for key, value in sorted(rows.items())
                if lower <= key < upper
            ),
            event=ChunkRead(split_id=split.split_id, snapshot=reported, rows=len(rows)),
        )

    def _waits(self, split: PostgresSplit) -> bool:
        """Return whether a chunk waits for a transaction whose id was assigned again after a kill."""
        if split.chunk is None or not self.server.was_killed:
            return False
        self.server.reach_id(split.chunk.horizon)
        return self.server.snapshot().xmin <= split.chunk.horizon

    def keep_ids(self) -> None:
        """Make sure that no id that a chunk's snapshot regards as ended is assigned again."""
        self.server.flush()

    def reported_snapshot(self) -> str:
        """Return the snapshot in which a chunk is read now."""
        return str(self.server.snapshot())

    def _log(self, window: LogWindow) -> Done:
        assert window.end is not None
        rules = {rules.table.oid: rules for rules in window.rules}
        rows: list[Row] = []
        truncated = []
        writes = [
            (transaction.commit or 0, seq, transaction.xid, write)
            for transaction in self.server.window(window.first, window.end)
            for seq, write in enumerate(transaction.writes, 1)
            if write.is_published
        ]
        for table in sorted({write.table for _, _, _, write in writes}):
            own = [found for found in writes if found[3].table == table]
            is_known = window.known is None or table in window.known
            mask = [is_known] * len(own)
            if table in rules:
                found = changes_of(own)
                mask = real.are_delivered(found, rules[table], [0], ranges_of).tolist()
                if real.is_truncated_between(found, rules[table]):
                    truncated.append(table)
            elif not is_known and table in self.ever_left:
                writes_of_table = (write for *_, write in own)
                self.missed |= {
                    (table, None if w.op == "t" else w.key) for w in writes_of_table if w.op in "dt"
                }
            rows += [
                (lsn, seq, write.op, table, write.key, write.value)
                for (lsn, seq, _, write), is_kept in zip(own, mask, strict=True)
                if is_kept
            ]
        event = LogRead(first=window.first, end=window.end, rows=len(rows), truncated=tuple(truncated))
        return Done(rows=tuple(rows), event=event)

    def _assigner_of(self, state: AssignerState, *, start: int | None = None) -> Assigner:
        return Assigner(
            state,
            start=self.start if start is None else start,
            most_chunks=4,
            most_lag_bytes=self.most_lag_bytes,
        )


def changes_of(writes: Sequence[tuple[int, int, int, Write]]) -> DeliveredChanges:
    """Return the writes of one table as the reader represents them, with ids widened from 32 bits."""
    table = writes[0][3].table
    column = RelationColumn(name="id", type_oid=23, type_modifier=-1, is_key=True)
    keys = [None if write.op == "t" else str(write.key) for *_, write in writes]
    is_delete = np.array([write.op == "d" for *_, write in writes])
    xids = np.array([xid & 0xFFFFFFFF for _, _, xid, _ in writes], dtype=np.int64)
    none = pa.nulls(len(writes), pa.string())
    texts = pa.array(keys, pa.string())
    return DeliveredChanges(
        relation=Relation(
            oid=table, schema="public", name=f"t{table}", replica_identity="d", columns=(column,)
        ),
        op=np.array([ord(write.op) for *_, write in writes], dtype=np.uint8),
        lsn=np.array([lsn for lsn, *_ in writes], dtype=np.int64),
        seq=np.array([seq for _, seq, *_ in writes], dtype=np.int64),
        xid=real.widened(xids, writes[-1][2] + 20),
        committed_at=np.zeros(len(writes), dtype=np.int64),
        after=[pa.array([None if d else k for d, k in zip(is_delete, keys, strict=True)], pa.string())],
        before=[texts if is_delete.any() else none],
        has_before=is_delete,
        unchanged=[None],
    )
