"""The protocol without Spark: a world of drivers, attempts and logs that can play any order of moves.

All code that makes decisions is the real one: CoordinatorHolder, SourceCoordinator, the documents, the
reports, the reading of subtasks. The world adds Spark (the offset log and the commit log), a toy source,
crashes, and a record of what must be true, with which the checks in ``invariants`` compare the results.

    T       latestOffset, then the offset log: triggered, frozen, durable, planned
    X       latestOffset again with the older start: the pending checkpoint is aborted (R8)
    K       the driver crashes in latestOffset, after the document is written and before the offset is
    G Q H   latestOffset fails: in snapshot_state, in handle_split_request, in writing the document
    e0 e1   the enumerator sends the next event to that subtask
    r0 r1   the running attempt of that subtask sends an event
    A0 A1   that attempt succeeds, so its report is written
    F0 F1   that attempt fails, or its result is lost: the next one begins; the old one may still be running
    L       the oldest of the attempts that "may still be running" ends
    C       all tasks have succeeded: the commit log
    N       commit(): the source is notified that the batch is complete, before the next latestOffset
    D       the driver crashes; a new one replays the batch that is not committed
    Z       the driver that was replaced last continues as if nothing had happened
    S       a user requests a replay of what subtask 0 has read first; the current driver finds the request
    W       a poll for requests that this driver began before the request was deleted ends

Edits are requested once in a world, and only if pieces are read whole: other replays would move positions.

Trigger and freeze are one move because here they are one call; what can be sent in between (by
``snapshot_state``) is sent at checkpoint 1. Marking and closing the gateway have their own exhaustive
test in ``tests/coordination/test_gateway.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flip27_source.coordination.batch_limits import Limits
from flip27_source.coordination.edit_values import EditOperation, EditRequest
from flip27_source.coordination.gateway import GatewayState
from flip27_source.driver.environment import Environment
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.errors import (
    AttemptError,
    MissingReportError,
    MissingStateError,
    StaleDriverError,
    StateLocationError,
)
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.snapshots.request_mailbox import Mailbox
from flip27_source.snapshots.store import MemoryStore
from flip27_source.source import Source
from flip27_source.testing.inline_environment import InlineActions
from flip27_source.testing.spark_query import SparkQuery
from flip27_source.testing.spark_side import as_text, as_value
from tests.driver.batches import SCHEMA
from tests.model.documents import Doc, Json, parsed
from tests.model.processes import ModelRunner, PollEnd
from tests.model.toys import ROWS_TO_THE_END, STAGE, Echo, Exchange, InjectedError, PagedExchange, Pages

RETAINED = 2
_OPTIONS = {"retainedCheckpoints": str(RETAINED)}
SOURCES = {
    "whole": Source.resolve(_OPTIONS, enumerator=Exchange, reader=Echo),
    "paged": Source.resolve({**_OPTIONS, "pollInterval": "0s"}, enumerator=PagedExchange, reader=Pages),
    "quarantine": Source.resolve(
        {**_OPTIONS, "onSplitError": "quarantine", "maxSplitAttempts": "1"}, enumerator=Exchange, reader=Echo
    ),
}
"""Pieces that are read whole, pieces that the reader bounds, and pieces of which some cannot be read."""

NOTHING = "nothing"
REQUEST = "00000000-0000-0000-0000-000000000000"
MOST_PONGS = 2
MOST_LATE = 2


class ModelStore(MemoryStore):
    """A store that fails to write documents while ``full`` is set, and that numbers lineages."""

    def __init__(self) -> None:
        super().__init__()
        self.lineages = 0
        self.full = False

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        if self.full and "/checkpoints/" in name:
            raise StateLocationError("no room")
        return super().create(name, data, exclusive=exclusive)

    def new_random(self) -> str:
        self.lineages += 1
        return f"{self.lineages:016x}"

    def copy(self) -> ModelStore:
        other = ModelStore()
        other.files.update(self.files)
        other.lineages = self.lineages
        return other


class HidesReport(MemoryStore):
    """The store as it looks to an attempt that began before the report was written."""

    def __init__(self, store: ModelStore) -> None:
        super().__init__()
        self._store = store
        self._hidden = True

    def read(self, name: str, limit: int | None = None) -> bytes:
        if "/reports/" in name and self._hidden:
            self._hidden = False
            return super().read(name, limit)
        return self._store.read(name, limit)

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        return self._store.create(name, data, exclusive=exclusive)

    def replace(self, name: str, data: bytes) -> None:
        self._store.replace(name, data)

    def list(self, folder: str) -> list[str]:
        return self._store.list(folder)


class Parts:
    """What the world gives to one driver: its environment, and the runners that the driver has made."""

    def __init__(self, store: ModelStore, cores: int) -> None:
        self._store = store
        self._cores = cores
        self.runners: list[ModelRunner] = []

    def new_runner(self) -> ModelRunner:
        self.runners = [runner for runner in self.runners if not runner.is_closed]
        self.runners.append(ModelRunner())
        return self.runners[-1]

    def environment(self) -> Environment:
        return Environment(
            now_ms=_no_time,
            steady_ms=_no_time,
            new_random=self._store.new_random,
            cores=self._cores,
            new_runner=self.new_runner,
            new_actions=InlineActions,
            run_in_background=_at_once,
        )


def _no_time() -> int:
    return 0


def _at_once(work: Callable[[], None]) -> None:
    work()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a subtask.

    Attributes:
        doc: the document whose plan it reads. number: Spark's attempt number.
        tag: distinguishes the attempts of this subtask, for all drivers and documents of this name.
        saw_report: a report existed when it began. ended: it has succeeded.
    """

    task: PlannedSubtask
    doc: Doc
    number: int
    tag: int
    pongs: int = 0
    saw_report: bool = False
    ended: bool = False

    @property
    def subtask(self) -> int:
        return self.task.subtask_id

    @property
    def key(self) -> tuple[str, int]:
        """The document's file and the subtask, which identify its report."""
        return (self.doc.file, self.subtask)

    @property
    def texts(self) -> list[str]:
        """The texts that it sends, which contain batch, document, subtask and attempt."""
        return [f"{self.doc.name[:8]}/{self.subtask}/{self.tag}/{q}" for q in range(self.pongs)]

    @property
    def rows(self) -> int:
        """The number of rows that the pages have for this attempt: later attempts find more."""
        return self.task.checkpoint_id + self.tag


