"""The laws of sources, and ``check_source``: every row exactly once, despite all failures."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

import pyarrow as pa

from ..enumerator import SplitEnumerator
from ..enumerator_mixins import ComposedOfSources
from ..errors import ContractError
from ..events import ReturnSplit
from ..reader import SplitReader, YieldsProgress
from ..snapshots.store import MemoryStore
from ..source_options import ON_SPLIT_ERROR
from .change_laws import (
    Changes,
    changes_arrive,
    changes_while_reading,
    losses_are_told,
    unread_splits_are_read_later,
)
from .engine import MicroBatchEngine
from .enumerator_run import EnumeratorRun
from .frozen_splits import SPLITS_ARE_VALUES, check_frozen
from .injected_errors import FEW_ERRORS, MOST_ERRORS, check_errors
from .law import Disagreement, Law, TrivialInput, agree, agree_in_any_order, enforce
from .reader_run import ReaderRun
from .source_run import PARTS, RERUN_FROM, REST_MS, SourceCheck, crash_once, rows_of_splits
from .spark_query import BatchRead
from .spark_side import Row
from .steps import Step, Victim
from .tasks import Speculation
from .under_test import GivenSource, SourceUnderTest, under_test

LARGEST_OFFSET = 4096
"""Maximum bytes of an offset whose state is in a store."""

IDLE_CALLS = 20
MOST_PLACES = 5
"""Maximum number of batches of the first snapshot after which data is added."""
_DECISIVE = (Step.STATE_WRITTEN, Step.OFFSET_LOGGED, Step.TASK_ENDED, Step.SINK_WRITTEN)
"""Steps after which a batch is planned anew, planned and not read, read and not delivered, delivered."""


def _comes_to_rest(check: SourceCheck) -> None:
    # Without an engine first: what never comes to an end is found here, and named.
    rows: list[Row] | None = None
    if check.promised is None and not check.takes_events:
        rows = rows_of_splits(check.given)
    else:
        deque(EnumeratorRun(check.given.resolve()).ranges(), maxlen=0)
    engine = check.rehearse()
    batches = [batch for batch in engine.batches if batch.rows]
    if len(engine.rows) < 2 or len(batches) < 2:
        raise TrivialInput(
            f"the source gives {len(engine.rows)} rows in {len(batches)} batches: give it a few splits (or "
            "pages) with a few rows each, so that it can crash between them"
        )
    if check.promised is not None:
        check.rows = list(check.promised)
    else:
        check.rows = engine.rows if rows is None else rows
    check.agree("of an undisturbed run", engine)


def _undisturbed(check: SourceCheck) -> None:
    for parallelism in (1, 4) if check.fast else (1, 2, 4):
        for available_now in (parallelism == 1,) if check.fast else (False, True):
            engine = check.ended_engine(parallelism=parallelism, available_now=available_now)
            trigger = "AvailableNow" if available_now else "micro-batches"
            check.agree(f"at parallelism {parallelism}, with {trigger}", engine)


def _a_batch_read(check: SourceCheck) -> None:
    source = check.given.resolve()
    if issubclass(source.enumerator_type, ComposedOfSources):
        return  # a chain is refused, because a source starts where the one before it has ended
    quarantines = source.reader_type.quarantines(source.options)
    if check.takes_events or quarantines or source.options[ON_SPLIT_ERROR] == "quarantine":
        return  # a batch read has one batch and no reports: no events, and no quarantine
    try:
        rows = BatchRead(source, check.given.arrow_schema()).plan().rows()
    except ContractError as error:
        if isinstance(error.__context__, ReturnSplit):
            return  # only streams can return splits, and the error says so
        raise
    agree_in_any_order("rows of a batch read", rows, check.rows)


def _limits(check: SourceCheck) -> None:
    few = str(max(1, len(check.rows) // 10))
    size = sum(batch.end["summary"].get("bytes", 0) for batch in check.steady.batches)
    limits = [{name: few} for name in ("maxFilesPerTrigger", "maxRowsPerTrigger")]
    # Not a byte in each batch: positions in a log may be bytes.
    limits += [{"maxBytesPerTrigger": str(max(1, size // (2 * PARTS)))}]
    if issubclass(check.given.resolve().reader_type, YieldsProgress):
        limits += [{"maxRowsPerSplit": few}, {"maxBytesPerSplit": "1"}, {"maxSplitDuration": "0s"}]
    for options in limits:
        check.agree(f"with {options}", check.ended_engine(check.given.with_options(**options)))


def _crashes(check: SourceCheck) -> None:
    for points in check.crash_runs():
        where = [f"{point.step.name} of batch {point.batch_id}, time {point.nth}" for point in points]
        what = "a crash" if len(where) == 1 else "crashes"
        check.agree(f"after {what} at {'; '.join(where)}", check.run_through(points))


def _crashes_again(check: SourceCheck) -> None:
    if check.fast:
        points = [point for points in check.crash_runs() for point in points if point.step in _DECISIVE]
        check.agree("after two crashes at the same step", check.run_through(points * 2))
        return
    points = check.crash_points()
    for point in points:
        if point.batch_id == 1:
            check.agree(f"after two crashes at {point.step.name} of batch 1", check.run_through([point] * 2))
    check.agree("after a crash at every step in one run", check.run_through(points))


def _killed_tasks(check: SourceCheck) -> None:
    for points in check.crash_runs(Victim.EXECUTOR, nth_up_to=2):
        engine = check.run_through(points)
        where = "; ".join(f"{point.step.name} of batch {point.batch_id}" for point in points)
        check.agree(f"after a task was killed at {where}", engine)


def _speculation(check: SourceCheck) -> None:
    kinds = list(Speculation)
    # With ``fast`` they take turns at the batches of one run.
    for run in (kinds,) if check.fast else ([kind] for kind in kinds):
        engine = check.engine()
        turns = itertools.cycle(run)
        while engine.run_batch(speculation=next(turns)) is not None:
            pass
        what = "; ".join(kind.value for kind in run)
        check.agree(f"with speculative copies ({what})", engine)


def _stages_again(check: SourceCheck) -> None:
    engine = check.engine()
    while (batch := engine.run_batch(actions=2)) is not None:
        stages: list[list[Row]] = [[], []]
        for attempt in batch.attempts:
            stages[attempt.stage].extend(attempt.rows)
        agree_in_any_order(f"rows of the second action on batch {batch.batch_id}", stages[1], stages[0])
    check.agree("with two actions on every batch", engine)


def _other_parallelism(check: SourceCheck) -> None:
    engine = check.engine(parallelism=2)
    parallelisms = [4, 1, 3, 2]
    for number in check.some_batches():
        if engine.run_batch() is None:
            break
        engine.restart(parallelism=parallelisms[number % len(parallelisms)])
    engine.process_all_available()
    check.agree("with a restart at another parallelism after every batch", engine)


def _rest(check: SourceCheck) -> None:
    # A new one: runs of the same source may have moved the log that it reads.
    engine = check.resting_engine(is_new=True)
    assert isinstance(engine.store, MemoryStore)
    store = engine.store
    files, offset = dict(store.files), engine.logs.offsets[-1]
    for _ in range(IDLE_CALLS):
        if engine.trigger():
            raise Disagreement(
                f"a new offset although nothing is new: {engine.logs.offsets[-1]}, was {offset}"
            )
    if store.files != files:
        changed = sorted(name for name, data in store.files.items() if files.get(name) != data)
        raise Disagreement(f"files written although nothing is new: {changed}")
    agree("reportLatestOffset called again", engine.holder.report(), engine.holder.report())


def _last_commit_lost(check: SourceCheck) -> None:
    engine = check.resting_engine()
    for _ in range(2):
        engine.restart()
        again = [row for batch in engine.process_all_available() for row in batch.rows]
        agree("rows after a restart when everything had been read", again, [])
    check.agree("after restarts at the end", engine)


def _plans(check: SourceCheck) -> None:
    engine = check.engine()
    for _ in check.some_batches():
        if not engine.trigger():
            break
        planned = engine.partitions()
        agree("partitions called again", engine.partitions(), planned)
        engine.restart()
        agree("partitions called first in a new process", engine.partitions(), planned)
        agree("partitions called again in the new process", engine.partitions(), planned)
        engine.run_batch()
    engine.process_all_available()
    check.agree("with a restart in every batch", engine)


def _no_data(check: SourceCheck) -> None:
    engine = check.engine()
    while engine.run_batch() is not None:
        engine.run_no_data_batch()
    check.agree("with batches without data in between", engine)


def _offsets(check: SourceCheck) -> None:
    for text in check.resting_engine().logs.offsets:
        value = json.loads(text)
        agree("an offset, serialised again with sorted keys", json.dumps(value, sort_keys=True), text)
        if len(text) > LARGEST_OFFSET:
            raise Disagreement(f"an offset of {len(text)} bytes, more than {LARGEST_OFFSET}: {text[:300]}")


def _inline(check: SourceCheck) -> None:
    if check.needs_store:
        return
    check = check.with_options(inlineStateLimit="16m")
    check.agree("with the state inside the offsets", check.ended_engine(inline_state=True))
    steps = (Step.OFFSET_RETURNED, Step.OFFSET_LOGGED, Step.TASKS_ENDED, Step.COMMIT_LOGGED)
    for step in steps[:1] if check.fast else steps:
        points = [point for point in check.crash_points() if point.step is step]
        check.agree(f"after crashes at {step.name}", check.run_through(points, inline_state=True))


def _zombies(check: SourceCheck) -> None:
    engine = check.engine()
    for _ in check.some_batches():
        if not engine.trigger():
            break
        zombies = [engine.attempt(task) for task in engine.partitions()]
        for zombie in zombies:
            next(zombie, None)
        engine.restart()
        engine.partitions()
        for zombie in zombies[1::2]:
            _ends(zombie)
        engine.run_batch()
        for zombie in zombies[::2]:
            _ends(zombie)
    engine.process_all_available()
    check.agree("with tasks of dead drivers that continue to read", engine)


def _ends(zombie: Any) -> None:
    # It may succeed or fail; its result no longer counts.
    with suppress(Exception):
        for _ in zombie:
            pass


def _growth(check: SourceCheck) -> None:
    if check.grow is None:
        return
    engines: dict[str, MicroBatchEngine] = {}
    if not check.fast:
        batches = len(check.ended_engine(check.in_small_steps).batches)
        for number in range(1, min(batches, MOST_PLACES) + 1):
            what = f"when data is added after {number} batches, with restarts before and after"
            engines[what] = _grown_after(check, number)
        engines["when data is added while the driver crashes, with limits"] = _grown_in_crashes(check)
    steady = _grown_amid(check, restarts=False)
    engines |= {
        "when data is added between batches, with restarts": _grown_amid(check, restarts=True),
        "when data is added while the driver crashes": _grown_in_crashes(check, check.given, parallelism=1),
    }
    for engine in (steady, *engines.values()):
        engine.now_ms += REST_MS
        engine.process_all_available()
    everything = check.ended_engine(check.given)
    rows = everything.rows
    if len(rows) <= len(check.rows):
        raise TrivialInput("grow has added no row: add at least one at every call")
    check.agree_with("when data is added between batches", steady, everything, rows)
    for what, engine in engines.items():
        check.agree_with(what, engine, steady, rows)
    check.steady = steady


def _grown_amid(check: SourceCheck, *, restarts: bool) -> MicroBatchEngine:
    """Data is added during the first snapshot and again when all is read, and is read in small steps."""
    engine = check.engine(check.in_small_steps)
    for _ in range(2):
        engine.run_batch()
        _add(check, engine, restarts=restarts)
    _read_on(engine, restarts=restarts)
    for _ in range(2):
        _add(check, engine, restarts=restarts)
    _read_on(engine, restarts=restarts)
    return engine


def _grown_after(check: SourceCheck, batches: int) -> MicroBatchEngine:
    engine = check.engine(check.in_small_steps)
    for _ in range(batches):
        engine.run_batch()
    _add(check, engine, restarts=True)
    _read_on(engine, restarts=True)
    return engine


def _add(check: SourceCheck, engine: MicroBatchEngine, *, restarts: bool) -> None:
    assert check.grow is not None
    if restarts:
        engine.restart()
    check.grow()
    engine.now_ms += REST_MS
    if restarts:
        engine.restart()


def _read_on(engine: MicroBatchEngine, *, restarts: bool) -> None:
    """Read what is there; with ``restarts`` every batch is read by a new driver."""
    for batch in engine.available_batches():
        if restarts and batch.rows:
            engine.restart()


def _grown_in_crashes(
    check: SourceCheck, given: SourceUnderTest | None = None, **more: Any
) -> MicroBatchEngine:
    """Data is added to a query at rest, and again when it has crashed and a batch is run again.

    Without limits and with one task, added data can be in the batch that is run again.
    """
    assert check.grow is not None
    engine = check.engine(given, **more)
    for step in RERUN_FROM:
        engine.process_all_available()
        engine.now_ms += REST_MS
        check.grow()
        crash_once(engine, step, check.grow)
    return engine


def _updates(check: SourceCheck) -> None:
    if check.update is None:
        return
    if check.given.resolve().is_repeatable:
        raise TrivialInput(
            "update changes rows, but the source declares its rows repeatable: write repeatable = False in "
            "the class of its reader or enumerator, or leave update out"
        )
    before = check.ended_engine(check.given).rows
    for step in RERUN_FROM:
        engine = check.engine()
        crash_once(engine, step, check.update)
        after = check.ended_engine(check.given).rows
        if sorted(map(repr, after)) == sorted(map(repr, before)):
            raise TrivialInput("update has changed no row: change at least one at every call")
        what = f"after an update while a batch was run again from {step.name}"
        found, expected = ([check.key(row) for row in rows] for rows in (engine.rows, after))
        agree_in_any_order(f"keys of rows {what}", found, expected)
        known = {repr(row) for row in (*before, *after)}
        stray = [row for row in engine.rows if repr(row) not in known]
        if stray:
            raise Disagreement(f"rows {what} that the source never had: {stray[:3]}")
        before = after


def _errors(check: SourceCheck) -> None:
    source = check.given.resolve()
    schema = check.steady.schema
    planned = check.steady.splits_of_all([task for tasks in check.steady.tasks.values() for task in tasks])
    check_errors(
        source.reader_type,
        lambda: ReaderRun(source.reader_type, source.options, schema),
        planned[:MOST_PLACES] + planned[MOST_PLACES:][-MOST_PLACES:],
        most=FEW_ERRORS if check.fast else MOST_ERRORS,
    )


def _of_changes(law: Callable[[SourceCheck, Changes], None]) -> Callable[[SourceCheck], None]:
    """The law, for sources of changes only."""
    return lambda check: None if check.changes is None else law(check, check.changes)


SOURCE_LAWS: tuple[Law[SourceCheck], ...] = (
    Law(SPLITS_ARE_VALUES, lambda check: check_frozen(check.given.resolve().enumerator_type)),
    Law("an undisturbed run ends and delivers every row", _comes_to_rest),
    Law("every row exactly once, at any parallelism", _undisturbed),
    Law("a batch read gives the same rows", _a_batch_read),
    Law("limits divide the rows without changing them (S78)", _limits),
    Law("when nothing is new the offset stays and nothing is written (R2)", _rest),
    Law("offsets are small and canonical", _offsets),
    Law("batches without data change nothing", _no_data),
    Law("a stage that runs again gives the same rows", _stages_again),
    Law("no row is read again when the last commit is lost (S97)", _last_commit_lost),
    Law("every row exactly once, after a crash at any step", _crashes),
    Law("every row exactly once, after repeated crashes", _crashes_again),
    Law("a plan depends only on stored state (S95)", _plans),
    Law("every row exactly once, when tasks are killed and retried", _killed_tasks),
    Law("every row exactly once, with speculative copies (S96)", _speculation),
    Law("tasks of a dead driver change nothing (R9)", _zombies),
    Law("every row exactly once, when parallelism changes at restarts (S76)", _other_parallelism),
    Law("state inside the offsets works as well", _inline),
    Law("added rows are read exactly once", _growth),
    Law("an error while reading is not taken for the end of a split (R12)", _errors),
    Law("changed rows appear once per key when a batch is run again (R16)", _updates),
    Law("changes add up to the table of the source, whenever they come", _of_changes(changes_arrive)),
    Law("changes add up to the table of the source, while rows are read", _of_changes(changes_while_reading)),
    Law(
        "splits that could not be read are read later, or stop the query",
        _of_changes(unread_splits_are_read_later),
    ),
    Law("data that is gone is reported, or stops the query (R12)", _of_changes(losses_are_told)),
)


def check_source(
    source: GivenSource = None,
    *,
    enumerator: type[SplitEnumerator[Any]] | None = None,
    reader: type[SplitReader[Any]] | None = None,
    schema: pa.Schema | None = None,
    rows: Sequence[Row] | None = None,
    grow: Callable[[], object] | None = None,
    update: Callable[[], object] | None = None,
    key: Callable[[Row], Any] | None = None,
    change: Callable[[], object] | None = None,
    identity: Callable[[Row], Any] | None = None,
    replay: Callable[[Sequence[Row]], Mapping[Any, Any]] | None = None,
    lose: Callable[[], object] | None = None,
    each_once: bool = False,
    fast: bool = False,
) -> None:
    """Check that a source delivers every row exactly once, despite all failures.

    Runs it more than a hundred times, each time on a new engine with its state in memory; a few splits
    with a few rows each are enough, and take about a second. Each run begins with the same data: actions
    are requested and stored, but ``perform`` is not called. Test ``perform`` with a MicroBatchEngine.

    Args:
        source: options, or a SourceUnderTest. Only ``grow`` and ``update`` may change its data.
        enumerator, reader: classes, instead of the options with these names.
        schema: the columns; the reader's default if None.
        rows: the expected rows, in any order; the rows of its splits if None.
        grow: adds rows; called several times, at the end: while new queries read, rest, crash and restart.
        update: changes existing rows without adding or removing any; called several times, after ``grow``.
            For a source with ``repeatable = False``.
        key: returns the part of a row that identifies it and that no update changes; by default its first
            column.
        change: inserts, updates or deletes; called between any two batches, during the first snapshot, and
            after crashes. For a source of changes: the table that its rows add up to is compared with that of
            a new query.
        identity: with ``change``, the key of a row; by default ``key``.
        replay: with ``change``, the table, by key, that rows add up to in the order in which they came; by
            default the last row of each key.
        lose: removes data that a query still needs, such as the beginning of a log: the source has to report
            a data loss, or to stop. Called once, at the very end.
        each_once: whether no change comes twice, neither in a chunk and in the log nor in the log alone:
            every row has to change the table of the rows before it. ``change`` must not write equal values.
        fast: for a source with a server, where each run opens connections: every law is checked, in about
            20 runs, because one run contains several crashes, and most steps are crashed in one batch only.

    Raises:
        LawBroken: a law is broken; names the law and the finding.
        TrivialInput: there is too little data for a check.
        Flip27Error: the options are invalid.
    """
    given = under_test(source, enumerator=enumerator, reader=reader, schema=schema)
    if change is None and (identity or replay or lose or each_once):
        raise TrivialInput(
            "identity, replay, lose and each_once are for a source of changes: give change, too"
        )
    key = itemgetter(0) if key is None else key
    changes = None
    if change is not None:
        changes = Changes(
            change=change, identity=identity or key, replay=replay, lose=lose, each_once=each_once
        )
    enforce(
        SOURCE_LAWS,
        SourceCheck(
            given=given, promised=rows, grow=grow, update=update, key=key, changes=changes, fast=fast
        ),
    )
