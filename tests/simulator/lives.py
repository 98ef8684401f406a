"""Lives: the behaviour of one kind of source in a simulation, its operations, and the checks at its end.

The lives of the two toy sources are here; those of the files and kafka sources are in separate modules.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from flip27_source.coordination.checkpoints import Snapshot
from flip27_source.coordination.edit_values import EditOperation, EditRequest
from flip27_source.errors import Flip27Error
from flip27_source.savepoints.format import METADATA, read_savepoint
from flip27_source.snapshots import file_names
from flip27_source.snapshots.documents import CheckpointDocument, decode_document
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.request_mailbox import Mailbox, SavepointRequest
from flip27_source.snapshots.store import Store
from flip27_source.testing.spark_side import Row, as_value
from flip27_source.testing.steps import Killed
from flip27_source.testing.under_test import SourceUnderTest
from tests.audited_source import AuditedEnumerator, AuditedReader, audited_rows

from .sources import LINE, MISTAKES, CarelessEnumerator, ItemReader

if TYPE_CHECKING:
    from .simulation import Simulation

STATE = "/ckpt/orders/flip27"
SAVEPOINTS = "/savepoints"


class DefectFound(AssertionError):  # noqa: N818 - it is the result of a search, not a fault of the caller
    """A guarantee is violated."""


def document_at(store: Store, offset: Offset) -> CheckpointDocument:
    if offset.lineage is None or offset.name is None:
        raise DefectFound(f"the offset of checkpoint {offset.checkpoint_id} names no document")
    return decode_document(store.read(file_names.checkpoint_file(offset.lineage, offset.name)), offset.name)


def changes_of_log(
    of: Simulation, columns: Sequence[str], position: str, identity: Sequence[str]
) -> list[Any]:
    """The rows of the sink by name: batch by batch, in the order of the log.

    Args:
        position: the column that orders them. identity: those that a change shares with no other one.

    Raises:
        DefectFound: a change was delivered twice.
    """
    changes: list[dict[str, Any]] = []
    for batch in of.query.sink.batches:
        if batch.batch_id in of.query.logs.commits:
            rows = (dict(zip(columns, row, strict=True)) for row in batch.rows)
            changes += sorted(rows, key=lambda row: (row[position], row["_seq"], "dcurt".index(row["op"])))
    of.outcome.rows = len(changes)
    events = Counter(tuple(row[name] for name in identity) for row in changes if row["op"] != "r")
    if more := [event for event, times in events.items() if times > 1]:
        of.outcome.duplicated = len(more)
        raise DefectFound(f"changes were delivered twice: {more}")
    return changes


class Life:
    """The behaviour of one kind of source, and its operations.

    Attributes:
        OPTIONS: the values of options that may change between runs; None: not set.
        options: the options of the present run.
        state: the state location.
        is_repeatable: whether another action of a batch sees the same rows.
        keeps_data: whether all data that was read stays there.
        is_refused: whether the query rightly refuses to continue although all faults have ended.
    """

    OPTIONS: ClassVar[Mapping[str, Sequence[str | None]]] = {}
    is_repeatable: ClassVar[bool] = True
    keeps_data: ClassVar[bool] = False
    is_refused = False

    def __init__(self, simulation: Simulation, state: str = STATE) -> None:
        self.of = simulation
        self.random = simulation.random
        self.options: dict[str, str] = {}
        self.state = state
        self.deleted: set[str] = set()

    def begin(self) -> None:
        """Called before the query is started."""

    def end(self) -> None:
        """Called after the last check."""

    def failed(self, error: Flip27Error) -> None:
        """Called when a run of the query has failed."""

    def trouble_bucket(self) -> None:
        """Draw how often requests to the bucket fail."""
        if self.of.bucket is not None:
            self.of.bucket.trouble = self.random.choice((0.0, 0.01, 0.05))

    def drawn(self, options: Mapping[str, Sequence[str | None]]) -> dict[str, str]:
        """Options with random values."""
        values = {name: self.random.choice(choices) for name, choices in options.items()}
        return {name: value for name, value in values.items() if value is not None}

    def redraw(self) -> None:
        """Change some of the options, as between two runs of a query."""
        for name, choices in self.OPTIONS.items():
            if self.random.random() < 0.3:
                self.options.pop(name, None)
                self.options |= self.drawn({name: choices})
        self.of.tell(f"the options are {dict(sorted(self.options.items()))}")

    def started(self) -> None:
        """Called when a run of the query has started."""

    def check_document(self, before: Snapshot[Any] | None, snapshot: Snapshot[Any]) -> None:
        """Check a batch in event-time order or with a horizon; ``before``: the checkpoint before it, if it
        had one of them."""

    def rested(self) -> None:
        """Called when a run finds nothing new."""

    def given(self) -> SourceUnderTest:
        raise NotImplementedError

    def can_be_rolled_back(self) -> bool:
        """Whether all data that was read can be read again; see :meth:`Simulation.roll_back`."""
        return self.keeps_data

    def arrive(self) -> None:
        """Add data."""

    def repeats(self, rows: list[Row], again: list[Row]) -> bool:
        """Whether rows are those that must be read when a batch is read again."""
        return Counter(rows) == Counter(again)

    def ask(self) -> None:
        """Submit a request."""
        self.ask_for_a_savepoint()

    def ask_nonsense(self) -> None:
        """Put an invalid file among the requests."""
        folder = self.requests()
        if folder is None:
            return
        store = self.of.store(self.state, self.of.new_process("an intruder", is_driver=False))
        self.of.fault("nonsense", "an invalid file is among the requests")
        name = f"{folder.lineage}/{file_names.REQUESTS}/{self.new_id()}.json"
        deep = b'{"digest":' + b"[" * 5000
        try:
            match self.random.randrange(4):
                case 0:
                    store.create(
                        name,
                        self.random.choice((b"", b"{", b"\xff\xfe", deep, b'{"digest":"x","request":{}}')),
                    )
                case 1:
                    self._request(folder, "/savepoints/a\0b")
                case 2:
                    self._request(folder, "nosuch://bucket/x" if self.of.bucket is None else "/s\ud800")
                case _:
                    store.create(f"{name}/inside", b"")
        except (Flip27Error, Killed, ValueError, TypeError) as error:
            self.of.tell(f"refused: {error}")

    def calm(self) -> None:
        """Called after the last fault."""

    def check(self) -> None:
        """Check the result at the end."""
        raise NotImplementedError

    def requests(self) -> Mailbox | None:
        """The folder for requests to the query; None while it has no lineage."""
        logs = self.of.query.logs
        if not logs.offsets:
            return None
        lineage = Offset.from_json(as_value(logs.offsets[-1])).lineage
        if lineage is None:
            return None
        store = self.of.store(self.of.query.state, self.of.new_process("an operator", is_driver=False))
        return Mailbox(store, lineage)

    def new_id(self) -> str:
        """The id of a new request; the same for a seed."""
        return str(uuid.UUID(int=self.random.getrandbits(128)))

    def edit(self, folder: Mailbox, operation: EditOperation, **target: Any) -> EditRequest:
        """A request for an edit."""
        return EditRequest(
            request_id=self.new_id(),
            operation=operation,
            who="simulator",
            why="to see",
            requested_us=self.of.now_ms * 1000,
            lineage=folder.lineage,
            **target,
        )

    def _request(self, folder: Mailbox, target: str) -> None:
        request = SavepointRequest(
            request_id=self.new_id(), lineage=folder.lineage, target=target, requested_ms=self.of.now_ms
        )
        self.of.tell(f"a savepoint is requested in {target!r}")
        self.deleted.clear()  # the savepoint that was deleted may be the answer
        folder.submit(request)

    def ask_for_a_savepoint(self, probability: float = 0.6) -> None:
        """Request a savepoint, or delete one that nobody waits for."""
        folder = self.requests()
        if folder is None:
            return
        try:
            if self.random.random() < probability:
                self._request(folder, SAVEPOINTS)
            elif not folder.ids():
                self._delete_a_savepoint()
        except (Flip27Error, Killed) as error:
            self.of.tell(f"refused: {error}")

    def savepoints(self) -> list[str]:
        """The complete savepoints of this query."""
        store = self.of.store(SAVEPOINTS, self.of.new_process("a reader", is_driver=False))
        folders = [name for name in self.of.listed(SAVEPOINTS, "") if METADATA in store.list(name)]
        lineages = {offset.lineage for offset in self.of.query.offsets}
        return [name for name in folders if read_savepoint(store, name).metadata.lineage in lineages]

    def _delete_a_savepoint(self) -> None:
        with self.of.looking():
            there = self.savepoints()
            if there:
                name = self.random.choice(there)
                self.of.tell(f"savepoint {name} is deleted")
                store = self.of.store(SAVEPOINTS, self.of.new_process("an operator", is_driver=False))
                store.delete(f"{name}/{METADATA}")
                self.deleted.add(name)

    def check_savepoints(self) -> None:
        """Check that a savepoint that was deleted stays deleted.

        Raises:
            DefectFound: it exists again.
        """
        self.ask_for_a_savepoint(0.5)
        self.of.run_to_the_end()
        self._delete_a_savepoint()
        self.of.restart()
        self.of.run_to_the_end()
        if back := self.deleted.intersection(self.savepoints()):
            raise DefectFound(f"were deleted and exist again: {sorted(back)}")


class TalkingLife(Life):
    """Pages bounded by the reader, and numbered events in both directions."""

    keeps_data = True
    OPTIONS: ClassVar = {
        "maxRowsPerSplit": (None, "3"),
        "parallelism": (None, "1", "3"),
        "onSplitError": (None, "quarantine"),
    }

    def begin(self) -> None:
        self.counters, self.rows = self.random.randint(1, 4), self.random.choice((1, 7, 20))
        fixed = {"counters": str(self.counters), "rows": str(self.rows), "requestInterval": "1s"}
        self.options = {**fixed, **self.drawn(self.OPTIONS)}
        self.trouble_bucket()

    def given(self) -> SourceUnderTest:
        return SourceUnderTest(
            options=self.options, enumerator=AuditedEnumerator, reader=AuditedReader, schema=LINE
        )

    def check(self) -> None:
        self.of.check_rows(Counter(audited_rows(self.counters, self.rows)))


class CarelessLife(Life):
    """An author's mistake shows in some round; once it is fixed, the query continues where it was."""

    keeps_data = True

    def begin(self) -> None:
        draw = self.random
        CarelessEnumerator.last = draw.randint(2, 8)
        CarelessEnumerator.mistake = draw.choice(list(MISTAKES))
        CarelessEnumerator.comes_at = draw.randrange(CarelessEnumerator.last)
        self.options = {"requestInterval": "1s", "discoveryInterval": "1ms"}
        self.last = CarelessEnumerator.last

    def given(self) -> SourceUnderTest:
        return SourceUnderTest(
            options=self.options, enumerator=CarelessEnumerator, reader=ItemReader, schema=LINE
        )

    def calm(self) -> None:
        self.of.tell(f"the author fixes {CarelessEnumerator.mistake}")
        CarelessEnumerator.mistake = None

    def check(self) -> None:
        self.of.check_rows(Counter(f"item-{number}:{number}" for number in range(self.last)))
