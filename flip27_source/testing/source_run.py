"""SourceCheck: a source, its rows, and runs of it, each on a new engine.

The rows are read directly from the splits, unless the splits depend on events of readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..driver.reports import report_demand
from ..enumerator import Budget, SplitEnumerator
from ..reader import YieldsProgress
from ..snapshots.store import MemoryStore
from ..values.differences import shown
from .engine import MicroBatchEngine
from .enumerator_run import EnumeratorRun
from .law import Disagreement, agree_in_any_order
from .provenance import told
from .reader_run import ReaderRun
from .spark_side import Row
from .steps import Crashed, CrashPoint, Passing, Step, Victim
from .under_test import SourceUnderTest

if TYPE_CHECKING:
    from .change_laws import Changes

REST_MS = 3_600_000
"""After this time, every source that waits between two rounds of discovery runs another round."""
RERUN_FROM = (Step.OFFSET_RETURNED, Step.TASK_ENDED, Step.SINK_WRITTEN)
"""Steps after which a crash has a batch run again: planned anew, read again in part, and delivered again."""
_SMALL = Budget(files=1, rows=1, bytes=1)
PARTS = 3
"""Approximate number of batches into which a source is divided."""

LIMITS = (
    "maxFilesPerTrigger",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "maxRowsPerSplit",
    "maxBytesPerSplit",
)


@dataclass(slots=True, kw_only=True)
class SourceCheck:
    """The source that is checked, and the results of its undisturbed run.

    Attributes:
        given: the source as it was given to the check.
        promised: the rows that it has to deliver; None if they are not known.
        grow: adds data. update: changes existing rows. key: identifies a row whatever its updates.
        changes: how the source changes, if its rows are changes.
        fast: whether crashes share runs; each run opens the source's connections again.
        engine_type: the class of the engines that run it.
        parted: the source with limits that divide it into several batches.
        rows: the rows of the source.
        rehearsal: the steps of an undisturbed run of ``parted``.
        steady: the engine of that run, or of one that grew.
    """

    given: SourceUnderTest
    promised: Sequence[Row] | None = None
    grow: Callable[[], object] | None = None
    update: Callable[[], object] | None = None
    key: Callable[[Row], Any] = itemgetter(0)
    changes: Changes | None = None
    fast: bool = False
    engine_type: type[MicroBatchEngine] = MicroBatchEngine
    parted: SourceUnderTest = field(init=False)
    rows: list[Row] = field(default_factory=list)
    rehearsal: list[Passing] = field(default_factory=list)
    steady: MicroBatchEngine = field(init=False, repr=False)
    _resting: MicroBatchEngine | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        enumerator = self.given.resolve().enumerator_type
        if enumerator.bound_split is not SplitEnumerator.bound_split:
            self.given = replace(self.given, enumerator=asking_twice(enumerator))
        self.parted = self.given

    def engine(self, given: SourceUnderTest | None = None, **more: Any) -> MicroBatchEngine:
        """A new query from the beginning. Performed actions would change the data of later runs."""
        return self.engine_type(given or self.parted, performs_actions=False, **more)

    def ended_engine(self, given: SourceUnderTest | None = None, **more: Any) -> MicroBatchEngine:
        """As :meth:`engine`, after it has read everything."""
        engine = self.engine(given, **more)
        engine.process_all_available()
        return engine

    def with_options(self, **options: str) -> SourceCheck:
        """This check with further options and the same rehearsal."""
        changed = replace(self)
        changed.steady = self.steady
        changed.parted = self.parted.with_options(**options)
        return changed

    def rehearse(self) -> MicroBatchEngine:
        """Divide the source into batches and note the steps of an undisturbed run."""
        engine = self.ended_engine(self.given)
        files = sum(batch.end["summary"].get("files", 0) for batch in engine.batches)
        rows = len(engine.rows)
        limits = {
            "maxFilesPerTrigger": str(max(1, files // PARTS)),
            "maxRowsPerTrigger": str(max(1, rows // PARTS)),
        }
        if issubclass(engine.source.reader_type, YieldsProgress):
            limits["maxRowsPerSplit"] = str(max(1, rows // (2 * PARTS)))
        if {name.lower() for name in self.given.options}.isdisjoint(name.lower() for name in LIMITS):
            self.parted = self.given.with_options(**limits)
        self.steady = engine = self.ended_engine()
        self.rehearsal = engine.passed
        return engine

    def resting_engine(self, *, is_new: bool = False) -> MicroBatchEngine:
        """An engine that has read everything; with ``fast`` the last one, unless it has to be a new one."""
        if self._resting is None or is_new or not self.fast:
            self._resting = self.ended_engine(store=MemoryStore())
        return self._resting

    @property
    def in_small_steps(self) -> SourceUnderTest:
        """The source with limits that divide it into the smallest batches, whatever its own limits are."""
        few = str(max(2, len(self.rows) // (2 * PARTS)))
        limits = {"maxFilesPerTrigger": "1", "maxRowsPerTrigger": few}
        if issubclass(self.given.resolve().reader_type, YieldsProgress):
            limits["maxRowsPerSplit"] = "1"
        return self.given.with_options(**limits)

    def crash_points(self, victim: Victim = Victim.DRIVER, nth_up_to: int = 3) -> list[CrashPoint]:
        """Where to kill: the steps of the first and last batches."""
        batch_ids = sorted({passing.batch_id for passing in self.rehearsal})
        chosen = {*batch_ids[:2], *batch_ids[-3:]}
        last = {(passing.step, passing.batch_id): passing.nth for passing in self.rehearsal}
        return [
            CrashPoint(passing.step, passing.batch_id, passing.nth, victim)
            for passing in self.rehearsal
            if passing.batch_id in chosen
            and (passing.nth <= nth_up_to or passing.nth == last[passing.step, passing.batch_id])
            and (victim is Victim.DRIVER or passing.step.is_of_a_task)
        ]

    def crash_runs(self, victim: Victim = Victim.DRIVER, nth_up_to: int = 3) -> list[list[CrashPoint]]:
        """The crash points, divided into runs: one in each; with ``fast``, one of each step, all in one."""
        points = self.crash_points(victim, nth_up_to)
        if not self.fast:
            return [[point] for point in points]
        of_step: dict[Step, list[CrashPoint]] = {}
        for point in points:
            of_step.setdefault(point.step, []).append(point)
        # Steps take turns at the batches, so that each batch has crashes.
        return [[found[turn % len(found)] for turn, found in enumerate(of_step.values())]]

    def some_batches(self) -> range:
        """The batches of the rehearsal and two more: a source may discover again after a restart."""
        return range(len({passing.batch_id for passing in self.rehearsal}) + 2)

    def run_through(self, points: Iterable[CrashPoint], **more: Any) -> MicroBatchEngine:
        """A run in which processes are killed at these points."""
        engine = self.engine(**more)
        engine.itinerary.crash_points.extend(points)
        engine.process_all_available(through_crashes=True)
        return engine

    def agree(self, what: str, engine: MicroBatchEngine) -> None:
        """Raise Disagreement unless the sink of an engine holds every row exactly once."""
        self.agree_with(what, engine, self.steady, self.rows)
        for before, after in engine.sink.overwritten:
            self._same(f"of batch {after.batch_id} when it was run again, {what}", after.rows, before.rows)

    def agree_with(
        self, what: str, engine: MicroBatchEngine, steady: MicroBatchEngine, rows: Sequence[Row]
    ) -> None:
        """As :meth:`agree`, for other rows; ``steady`` is a run of them that was not disturbed."""
        self._same(what, engine.rows, rows, lambda missing, excess: told(engine, steady, missing, excess))

    def _same(
        self,
        what: str,
        found: Sequence[Row],
        expected: Sequence[Row],
        say: Callable[[list[Row], list[Row]], str] | None = None,
    ) -> None:
        schema = self.steady.schema
        rows = [as_spark_sees(given, schema) for given in (found, expected)]
        agree_in_any_order(f"rows {what}", *rows, columns=schema.names, told=say)

    @property
    def needs_store(self) -> bool:
        """Whether its tasks write reports."""
        return report_demand(self.given.resolve()).value != "none"

    @property
    def takes_events(self) -> bool:
        """Whether its splits may depend on events of readers."""
        return bool(self.given.resolve().enumerator_type.resolve_event_types())


def rows_of_splits(given: SourceUnderTest) -> list[Row]:
    """The rows of a source's splits, read one by one without engine or coordinator."""
    source = given.resolve()
    with ReaderRun(source.reader_type, source.options, given.arrow_schema()) as run:
        return [row for split in EnumeratorRun(source).ranges() for row in run.read(split).rows]


