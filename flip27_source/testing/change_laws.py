"""The laws of sources whose rows are changes: the table that they add up to is compared, not the rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from threading import Thread
from types import FrameType
from typing import Any

from .. import edits
from ..errors import EditError
from ..reader import SplitReader
from ..snapshots.offsets import Offset
from ..source_options import STATE_LOCATION
from ..values.differences import shown
from .engine import MicroBatchEngine
from .injected_errors import Place, TracedLines, files_of
from .law import SHOWN, Disagreement, TrivialInput
from .provenance import came
from .source_run import RERUN_FROM, REST_MS, SourceCheck, crash_once
from .spark_side import Row

MOST_CHANGES = 6
"""How often ``change`` is called in a run."""
MOST_LINES = 30
FEW_LINES = 10
"""Maximum number of lines at which a fast check calls ``change``, because each needs two runs."""
PATIENCE_S = 0.3
"""How long a reader waits for a change, which may have to wait for a lock of the reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """How a source changes, and how its rows become a table.

    Attributes:
        change: inserts, updates and deletes.
        identity: the key of a row.
        replay: the table that rows add up to, by key; None: the last row of a key counts.
        lose: removes data that a query which has begun still needs, such as the beginning of a log.
        each_once: whether every row that arrives changes the table.
    """

    change: Callable[[], object]
    identity: Callable[[Row], Any]
    replay: Callable[[Sequence[Row]], Mapping[Any, Any]] | None = None
    lose: Callable[[], object] | None = None
    each_once: bool = False

    def table(self, rows: Sequence[Row]) -> Mapping[Any, Any]:
        return {self.identity(row): row for row in rows} if self.replay is None else self.replay(rows)


def changes_arrive(check: SourceCheck, changes: Changes) -> None:
    engines = {
        "with a change between any two batches": _changed(check, changes),
        "with a change and a restart between any two batches": _changed(check, changes, restarts=True),
        "with a change whenever the driver crashes": _changed_in_crashes(check, changes),
    }
    for engine in engines.values():
        engine.now_ms += REST_MS
        engine.process_all_available()
    expected = _table_now(check, changes)
    if repr(expected) == repr(changes.table(check.rows)):
        raise TrivialInput("change has changed nothing: insert, update or delete at every call")
    for what, engine in engines.items():
        _agree(what, engine, changes, expected)
        if changes.each_once:
            _each_changes_the_table(what, engine, changes)


def _table_now(check: SourceCheck, changes: Changes) -> Mapping[Any, Any]:
    """The table of the source, as a new query reads it."""
    return changes.table(check.ended_engine(check.given).rows)


def _agree(what: str, engine: MicroBatchEngine, changes: Changes, expected: Mapping[Any, Any]) -> None:
    found = changes.table(engine.rows)
    keys = [key for key in {**expected, **found} if repr(found.get(key)) != repr(expected.get(key))]
    if not keys:
        return
    texts = []
    for key in keys[:SHOWN]:
        rows = [
            f"{shown(row)} in batch {batch.batch_id}"
            for batch in engine.batches
            for row in batch.rows
            if changes.identity(row) == key
        ]
        has, wants = (shown(table[key]) if key in table else "not there" for table in (found, expected))
        last = "; ".join(rows[-SHOWN:]) or "none"
        texts.append(f"key {shown(key)} is {has}, and in the source {wants}; the rows that came: {last}")
    more = f"\n  and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    raise Disagreement(f"the table {what} differs:\n  " + "\n  ".join(texts) + more)


def _each_changes_the_table(what: str, engine: MicroBatchEngine, changes: Changes) -> None:
    rows: list[Row] = []
    before = changes.table(rows)
    for batch in engine.batches:
        for row in batch.rows:
            rows.append(row)
            after = changes.table(rows)
            if repr(after) == repr(before):
                key = changes.identity(row)
                of_key = [one for one in rows if changes.identity(one) == key][-SHOWN:]
                origins = "\n  ".join(dict.fromkeys(came(engine, one) for one in of_key))
                raise Disagreement(
                    f"{what}, the row {shown(row)} in batch {batch.batch_id} changes nothing: it came "
                    "before, or it is older than a row of its key that came before. Compare its position "
                    "with the mark of its chunk; if two chunks gave rows of a key, they overlap. The rows of "
                    f"key {shown(key)}:\n  {origins}"
                )
            before = after


def _changed(check: SourceCheck, changes: Changes, *, restarts: bool = False) -> MicroBatchEngine:
    engine = check.engine(check.in_small_steps)
    left = MOST_CHANGES
    for batch in engine.available_batches():
        if restarts and batch.rows:
            engine.restart()
        if left:
            _change(engine, changes)
            left -= 1
    return engine


def _changed_in_crashes(check: SourceCheck, changes: Changes) -> MicroBatchEngine:
    engine = check.engine()
    for step in RERUN_FROM:
        _change(engine, changes)
        crash_once(engine, step, changes.change)
    return engine