@dataclass(slots=True)
class Step:
    """The effects of one move, for the checks."""

    move: str
    made: Doc | None = None
    error: Exception | None = None
    files_before: dict[str, bytes] = field(default_factory=dict)
    enumerator_before: Any = None
    reference: str | None = None
    """The name of the document that a restart from the same start makes."""
    retried: str | None = None
    """The name of the document, or the error, of the same driver's next call after a failed one."""
    ran: Attempt | None = None
    rows: list[str] | None = None
    received: list[tuple[int, int]] = field(default_factory=list)
    performed: list[str] = field(default_factory=list)
    replanned: tuple[list[PlannedSubtask], list[PlannedSubtask]] | None = None
    zombie_wrote: list[str] = field(default_factory=list)
    misopened: list[str] = field(default_factory=list)
    sent_through: list[GatewayState] = field(default_factory=list)
    sent_at_freeze: list[int] = field(default_factory=list)
    late_events: int = 0


class World(SparkQuery):
    """One query, its drivers and its attempts.

    Attributes:
        enumerator: the enumerator of the current driver; None if the driver has none.
        drives: whether the current driver has told the others that it drives.
    """

    def __init__(self, kind: str = "whole", *, subtasks: int = 2, limits: Limits | None = None) -> None:
        self.kind = kind
        self.subtasks = subtasks
        self.limits = limits or Limits()
        self.files = ModelStore()
        super().__init__(SOURCES[kind], SCHEMA, self.files)
        self.zombie: CoordinatorHolder | None = None
        self.zombie_at: tuple[Json, Json] = (self.committed, self.logged)
        self.zombie_drives = False
        self.chain: tuple[Doc, ...] = ()
        # The current batch.
        self.tasks: list[PlannedSubtask] = []
        self.running: dict[int, Attempt] = {}
        self.late: tuple[Attempt, ...] = ()
        self.tags: dict[tuple[str, int], int] = {}
        self.first: dict[tuple[str, int], Attempt] = {}
        self.delivered: dict[tuple[str, int], list[str]] = {}
        # What the current driver has done since its last freeze.
        self.frozen = False
        self.held: frozenset[tuple[int, int]] = frozenset()
        self.performed: frozenset[str] = frozenset()
        # Requests for edits.
        self.asked = False
        self.older_poll: PollEnd | None = None
        self.holder.coordinator_at(self.committed)
        self.enumerator = STAGE.enumerator

    def start(self) -> None:
        """Start a new driver."""
        self.parts = Parts(self.files, self.subtasks)
        self.drives = False
        self.enumerator: Any = None
        STAGE.enumerator = None
        super().start()

    def environment(self) -> Environment:
        return self.parts.environment()

    @property
    def committed(self) -> Json:
        """The end of the last committed batch."""
        return self.logs.committed

    @property
    def logged(self) -> Json:
        """The end of the planned batch, or of the last committed one."""
        return as_value(self.logs.offsets[-1]) if self.logs.offsets else self.logs.committed

    @property
    def pending(self) -> bool:
        """Whether a batch is planned and not in the commit log."""
        return self.logs.has_uncommitted

    def doc(self, offset: Json) -> Doc:
        return parsed(offset["state"]["file"], self.files.files)

    # The legal moves.

    def legal(self, moves: Sequence[str]) -> list[str]:
        return [move for move in moves if self.is_legal(move)]

    def is_legal(self, move: str) -> bool:
        kind, subtask = move[0], int(move[1:] or 0)
        attempt = self.running.get(subtask)
        rules: dict[str, Callable[[], bool]] = {
            "T": lambda: not self.pending,
            "G": lambda: not self.pending,
            "Q": lambda: not self.pending,
            "H": lambda: not self.pending,
            "K": lambda: not self.pending,
            "X": lambda: self.pending,
            "C": lambda: self.pending and all(item.ended for item in self.running.values()),
            "N": lambda: not self.pending and self.frozen,
            "D": lambda: True,
            # A driver that has written nothing yet is unknown to the others: it is like a new one.
            "Z": lambda: self.zombie_drives,
            "L": lambda: bool(self.late),
            "S": lambda: bool(self.chain) and not self.asked,
            "W": lambda: self.older_poll is not None,
            # A driver that begins with a replay has no coordinator before the next latestOffset.
            "e": lambda: not self.pending or self.enumerator is not None,
            "r": lambda: attempt is not None and not attempt.ended and attempt.pongs < MOST_PONGS,
            "A": lambda: attempt is not None and not attempt.ended,
            "F": lambda: attempt is not None,
        }
        return rules[kind]()

    # The moves.

    def play(self, move: str) -> Step:
        """Make a move and return its effects."""
        step = Step(move=move, files_before=dict(self.files.files), enumerator_before=self.enumerator)
        STAGE.begin(self.enumerator)
        kind, subtask = move[0], int(move[1:] or 0)
        if kind in "eraAF":
            {"e": self._event, "r": self._reply, "A": self._report, "F": self._fail}[kind](subtask, step)
        else:
            {
                "T": self._trigger, "X": self._abort, "K": self._die_in_trigger, "G": self._failing,
                "Q": self._failing, "H": self._failing, "C": self._commit, "N": self._tell,
                "D": self._die, "Z": self._zombie, "L": self._late, "S": self._ask, "W": self._look_again,
            }[kind](step)  # fmt: skip
        self.enumerator = STAGE.living_enumerator()
        step.performed = list(STAGE.performed)
        step.misopened, step.sent_through = list(STAGE.misopened), list(STAGE.sent_through)
        step.late_events = STAGE.late_events
        self.performed |= frozenset(step.performed)
        return step

    def _event(self, subtask: int, step: Step) -> None:
        enumerator: Any = self.holder.coordinator_at(self.logged).enumerator
        self._see_driver(step)
        if self.frozen:
            self.held |= {(subtask, enumerator.sent[subtask])}
        enumerator.ping(subtask)

    def _trigger(self, step: Step) -> None:
        try:
            end = self.latest_offset(self.limits)
        except Exception as error:  # noqa: BLE001 - judged by the checks
            step.error = error
            return
        finally:
            self._see_driver(step)
        self.frozen = False
        if end != self.committed:
            self._planned(end, step)

    def _abort(self, step: Step) -> None:
        step.reference = self._by_restart()
        self._let_run(list(self.running.values()))
        self.held = frozenset()
        self.logs.forget_uncommitted()
        self.running, self.tasks, self.older_poll = {}, [], None
        self._trigger(step)

    def _planned(self, end: Json, step: Step) -> None:
        self.frozen = True
        step.sent_at_freeze = list(STAGE.sent_at_freeze)
        try:
            # Spark calls commit for the previous batch now; latestOffset has already completed it.
            self.log(dict(end))
            self.tasks = self.partitions()
        except Exception as error:  # noqa: BLE001 - judged by the checks
            step.error = error
        step.made = self.doc(self.logged)
        self.running = {task.subtask_id: self._attempt(task, step.made, 0) for task in self.tasks}

    def _die_in_trigger(self, step: Step) -> None:
        try:
            self.latest_offset(self.limits)
        except Exception as error:  # noqa: BLE001 - judged by the checks
            step.error = error
        self._see_driver(step)
        self._die(step)

    def _failing(self, step: Step) -> None:
        STAGE.fails = {"G": "snapshot", "Q": "request"}.get(step.move)
        self.files.full = step.move == "H"
        try:
            end = self.latest_offset(self.limits)
            STAGE.fails, self.files.full = None, False
            if end != self.committed and step.move == "Q":
                # A limit was reached before the first request for a split.
                self._planned(end, step)
                return
            step.reference = self._by_restart()
            # If there is nothing to read, no call is made that could fail.
            step.retried = None if step.reference == NOTHING else "no error"
        except (InjectedError, StateLocationError):
            STAGE.fails, self.files.full = None, False
            step.reference = self._by_restart()
            step.retried = self._by_retry()
        except Exception as error:  # noqa: BLE001 - judged by the checks
            step.error = error
        finally:
            STAGE.fails = None
            self.files.full = False
            self._see_driver(step)
        self.frozen, self.held, self.older_poll = False, frozenset(), None

    def _by_retry(self) -> str:
        """The result of the driver's next call after a failed one, which is made in a copy of the world."""
        from tests.model.copies import clone

        with STAGE.apart():
            other = clone(self)
            return other.next_name(other.holder)

    def _by_restart(self) -> str:
        """The document that a new driver, started from the commit log, would make."""
        store = self.files.copy()
        environment = Parts(store, self.subtasks).environment()
        with STAGE.apart():
            return self.next_name(
                CoordinatorHolder(self.source, self.boundedness, store=store, environment=environment)
            )

    def next_name(self, driver: CoordinatorHolder) -> str:
        """The name of the document that a driver makes after the last committed batch; or its error."""
        start = self.committed
        try:
            end = as_value(as_text(driver.latest_offset(start, self.limits)))
        except Exception as error:  # noqa: BLE001 - shown in the check that fails
            return f"{type(error).__name__}: {error}"
        return NOTHING if end == start else f"{end['checkpoint']}-{end['state']['digest']}"

    def _see_driver(self, step: Step) -> None:
        """Note whether the driver has told the others that it drives."""
        self.drives |= any("/drivers/" in name for name in self.files.files.keys() - step.files_before.keys())

    def _commit(self, step: Step) -> None:
        doc = self.doc(self.logged)
        self.logs.write_commit(self.logs.next_batch_id)
        self.chain = (*self.chain, doc)
        self.held = frozenset((i, number) for i, number in self.held if number >= doc.state["sent"][i])
        self.running, self.tasks = {}, []

    def _tell(self, step: Step) -> None:
        try:
            self.holder.commit(self.logs.committed)
        except Exception as error:  # noqa: BLE001 - judged by the checks
            step.error = error
        self.frozen = False

    def _die(self, step: Step) -> None:
        self.zombie, self.zombie_at = self.holder, (self.committed, self.logged)
        self.zombie_drives = self.drives
        self.start()
        self.frozen, self.held, self.older_poll = False, frozenset(), None
        if self.pending:
            again = self.partitions()
            step.replanned = (self.tasks, again)
            self._let_run([item for item in self.running.values() if not item.ended])
            self.tasks = again
            doc = self.doc(self.logged)
            self.running = {task.subtask_id: self._attempt(task, doc, 0) for task in again}

    def _zombie(self, step: Step) -> None:
        assert self.zombie is not None
        committed, logged = self.zombie_at
        # If its successor has committed its last batch, it may take that commit for its own.
        files = [doc.file for doc in self.chain]
        start = logged if logged["state"].get("file") in files else committed
        self.zombie_at = (start, start)
        before = set(self.files.files)
        living = STAGE.enumerator
        try:
            self.zombie.latest_offset(dict(start), self.limits)
            self.zombie.commit(dict(start))
        except StaleDriverError:
            pass
        except (MissingStateError, MissingReportError) as error:
            # Some time after it was replaced, the document of its position or the reports are cleaned up.
            step.error = error if start in (self.committed, self.logged) else None
        except Exception as error:  # noqa: BLE001 - judged by the checks
            step.error = error
        STAGE.enumerator = living
        step.zombie_wrote = sorted(
            name for name in self.files.files.keys() - before if "/drivers/" not in name
        )

    # Edits.

    def _ask(self, step: Step) -> None:
        first = self.chain[0]
        lineage = first.file.partition("/")[0]
        Mailbox(self.files, lineage).submit(
            EditRequest(
                request_id=REQUEST,
                lineage=lineage,
                operation=EditOperation.REPLAY,
                who="the model",
                why="a move",
                requested_us=0,
                plans={first.name: (first.plan[0][0]["split_id"],)},
            )
        )
        self.asked = True
        for runner in self.parts.runners:
            for handler, requests in runner.rounds():
                runner.ended(handler, requests)
                self.older_poll = None if requests is None else (runner, handler, requests)

    def _look_again(self, step: Step) -> None:
        assert self.older_poll is not None
        runner, handler, requests = self.older_poll
        runner.ended(handler, requests)
        self.older_poll = None

    # Attempts.

    def _attempt(self, task: PlannedSubtask, doc: Doc, number: int) -> Attempt:
        key = (doc.name, task.subtask_id)
        tag = self.tags.get(key, 0)
        self.tags = {**self.tags, key: tag + 1}
        return Attempt(
            task=task, doc=doc, number=number, tag=tag, saw_report=(doc.file, task.subtask_id) in self.first
        )

    def _let_run(self, attempts: Sequence[Attempt]) -> None:
        """Record attempts whose results no longer matter but that may still be running."""
        going = [item for item in attempts if not item.ended]
        self.late = (*self.late, *going)[-MOST_LATE:]

    def _reply(self, subtask: int, step: Step) -> None:
        attempt = self.running[subtask]
        self.running[subtask] = replace(attempt, pongs=attempt.pongs + 1)

    def _fail(self, subtask: int, step: Step) -> None:
        attempt = self.running[subtask]
        self._let_run([attempt])
        self.running[subtask] = self._attempt(attempt.task, attempt.doc, attempt.number + 1)

    def _report(self, subtask: int, step: Step) -> None:
        attempt = self.running[subtask]
        if self._run(attempt, step):
            self.running[subtask] = replace(attempt, ended=True)
            self.delivered = {**self.delivered, attempt.key: step.rows or []}
        elif isinstance(step.error, AttemptError) and attempt.key in self.first:
            # It began before another attempt's report and has read further: it fails, and Spark tries again.
            if not attempt.saw_report:
                step.error = None
            self.running[subtask] = self._attempt(attempt.task, attempt.doc, attempt.number + 1)

    def _late(self, step: Step) -> None:
        attempt, self.late = self.late[0], self.late[1:]
        if not self._run(attempt, step) and isinstance(step.error, AttemptError):
            step.error = None

    def _run(self, attempt: Attempt, step: Step) -> bool:
        """Run an attempt to its end; return whether it succeeded."""
        STAGE.pongs, STAGE.rows = attempt.texts, attempt.rows
        step.ran = attempt
        store = self.files if attempt.saw_report or attempt.key not in self.first else HidesReport(self.files)
        try:
            step.rows = [row[0] for row in self.start_attempt(attempt.task, attempt.number, store)]
        except Exception as error:  # noqa: BLE001 - judged by the checks
            step.error = error
            return False
        finally:
            STAGE.pongs = ()
            step.received = list(STAGE.received)
        if attempt.key not in self.first:
            self.first = {**self.first, attempt.key: attempt}
        return True

    # The expected results, computed from the moves alone.

    def expected_rows(self, doc: Doc, subtask: int) -> list[str]:
        """The rows of a subtask as the attempt that reported first read them."""
        rows = []
        for piece in doc.plan[subtask]:
            if self.kind == "paged":
                end = self.end_of(piece, self.first[doc.file, subtask])
                rows += [f"{piece['split_id']}#{at}" for at in range(piece["at"], end)]
            elif not returns(piece) and not piece["bad"]:
                rows.append(piece["split_id"])
        return rows

    def end_of(self, piece: Json, attempt: Attempt) -> int:
        """The position of a paged piece after an attempt."""
        end = max(piece["at"], attempt.rows)
        return min(end, ROWS_TO_THE_END) if piece["split_id"].endswith("!") else end

    def expected_heard(self) -> list[str]:
        """All events that readers sent in committed batches, by subtask and in the order of sending."""
        return [t for doc in self.chain for n in sorted(doc.plan) for t in self.first[doc.file, n].texts]


def returns(piece: Json) -> bool:
    """Whether the reader returns this piece."""
    return bool(piece["shy"]) and not piece["tries"]