def as_spark_sees(rows: Sequence[Row], schema: pa.Schema) -> Sequence[Row]:
    """Rows with values of the types that the schema has; rows that do not fit are returned as they are.

    A reader of tuples may give 1 or 1.0, a str or a subclass of it: Spark sees one value.
    """
    if not rows or any(len(row) != len(schema) for row in rows):
        return rows
    try:
        columns = [
            pa.array(values, column.type).to_pylist()
            for values, column in zip(zip(*rows, strict=True), schema, strict=True)
        ]
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return rows
    return list(zip(*columns, strict=True))


def crash_once(engine: MicroBatchEngine, step: Step, act: Callable[[], object]) -> None:
    """Read what is there; if the driver comes to ``step``, it crashes, and ``act`` is called meanwhile."""
    engine.crash_at(step)
    try:
        engine.process_all_available()
    except Crashed:
        act()
        engine.restart()
        engine.process_all_available()


def asking_twice(enumerator: type[SplitEnumerator[Any]]) -> type[SplitEnumerator[Any]]:
    """An enumerator whose every range is asked for again: the last result counts, and is the same."""

    def bound_split(self: Any, split: Any, budget: Budget) -> Any:
        enumerator.bound_split(self, split, _SMALL)
        cut, again = (enumerator.bound_split(self, split, budget) for _ in range(2))
        if again != cut:
            raise Disagreement(
                f"bound_split of {enumerator.__qualname__} has a side effect: called with "
                f"{shown(split)} and {shown(budget)} it returned {shown(cut)}, and called again "
                f"{shown(again)}. The position is in the split that it is given, not in an attribute"
            )
        return again

    names = {name: getattr(enumerator, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(enumerator.__name__, (enumerator,), {**names, "bound_split": bound_split})
