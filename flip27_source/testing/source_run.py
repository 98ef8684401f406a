"""SourceCheck: a source, its rows, and runs of it, each on a new engine.

The rows are read directly from the splits, unless the splits depend on events of readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from ..driver.reports import report_demand
from ..reader import YieldsProgress
from .engine import MicroBatchEngine
from .enumerator_run import EnumeratorRun
from .law import agree_in_any_order
from .reader_run import ReaderRun
from .spark_side import Row
from .steps import CrashPoint, Passing, Step, Victim
from .under_test import SourceUnderTest

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
        fast: whether crashes share runs; each run opens the source's connections again.
        engine_type: the class of the engines that run it.
        parted: the source with limits that divide it into several batches.
        rows: the rows of the source.
        rehearsal: the steps of an undisturbed run of ``parted``.
    """

    given: SourceUnderTest
    promised: Sequence[Row] | None = None
    grow: Callable[[], object] | None = None
    update: Callable[[], object] | None = None
    key: Callable[[Row], Any] = itemgetter(0)
    fast: bool = False
    engine_type: type[MicroBatchEngine] = MicroBatchEngine
    parted: SourceUnderTest = field(init=False)
    rows: list[Row] = field(default_factory=list)
    rehearsal: list[Passing] = field(default_factory=list)

    def __post_init__(self) -> None:
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
        engine = self.ended_engine()
        self.rehearsal = engine.passed
        return engine

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
        agree_in_any_order(f"rows {what}", engine.rows, self.rows)
        for before, after in engine.sink.overwritten:
            agree_in_any_order(
                f"rows of batch {after.batch_id} when it was run again, {what}", after.rows, before.rows
            )

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