class _Meanwhile(TracedLines):
    """Calls ``change`` once, on another thread, when a line of a reader runs that no earlier run has reached.

    Attributes:
        at: the line.
    """

    def __init__(self, reader_type: type, change: Callable[[], object], known: set[Place]) -> None:
        super().__init__(files_of(reader_type))
        self._read = {kind.__dict__["read"].__code__ for kind in reader_type.__mro__ if "read" in vars(kind)}
        self._thread = Thread(target=change, daemon=True)
        self._known = known
        self.at: Place | None = None

    def wait(self) -> None:
        """Wait for the change, which may have waited for a lock of the reader."""
        if self.at is not None:
            self._thread.join()

    def _line(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        place = (frame.f_code, frame.f_lineno)
        if event == "line" and self.at is None and place not in self._known and self._is_reading(frame):
            self.at = place
            self._known.add(place)
            self._thread.start()
            self._thread.join(PATIENCE_S)
        return self._line

    def _is_reading(self, frame: FrameType | None) -> bool:
        while frame is not None and frame.f_code not in self._read:
            frame = frame.f_back
        return frame is not None


def changes_while_reading(check: SourceCheck, changes: Changes) -> None:
    reader_type = check.given.resolve().reader_type
    known: set[Place] = set()
    for _ in range(FEW_LINES if check.fast else MOST_LINES) if files_of(reader_type) else ():
        engine, meanwhile = check.engine(), _Meanwhile(reader_type, changes.change, known)
        with meanwhile.traced():
            engine.process_all_available()
        meanwhile.wait()
        if meanwhile.at is None:
            return
        engine.now_ms += REST_MS
        engine.process_all_available()
        code, line = meanwhile.at
        what = f"with a change before line {line} of {code.co_qualname} ({code.co_filename})"
        _agree(what, engine, changes, _table_now(check, changes))


def losses_are_told(check: SourceCheck, changes: Changes) -> None:
    if changes.lose is None:
        return
    between, planned = check.engine(check.in_small_steps), check.ended_engine(check.given)
    between.run_batch()
    for _ in range(2):
        changes.change()
    planned.now_ms += REST_MS
    planned.trigger()
    changes.lose()
    engines = {
        "between two batches": (between, "The enumerator has to call context.report_data_loss"),
        "after a batch was planned": (planned, "The reader has to raise an error"),
    }
    for when, (engine, remedy) in engines.items():
        if _is_told(engine):
            continue
        found, expected = changes.table(engine.rows), _table_now(check, changes)
        if repr(found) != repr(expected):
            raise Disagreement(
                f"lose has removed data {when}, and the query goes on as if nothing were missing: a table of "
                f"{len(found)} rows instead of {len(expected)}, or with older ones. {remedy} if the oldest "
                "position that is left is beyond that of the split"
            )
        if engine is between:
            raise TrivialInput("lose has removed nothing that a query which has begun still needs")


def _is_told(engine: MicroBatchEngine) -> bool:
    """Whether a query whose source has lost data reports that, or ends."""
    engine.now_ms += REST_MS
    try:
        engine.process_all_available()
    except Exception:  # noqa: BLE001 - the source has stopped the query, as it should
        return True
    return bool((engine.holder.report() or {}).get("dataLosses", 0))


def unread_splits_are_read_later(check: SourceCheck, changes: Changes) -> None:
    for is_begun, when in ((False, "of the first batch"), (True, "with changes")):
        with TemporaryDirectory(prefix="flip27-check-") as folder:
            _retried(check, changes, folder, is_begun=is_begun, when=f"the splits {when} could not be read")


def _retried(check: SourceCheck, changes: Changes, folder: str, *, is_begun: bool, when: str) -> None:
    source = check.given.resolve()
    location = source.options[STATE_LOCATION] or folder
    reader_type, fails = _failing(source.reader_type)
    given = replace(check.given, reader=reader_type).with_options(
        onSplitError="quarantine", maxSplitAttempts="1", stateLocation=location
    )
    engine = check.ended_engine(given) if is_begun else check.engine(given)
    if is_begun:
        _change(engine, changes)
    if not _is_left_out(engine, fails):
        return
    _change(engine, changes)
    engine.process_all_available()
    lineage = Offset.from_json(json.loads(engine.logs.offsets[-1])).lineage
    storage = source.options.with_prefix("storage.")
    try:
        edits.submit(
            edits.plan(
                "quarantine retry",
                state=location,
                lineage=lineage,
                glob="*",
                why="a check",
                storage_options=storage,
            )
        )
        engine.now_ms += REST_MS
        engine.process_all_available()
        what = f"after {when}, were put into quarantine, and were read later"
        _agree(what, engine, changes, _table_now(check, changes))
    except EditError as error:
        raise Disagreement(f"{when}, were put into quarantine, and {error.what}. {_MUST_READ}") from None
    except Disagreement as difference:
        raise Disagreement(f"{difference}. {_MUST_READ}") from None


_MUST_READ = (
    "If others depend on a split, such as later changes on earlier ones, its task has to fail: return True "
    "for it from must_read of the reader"
)


def _failing(reader_type: type[SplitReader[Any]]) -> tuple[type[SplitReader[Any]], list[bool]]:
    """A reader that fails as long as the list says so."""
    fails = [False]

    def failing(name: str) -> Callable[..., Any]:
        read = getattr(reader_type, name)

        def read_or_fail(self: Any, splits: Any) -> Any:
            if fails[0]:
                raise OSError("an error that the check has injected")
            return read(self, splits)

        return read_or_fail

    names = {name: getattr(reader_type, name) for name in ("__module__", "__qualname__", "__doc__")}
    reads = {name: failing(name) for name in ("read", "read_together") if hasattr(reader_type, name)}
    return type(reader_type.__name__, (reader_type,), {**names, **reads}), fails


def _is_left_out(engine: MicroBatchEngine, fails: list[bool]) -> bool:
    """Whether the query goes on without the splits of a batch, which cannot be read."""
    fails[0] = True
    try:
        engine.run_batch()
    except Exception:  # noqa: BLE001 - the task has failed, and Spark would repeat it
        return False
    finally:
        fails[0] = False
    return True


def _change(engine: MicroBatchEngine, changes: Changes) -> None:
    changes.change()
    engine.now_ms += REST_MS
