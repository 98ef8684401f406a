"""The laws of enumerators, and ``check_enumerator``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ..coordination.split_rules import SplitRules
from ..enumerator import Budget, SplitEnumerator
from ..enumerator_context import Boundedness
from ..enumerator_mixins import FollowsEventTime
from ..errors import OptionError
from ..reader import SplitReader
from ..source import Source
from ..source_progress import LooksIntoSource, ProgressTable, TellsProgress
from .enumerator_run import EnumeratorRun
from .frozen_splits import SPLITS_ARE_VALUES, check_frozen
from .law import Disagreement, Law, TrivialInput, agree, agree_in_any_order, enforce
from .under_test import GivenSource, under_test

MOST_CUTS = 12
"""Maximum number of points of a run at which a snapshot is taken and restored, and of cuts of a split."""

_LAST_US = 2**62


@dataclass(slots=True, kw_only=True)
class EnumeratorUnderTest:
    """An enumerator, and the splits of an undisturbed run; ``schema`` is set if it takes events."""

    source: Source
    schema: pa.Schema | None
    grow: Callable[[], object] | None
    splits: list[Any] = field(default_factory=list)

    def run(self, stored: bytes | None = None, *, requests: int = 0, **more: Any) -> EnumeratorRun:
        """A run after its first round of discovery, and then this number of requests."""
        run = EnumeratorRun(self.source, stored, schema=self.schema, **more)
        run.discover()
        for _ in range(requests):
            run.ask()
        return run

    def restored(self, run: EnumeratorRun, stored: bytes | None = None, **more: Any) -> EnumeratorRun:
        """A run from the state of another one, or from ``stored``, which reads what the other one has not."""
        return self.run(run.snapshot() if stored is None else stored, unread=run.unread, **more)

    @property
    def cuts(self) -> list[int]:
        """Numbers of requests after which to stop: all, or a sample if there are many."""
        most = len(self.splits)
        return sorted({*range(0, most + 1, max(1, most // MOST_CUTS)), 1, most})

    def agree_on_all(self, what: str, splits: list[Any], *, in_order: bool = False) -> None:
        """Raise Disagreement unless these are the splits of the undisturbed run."""
        same = agree if in_order else agree_in_any_order
        same(what, _ids(splits), _ids(self.splits))


def _ids(splits: list[Any]) -> list[str]:
    return [split.split_id for split in splits]


def _comes_to_an_end(subject: EnumeratorUnderTest) -> None:
    run = subject.run()
    run.drain()
    subject.splits = run.assigned
    if len(subject.splits) < 2:
        raise TrivialInput(
            f"the enumerator assigns {len(subject.splits)} splits: give it data with at least two, so that "
            "a snapshot can be taken between them; check a source that never has more with check_source only"
        )


def _ids_are_unique(subject: EnumeratorUnderTest) -> None:
    ids = _ids(subject.splits)
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise Disagreement(f"split ids assigned more than once: {twice[:5]}")
    wrong = [name for name in ids if not name]
    if wrong:
        raise Disagreement(f"a split id must not be empty: {wrong[:5]}")


def _another_finds_the_same(subject: EnumeratorUnderTest) -> None:
    subject.agree_on_all("splits of another run", subject.run().drain())


def _splits_can_be_stored(subject: EnumeratorUnderTest) -> None:
    run = subject.run()
    for split in subject.splits:
        agree("a split that was stored and restored", run.split_through_json(split), split)


def _construction_does_nothing(subject: EnumeratorUnderTest) -> None:
    states = (None, subject.run().snapshot())
    for stored in states:
        run = EnumeratorRun(subject.source, stored, start=False)
        if run.recorder.uses:
            raise Disagreement(f"__init__ calls context.{run.recorder.uses[0]}: move the call to start()")
    first = subject.run(requests=1)
    for stored in states:
        EnumeratorRun(subject.source, stored, start=False)
    first.drain()
    subject.agree_on_all(
        "splits of a run during which other enumerators are created", first.assigned, in_order=True
    )


def _nothing_is_found_twice(subject: EnumeratorUnderTest) -> None:
    run = subject.run()
    run.drain()
    for _ in range(2):
        run.discover()
        agree("splits after further rounds of discovery", _ids(run.drain()), [])
    agree("splits of a run restored after the last split", _ids(subject.run(run.snapshot()).drain()), [])


def _who_asks_does_not_matter(subject: EnumeratorUnderTest) -> None:
    for parallelism in (1, 2, 5):
        splits = subject.run(parallelism=parallelism).drain()
        subject.agree_on_all(f"splits at parallelism {parallelism}", splits)


def _a_snapshot_disturbs_nothing(subject: EnumeratorUnderTest) -> None:
    run = subject.run()
    for checkpoint_id in range(1, len(subject.splits) + 2):
        agree("a snapshot taken again", run.snapshot(checkpoint_id), run.snapshot(checkpoint_id))
        run.ask()
    run.drain()
    subject.agree_on_all("splits with a snapshot before each", run.assigned, in_order=True)


def _a_snapshot_is_a_value(subject: EnumeratorUnderTest) -> None:
    run = subject.run()
    state = run.enumerator.snapshot_state(1)
    before = run.stored(state)
    run.drain()
    run.discover()
    agree("the state of a snapshot, after more splits were assigned", run.stored(state), before)


def _restored_assigns_the_rest(subject: EnumeratorUnderTest) -> None:
    for asks in subject.cuts:
        for discovers in (True, False):
            run = subject.run(requests=asks)
            assigned = list(run.assigned)
            restored = EnumeratorRun(
                subject.source, run.snapshot(), asks=asks, schema=subject.schema, unread=run.unread
            )
            if discovers:
                restored.discover()
            rest = _ids(restored.drain())
            restored.discover()
            rest += _ids(restored.drain())
            agree(
                f"splits before a snapshot ({len(assigned)}) and after",
                _ids(assigned) + rest,
                _ids(subject.splits),
            )


def _a_snapshot_of_the_restored_is_the_same(subject: EnumeratorUnderTest) -> None:
    for asks in subject.cuts:
        stored = subject.run(requests=asks).snapshot()
        restored = EnumeratorRun(subject.source, stored)
        agree(f"the state restored after {asks} requests", restored.snapshot(), stored)


def _a_snapshot_before_the_first_assignment_holds_all(subject: EnumeratorUnderTest) -> None:
    run = subject.run(requests=1)
    stored = run.snapshot()
    for checkpoint_id in (2, 3):
        stored = EnumeratorRun(subject.source, stored).snapshot(checkpoint_id)
    subject.agree_on_all(
        "splits before and after", run.assigned + subject.restored(run, stored).drain(), in_order=True
    )


def _found_and_not_handled_is_not_lost(subject: EnumeratorUnderTest) -> None:
    """A snapshot between the end of a round on its thread and its handler on the coordinator."""
    run = EnumeratorRun(subject.source, schema=subject.schema)
    unstarted = run.snapshot()
    subject.agree_on_all("splits after a snapshot before the first round", subject.run(unstarted).drain())
    results = [(call, call.run()) for call in list(run.recorder.calls)]
    found = subject.run(run.snapshot()).drain()
    subject.agree_on_all("splits after a snapshot in between", run.assigned + found)
    for call, (result, error) in results:
        call.handler(result, error)
    run.drain()
    subject.agree_on_all("splits of the run itself", run.assigned)


def _splits_that_come_back_are_assigned_again(subject: EnumeratorUnderTest) -> None:
    run = subject.run()
    while len(run.unread) < 2 and not run.is_idle:
        run.ask()
    if len(run.unread) < 2:
        return  # a reader has to read one split for the next one to be found
    first, second = run.unread[:2]
    others = [split for split in run.assigned if split not in (first, second)]
    before = len(run.assigned)
    run.give_back([first], 0)
    restored = subject.restored(run)
    run.give_back([second], 1)
    run.drain()
    subject.agree_on_all("splits after two came back", [*others, *run.assigned[before:]])
    rest = restored.drain()
    subject.agree_on_all("splits after one came back, a snapshot and a restore", [*others, *rest, second])


def _a_bounded_run_ends(subject: EnumeratorUnderTest) -> None:
    try:
        run = subject.run(boundedness=Boundedness.BOUNDED)
    except OptionError:
        return  # the source has no end, and the error says so
    subject.agree_on_all("splits of a bounded run", run.drain())
    early = EnumeratorRun(subject.source, schema=subject.schema, boundedness=Boundedness.BOUNDED)
    early.drain()
    early.discover()
    early.drain()
    subject.agree_on_all(
        "splits of a bounded run with requests before the end of its first round", early.assigned
    )
    for _ in range(3):
        agree("splits of further requests at the end", _ids(run.drain()), [])
    restored = subject.run(run.snapshot(), boundedness=Boundedness.BOUNDED)
    agree("splits of a bounded run restored at its end", _ids(restored.drain()), [])


def _completion_may_be_reported_again(subject: EnumeratorUnderTest) -> None:
    run = subject.run(requests=1)
    run.snapshot(1)
    run.enumerator.notify_checkpoint_complete(1)
    once = run.snapshot(2)
    run.enumerator.notify_checkpoint_complete(1)
    agree("the state after the second report", run.snapshot(2), once)
    restored = subject.restored(run, once)
    restored.enumerator.notify_checkpoint_complete(1)
    subject.agree_on_all("splits before and after", run.assigned + restored.drain(), in_order=True)


def _cutting_is_repeatable_and_moves(subject: EnumeratorUnderTest) -> None:
    if type(subject.run().enumerator).bound_split is SplitEnumerator.bound_split:
        return
    run = subject.run()
    for split in run.drain():
        for budget in (Budget(), Budget(rows=3, files=1)):
            cut = run.enumerator.bound_split(split, budget)
            agree("the same split cut again", run.enumerator.bound_split(split, budget), cut)
            if cut is None or cut.rest is None:
                continue
            agree("split_id of the rest of a split", cut.rest.split_id, split.split_id)
            if cut.rest == split:
                raise Disagreement(f"a range was cut from {split!r:.200}, but the rest is as large as before")


def _event_times_advance_and_horizons_are_kept(subject: EnumeratorUnderTest) -> None:
    run = subject.run()
    enumerator: Any = run.enumerator
    for split in run.drain() if isinstance(run.enumerator, FollowsEventTime) else ():
        at: Any = split
        for _ in range(MOST_CUTS):
            time_us = enumerator.event_time_at(at)
            cut = enumerator.bound_split(at, Budget(rows=3, files=1))
            if time_us is not None:
                within = enumerator.bound_split(at, Budget(latest_us=time_us - 1))
                agree(f"what is before {time_us}, the event time of {at!r:.200}", within, None)
                unbounded = enumerator.bound_split(at, Budget(rows=3, files=1, latest_us=_LAST_US))
                agree("a cut with a horizon after all event times", unbounded, cut)
            if cut is None or cut.rest is None:
                break
            then_us = enumerator.event_time_at(cut.rest)
            if time_us is not None and (then_us is None or then_us < time_us):
                raise Disagreement(
                    f"event_time_at goes back from {time_us} to {then_us}, from {at!r:.200} to its rest "
                    f"{cut.rest!r:.200}"
                )
            at = cut.rest


def _ranges_are_cut_off(subject: EnumeratorUnderTest) -> None:
    rules: SplitRules[Any] = SplitRules(enumerator_type=subject.source.enumerator_type)
    run = subject.run()
    for split in run.drain() if rules.cuts_splits else ():
        cut = run.enumerator.bound_split(split, Budget(rows=3, files=1))
        if cut is not None and cut.rest is not None and rules.may_be_whole(cut.read):
            raise Disagreement(
                f"is_cut_off returns False for {cut.read!r:.200}, whose split goes on as {cut.rest!r:.200}"
            )


def _arguments_are_values(subject: EnumeratorUnderTest) -> None:
    run = subject.run()
    for goes_on in (run.drain, run.discover, run.drain):
        for argument, before in run.context.arguments:
            if argument is run.enumerator:
                raise Disagreement("argument of call_async returns the enumerator itself")
            agree("what call_async gave its work, when that had ended", repr(argument), before)
        goes_on()


def _what_is_added_is_found_once(subject: EnumeratorUnderTest) -> None:
    if subject.grow is None:
        return
    run = subject.run()
    run.drain()
    stored = run.snapshot()
    subject.grow()
    run.discover()
    new = run.drain()
    if not new:
        raise TrivialInput("grow has added no split that is found: add at least one")
    known = set(_ids(subject.splits))
    agree(
        "splits that were found before and are found again", [name for name in _ids(new) if name in known], []
    )
    run.discover()
    agree("splits in a further round", _ids(run.drain()), [])
    agree("added splits that a restored run finds", _ids(subject.run(stored).drain()), _ids(new))


def _what_is_told_changes_nothing(subject: EnumeratorUnderTest) -> None:
    kind = subject.source.enumerator_type
    for requests in (0, 1):
        run = subject.run(requests=requests)
        stored, splits = run.snapshot(), list(run.assigned)
        asked = EnumeratorRun(subject.source, stored, start=False)
        if issubclass(kind, TellsProgress):
            _check_tables("progress", kind.progress(run.state_in(stored), splits, {}))
        if isinstance(asked.enumerator, LooksIntoSource):
            _check_tables("look", asked.enumerator.look(splits))
        if asked.recorder.uses:
            raise Disagreement(f"look calls context.{asked.recorder.uses[0]}: it may only look")
        run.drain()
        subject.agree_on_all("splits of a run while it is looked at", run.assigned, in_order=True)


def _check_tables(what: str, tables: Iterable[ProgressTable]) -> None:
    for table in tables:
        rows: Sequence[Sequence[Any]] = table.rows
        for row in rows:
            if len(row) != len(table.columns):
                raise Disagreement(f"{what} gives {len(row)} cells for {len(table.columns)} columns: {row}")
            wrong = [cell for cell in row if not isinstance(cell, str | int | float | dt.datetime | None)]
            if wrong:
                raise Disagreement(f"{what} gives a cell that is no text, number or time: {wrong[0]!r}")


ENUMERATOR_LAWS: tuple[Law[EnumeratorUnderTest], ...] = (
    Law(SPLITS_ARE_VALUES, lambda subject: check_frozen(subject.source.enumerator_type)),
    Law("the enumerator runs out of splits", _comes_to_an_end),
    Law("split ids are unique", _ids_are_unique),
    Law("another enumerator finds the same splits with the same ids", _another_finds_the_same),
    Law("a stored split equals the original", _splits_can_be_stored),
    Law("nothing is done before start()", _construction_does_nothing),
    Law("no split is found twice", _nothing_is_found_twice),
    Law("the splits do not depend on which subtask asks", _who_asks_does_not_matter),
    Law("taking a snapshot changes nothing", _a_snapshot_disturbs_nothing),
    Law("a snapshot does not change after it was taken", _a_snapshot_is_a_value),
    Law("a restored enumerator assigns the rest, once and in order", _restored_assigns_the_rest),
    Law(
        "a snapshot between restore and the first assignment is complete (S91)",
        _a_snapshot_before_the_first_assignment_holds_all,
    ),
    Law(
        "a snapshot right after a restore has the same bytes (S100)", _a_snapshot_of_the_restored_is_the_same
    ),
    Law("splits found by a round are not lost before its handler runs", _found_and_not_handled_is_not_lost),
    Law("splits that come back are assigned again, once (S58)", _splits_that_come_back_are_assigned_again),
    Law("a bounded run assigns all splits and then ends", _a_bounded_run_ends),
    Law("a completion may be reported twice (R7)", _completion_may_be_reported_again),
    Law("cutting a split is repeatable and leaves less of it", _cutting_is_repeatable_and_moves),
    Law(
        "event times of live splits never go back, and horizons are kept",
        _event_times_advance_and_horizons_are_kept,
    ),
    Law("is_cut_off tells ranges from splits that are read whole", _ranges_are_cut_off),
    Law("what asynchronous work is given does not change", _arguments_are_values),
    Law("what is told of progress and of a look changes nothing", _what_is_told_changes_nothing),
    Law("added splits are found once", _what_is_added_is_found_once),
)


def check_enumerator(
    source: GivenSource = None,
    *,
    enumerator: type[SplitEnumerator[Any]] | None = None,
    reader: type[SplitReader[Any]] | None = None,
    schema: pa.Schema | None = None,
    grow: Callable[[], object] | None = None,
) -> None:
    """Check that an enumerator keeps the laws of enumerators.

    Args:
        source: options, or a SourceUnderTest. It must find at least two splits, and the same ones each time.
        enumerator, reader: classes, instead of the options with these names. If the enumerator takes events,
            the reader reads all splits, and its events are delivered.
        schema: the columns, for an enumerator that takes events; the reader's default if None.
        grow: adds data in which at least one new split is found; called once, at the end.

    Raises:
        LawBroken: a law is broken; names the law and the finding.
        TrivialInput: there are too few splits for a check.
        Flip27Error: the options are invalid.
    """
    given = under_test(source, enumerator=enumerator, reader=reader, schema=schema)
    resolved = given.resolve()
    columns = given.arrow_schema() if resolved.enumerator_type.resolve_event_types() else None
    enforce(ENUMERATOR_LAWS, EnumeratorUnderTest(source=resolved, schema=columns, grow=grow))
