"""The laws of readers, and ``check_reader``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ..enumerator import SplitEnumerator
from ..enumerators.files.split import FileSplit
from ..errors import OptionError, SchemaError
from ..options import Options
from ..reader import ReadsRanges, ReadsTogether, SplitReader, YieldsProgress
from ..registry import find_reader
from ..source import declared_options
from ..values.differences import shown
from .enumerator_run import EnumeratorRun
from .injected_errors import check_errors
from .law import Disagreement, Law, TrivialInput, agree, agree_in_any_order, enforce, same_in_order
from .reader_run import ReaderUnderTest, Share, stored
from .under_test import GivenSource, SourceUnderTest, under_test

MOST_MARKS = 12
"""Maximum number of positions of a split from which reading continues."""
RANGES = 3
"""Number of ranges into which a file is cut."""


def _same_shares(what: str, found: dict[str, Share], expected: dict[str, Share]) -> None:
    for split_id, share in found.items():
        _same_rows(f"{what}, rows of split {split_id!r}", share.rows, expected[split_id].rows)
        agree(f"{what}, marks of split {split_id!r}", share.marks, expected[split_id].marks)
        agree(f"{what}, events of split {split_id!r}", share.events, expected[split_id].events)
        parts = expected[split_id].quarantined
        agree(f"{what}, quarantined parts of split {split_id!r}", share.quarantined, parts)


def _same_rows(what: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    if not same_in_order(found, expected):
        agree_in_any_order(what, found, expected)
        raise Disagreement(f"{what}: the same rows in another order: {shown(found)}")


def _rows_fit_the_schema(subject: ReaderUnderTest) -> None:
    subject.shares = subject.read_all()
    with_rows = [name for name, share in subject.shares.items() if share.rows]
    if len(with_rows) < 2:
        raise TrivialInput(
            f"of {len(subject.splits)} splits {len(with_rows)} have rows: give at least two with rows, "
            "by splits=[...] if the enumerator assigns a single one"
        )


def _reading_again_gives_the_same(subject: ReaderUnderTest) -> None:
    _same_shares("read by a second reader", subject.read_all(), subject.shares)
    with subject.run() as run:
        for split in subject.splits:
            for time in ("first", "second"):
                found = {split.split_id: run.read(split)}
                _same_shares(f"read by one reader for the {time} time", found, subject.shares)


def _attempts_give_the_same(subject: ReaderUnderTest) -> None:
    found = subject.read_all(attempt_number=2, subtask_id=7)
    _same_shares("read by attempt 2 of subtask 7", found, subject.shares)


def _other_splits_do_not_matter(subject: ReaderUnderTest) -> None:
    _same_shares("read in reverse order", subject.read_all(subject.splits[::-1]), subject.shares)
    for split in subject.splits[:MOST_MARKS]:
        _same_shares("read alone", subject.read_all([split]), subject.shares)


def _stored_splits_are_read_alike(subject: ReaderUnderTest) -> None:
    arrived = [stored(split) for split in subject.splits]
    agree("splits that have gone through JSON", arrived, subject.splits)
    _same_shares("read after being stored", subject.read_all(arrived), subject.shares)


def _giving_up_is_harmless(subject: ReaderUnderTest) -> None:
    with subject.run():
        pass  # opened and closed without reading
    for split in subject.splits[:MOST_MARKS]:
        with subject.run() as run:
            run.read_a_little(split)
        with subject.run() as killed:
            killed.read_a_little(split)
            _same_shares("read after an abandoned read", {split.split_id: killed.read(split)}, subject.shares)
    _same_shares("read after abandoned readers", subject.read_all(), subject.shares)


def _no_progress_without_declaring_it(subject: ReaderUnderTest) -> None:
    marked = [name for name, share in subject.shares.items() if share.marks]
    if marked and not issubclass(subject.reader_type, YieldsProgress):
        raise Disagreement(
            f"split {marked[0]!r} has one: write class {subject.reader_type.__name__}(YieldsProgress, ...)"
        )


def _together_is_one_by_one(subject: ReaderUnderTest) -> None:
    if not issubclass(subject.reader_type, ReadsTogether):
        return
    for splits in (subject.splits, subject.splits[::-1], subject.splits[:1], []):
        with subject.run() as run:
            together = run.read_together(splits)
        expected = [row for split in splits for row in subject.shares[split.split_id].rows]
        _same_rows(f"{len(splits)} splits together", together.rows, expected)
        if together.marks:
            raise Disagreement("a Progress from read_together, which does not belong to a single split")


def _ranges_make_up_the_file(subject: ReaderUnderTest) -> None:
    kind = subject.reader_type
    if not issubclass(kind, ReadsRanges):
        return
    for split in subject.splits[:MOST_MARKS]:
        if not isinstance(split, FileSplit) or split.length < RANGES:
            continue
        can, again = (kind.can_read_ranges(split.path, subject.options) for _ in range(2))
        agree(f"can_read_ranges({split.path!r}) called again", again, can)
        if not can or split.start != 0 or split.end is not None:
            continue
        bounds = [split.length * number // RANGES for number in range(RANGES)]
        ranges = [
            replace(split, start=start, end=end)
            for start, end in zip(bounds, [*bounds[1:], None], strict=True)
        ]
        rows = [row for part in ranges for row in subject.read_all([part])[part.split_id].rows]
        _same_rows(f"rows of {RANGES} ranges of {split.path!r}", rows, subject.shares[split.split_id].rows)


def _parts_are_splits(subject: ReaderUnderTest) -> None:
    parts = [part for share in subject.shares.values() for part in share.quarantined]
    if not parts:
        return
    if not subject.reader_type.quarantines(subject.options):
        raise Disagreement("quarantines of the reader returns False, and it has quarantined parts")
    ids = [part.split_id for part in parts]
    twice = {name for name in ids if ids.count(name) > 1} | (
        set(ids) & {item.split_id for item in subject.splits}
    )
    if twice:
        raise Disagreement(f"parts share their ids with other parts or splits: {sorted(twice)[:3]}")
    for part in parts[:MOST_MARKS]:
        agree("a part that was stored and restored", stored(part), part)
        alone = subject.read_all([stored(part)])[part.split_id]
        if alone.rows or alone.quarantined != [part]:
            raise Disagreement(
                f"{part!r:.200}, read alone, gives {len(alone.rows)} rows and quarantines "
                f"{shown(alone.quarantined)}"
            )
    again = subject.read_all(quarantined_before=frozenset(ids), attempt_number=1)
    _same_shares("read after an attempt that has set the parts aside", again, subject.shares)


def _errors_are_no_end(subject: ReaderUnderTest) -> None:
    check_errors(subject.reader_type, subject.run, subject.splits[:MOST_MARKS])


READER_LAWS: tuple[Law[ReaderUnderTest], ...] = (
    Law("reading a split ends, and its rows fit the schema", _rows_fit_the_schema),
    Law("reading a split again gives the same rows (S70)", _reading_again_gives_the_same),
    Law("every attempt gives the same rows", _attempts_give_the_same),
    Law("other splits do not change the rows of a split", _other_splits_do_not_matter),
    Law("a stored split is read like the original", _stored_splits_are_read_alike),
    Law("a reader may be abandoned halfway", _giving_up_is_harmless),
    Law("an error while reading is not taken for the end of a split (R12)", _errors_are_no_end),
    Law("a quarantined part is a separate split, and is quarantined again (R5)", _parts_are_splits),
    Law("a reader that yields Progress declares it in its class", _no_progress_without_declaring_it),
    Law("splits read together give the same rows as one by one", _together_is_one_by_one),
    Law("the ranges of a file give the rows of the file", _ranges_make_up_the_file),
)


def _progress_covers_all_rows(subject: ReaderUnderTest) -> None:
    for split_id, share in subject.shares.items():
        covered = share.marks[-1][1] if share.marks else 0
        if covered < len(share.rows):
            raise Disagreement(
                f"{len(share.rows) - covered} rows of split {split_id!r} after its last Progress"
            )
    if all(len(share.marks) < 2 for share in subject.shares.values()):
        raise TrivialInput("no split has two Progress marks: give at least one with two pages of rows")


def _progress_moves(subject: ReaderUnderTest) -> None:
    for split in subject.splits:
        before, rows_before = split, 0
        for position, rows in subject.shares[split.split_id].marks:
            if position is not None:
                agree("split_id in a Progress", position.split_id, split.split_id)
            if rows > rows_before and position == before:
                raise Disagreement(
                    f"after {rows - rows_before} rows a Progress repeats the former position {before!r:.200}"
                )
            before, rows_before = position, rows


def _positions_can_be_stored(subject: ReaderUnderTest) -> None:
    for share in subject.shares.values():
        for position, _ in share.marks:
            if position is not None:
                agree("a position that was stored and restored", stored(position), position)


def _reading_continues_from_every_progress(subject: ReaderUnderTest) -> None:
    for share in subject.shares.values():
        for position, rows in _some_marks(share):
            found = subject.read_all([stored(position)])[position.split_id]
            _same_rows(f"rows from {position!r:.200} on", found.rows, share.rows[rows:])


def _page_by_page_is_all_at_once(subject: ReaderUnderTest) -> None:
    for split in subject.splits:
        expected = subject.shares[split.split_id]
        rows: list[Any] = []
        position: Any = split
        for _ in range(len(expected.marks) + 1):
            with subject.run() as run:
                page = run.read(stored(position), pages=1)
            rows.extend(page.rows)
            position = page.marks[-1][0] if page.marks else None
            if position is None:
                break
        _same_rows(f"split {split.split_id!r} page by page", rows, expected.rows)


def _a_replay_ends_where_the_first_attempt_did(subject: ReaderUnderTest) -> None:
    for split in subject.splits:
        share = subject.shares[split.split_id]
        for position, rows in _some_marks(share):
            with subject.run(end_positions={split.split_id: stored(position)}, attempt_number=1) as run:
                found = run.read(stored(split), until=position)
            if not found.marks or found.marks[-1][0] != position:
                raise Disagreement(f"a replay of {split!r:.200} does not reach {position!r:.200}")
            _same_rows(f"rows of a replay up to {position!r:.200}", found.rows, share.rows[:rows])


PROGRESS_LAWS: tuple[Law[ReaderUnderTest], ...] = (
    Law("every row is covered by a Progress", _progress_covers_all_rows),
    Law("a Progress keeps the split_id and advances after rows", _progress_moves),
    Law("a stored position equals the original", _positions_can_be_stored),
    Law(
        "reading continues from every Progress without loss or duplicates",
        _reading_continues_from_every_progress,
    ),
    Law("reading page by page gives the same rows as reading at once", _page_by_page_is_all_at_once),
    Law("a replay ends where the first attempt ended (R5)", _a_replay_ends_where_the_first_attempt_did),
)
"""Laws of readers that bound a split's share of a batch."""


def check_reader(
    source: GivenSource = None,
    *,
    enumerator: type[SplitEnumerator[Any]] | None = None,
    reader: type[SplitReader[Any]] | None = None,
    splits: Sequence[Any] | None = None,
    schema: pa.Schema | None = None,
) -> None:
    """Check that a reader keeps the laws of readers.

    Args:
        source: options, or a SourceUnderTest. Its data must not change during the check.
        enumerator, reader: classes, instead of the options with these names.
        splits: the splits to read, at least two with rows; those of the enumerator if None.
        schema: the columns; the reader's default if None.

    Raises:
        LawBroken: a law is broken; names the law and the finding.
        TrivialInput: there is too little data for a check.
        Flip27Error: the options are invalid.
    """
    subject = _subject(under_test(source, enumerator=enumerator, reader=reader, schema=schema), splits)
    enforce(READER_LAWS, subject)
    if issubclass(subject.reader_type, YieldsProgress):
        enforce(PROGRESS_LAWS, subject)


def _subject(given: SourceUnderTest, splits: Sequence[Any] | None) -> ReaderUnderTest:
    if splits is None:
        source = given.resolve()
        return ReaderUnderTest(
            reader_type=source.reader_type,
            options=source.options,
            schema=given.arrow_schema(),
            splits=list(EnumeratorRun(source).ranges(first_only=True)),
        )
    kind = given.reader or find_reader(_reader_name(given))
    options = Options.parse(given.options, declared_options(given.enumerator or SplitEnumerator, kind))
    schema = given.schema if given.schema is not None else kind.default_schema(options)
    if schema is None:
        raise SchemaError(
            f"reader {kind.__name__} needs a schema, and no schema is set",
            remedy='give one: schema=pa.schema({"id": pa.int64(), "name": pa.string()})',
        )
    return ReaderUnderTest(reader_type=kind, options=options, schema=schema, splits=list(splits))


def _some_marks(share: Share) -> list[tuple[Any, int]]:
    marks = [(position, rows) for position, rows in share.marks if position is not None]
    return marks[:: max(1, len(marks) // MOST_MARKS)]


def _reader_name(given: SourceUnderTest) -> str:
    names = {name.lower(): value for name, value in given.options.items()}
    if "reader" not in names:
        raise OptionError("no reader is given", remedy="pass reader=YourReader, or set the option reader")
    return names["reader"]
