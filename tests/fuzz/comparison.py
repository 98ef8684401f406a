"""Compares the rows of both sides, and our rows with those of other ways to read the same files."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from tests.readers.spark_reading import cells

from .case import Case
from .kept_values import check_kept
from .other_sides import WholeFiles
from .our_side import BareError, OurSide, RefusedError
from .parsed_side import ParsedSide
from .spark_side import Failed, Outcome, Theirs

Side = OurSide | ParsedSide | WholeFiles
"""What reads on our side."""
_LONGEST = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A difference that was found.

    Attributes:
        kind: a short text without values, by which the report counts.
        file: the path of the file, or of several.
        column, column_type, row: the cell, if one cell differs.
        theirs, ours: both values.
    """

    kind: str
    file: str = ""
    column: str = ""
    column_type: str = ""
    row: int = -1
    theirs: Any = None
    ours: Any = None

    def __str__(self) -> str:
        place = f"{self.file} row {self.row} column {self.column} {self.column_type}".rstrip()
        theirs, ours = str(self.theirs)[:_LONGEST], str(self.ours)[:_LONGEST]
        return f"{self.kind}: {place}\n    Spark: {theirs}\n    here:  {ours}"


@dataclass(slots=True)
class Compared:
    """The result of a case.

    Attributes:
        cells: the number of cells that were compared with Spark's.
        again: the number of cells that were compared with our own, read in another way.
        refused: why our reader refused an option; then nothing was compared.
        failures: the number of files, or schemas, for which both sides failed.
        theirs, ours: the outcomes of both sides, by the path of the file.
    """

    mismatches: list[Mismatch] = field(default_factory=list)
    cells: int = 0
    again: int = 0
    refused: str | None = None
    failures: int = 0
    theirs: dict[str, Outcome] = field(default_factory=dict)
    ours: dict[str, Outcome] = field(default_factory=dict)


def write_files(case: Case, folder: Path) -> None:
    """Write the files of a case to the folder that both sides read."""
    for file in case.files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content())
        modified_s = case.modified_s.get(path.name)
        if modified_s is not None:
            os.utime(path, ns=(0, round(modified_s * 1000) * 1_000_000))


def compare(case: Case, ours: Side, theirs: Theirs) -> Compared:
    """Read a case in every way, and compare the rows with Spark's."""
    found = Compared()
    try:
        schema = _schema(case, ours, theirs.schema, found)
        if schema is not None:
            wanted = ours.take(schema)
            found.theirs = dict(theirs.outcomes if case.truth is None else case.truth(case, wanted))
            listed = set(found.theirs) & set(ours.listed)
            # Spark has no task for an empty file.
            apart = set(found.theirs) ^ set(ours.listed)
            for file in case.files:
                if file.path in apart and file.content():
                    sides = [file.path in side for side in (found.theirs, ours.listed)]
                    found.mismatches.append(
                        Mismatch(kind="listing", file=file.path, theirs=sides[0], ours=sides[1])
                    )
            paths = [file.path for file in case.files if file.path in listed]
            _compare_files(paths, schema, ours, found)
            _compare_cuts(case.name, paths, ours, found)
            if isinstance(ours, OurSide) and case.format in ("csv", "json") and case.columns is not None:
                _check_kept(case, paths, ours, wanted, found)
    except RefusedError as error:
        found.refused = str(error)
    except BareError as error:
        found.mismatches.append(Mismatch(kind="bare error", ours=error))
    return found


def _schema(case: Case, ours: Side, theirs: StructType | Failed, found: Compared) -> StructType | None:
    if case.columns is not None:
        return theirs if isinstance(theirs, StructType) else None
    own = ours.found_schema()
    if isinstance(theirs, Failed) and isinstance(own, Failed):
        found.failures += 1
        return None
    texts = [side.why if isinstance(side, Failed) else side.simpleString() for side in (theirs, own)]
    if texts[0] != texts[1]:
        kind = "schema" if not isinstance(own, Failed) else "schema not found here"
        kind = "schema not found by Spark" if isinstance(theirs, Failed) else kind
        found.mismatches.append(Mismatch(kind=kind, theirs=texts[0], ours=texts[1]))
        return None
    if isinstance(theirs, StructType) and set(theirs.names) - {corrupt_column(case)}:
        return theirs
    return None  # Spark refuses to read only the column of corrupt records


def corrupt_column(case: Case) -> str:
    """The name of the column of malformed lines, which the schema may lack."""
    return case.options.get("columnNameOfCorruptRecord", "_corrupt_record")


def _compare_files(paths: Sequence[str], schema: StructType, ours: Side, found: Compared) -> None:
    names = schema.names
    for path in paths:
        theirs, own = found.theirs[path], ours.whole(path)
        found.ours[path] = own
        if isinstance(theirs, Failed) or isinstance(own, Failed):
            if isinstance(theirs, Failed) and isinstance(own, Failed):
                found.failures += 1
                continue
            kind = "error only here" if isinstance(own, Failed) else "error only in Spark"
            found.mismatches.append(Mismatch(kind=kind, file=path, theirs=_told(theirs), ours=_told(own)))
            continue
        if theirs.num_rows != own.num_rows:
            found.mismatches.append(
                Mismatch(kind="rows", file=path, theirs=theirs.num_rows, ours=own.num_rows)
            )
            continue
        found.cells += own.num_rows * len(names)
        types = {field.name: field.dataType.simpleString() for field in schema}
        for name in names:
            found.mismatches += _differing(path, name, types[name], theirs.column(name), own.column(name))


def _differing(path: str, name: str, kind: str, theirs: pa.Array, ours: pa.Array) -> Iterator[Mismatch]:
    for row, (their, our) in enumerate(zip(cells(theirs), cells(ours), strict=True)):
        if their != our:
            what = "null here" if our is None else "null in Spark" if their is None else "value"
            yield Mismatch(
                kind=what, file=path, column=name, column_type=kind, row=row, theirs=their, ours=our
            )


def _check_kept(case: Case, paths: Sequence[str], ours: OurSide, wanted: pa.Schema, found: Compared) -> None:
    for path in paths:
        for name, row, text, value in check_kept(case, path, ours, wanted):
            kind = "changed rows" if not name else "lost" if value is None else "changed"
            type_name = str(wanted.field(name).type) if name else ""
            found.mismatches.append(
                Mismatch(
                    kind=kind, file=path, column=name, column_type=type_name, row=row, theirs=text, ours=value
                )
            )


def _compare_cuts(name: str, paths: Sequence[str], ours: Side, found: Compared) -> None:
    """Check that the rows do not depend on how the files are cut and joined."""
    if len(paths) > 1:
        _same("together", paths, [found.ours[path] for path in paths], ours.together(paths), found)
    parts: list[tuple[Any, Outcome]] = []
    for path in paths:
        ranges = ours.ranges(path)
        read = [ours.read([part]) for part in ranges]
        if ranges:
            _same("in ranges", [path], read, found.ours[path], found)
            parts += zip(ranges, read, strict=True)
    if len(parts) > 1:
        random.Random(name).shuffle(parts)
        together = ours.read([split for split, _ in parts])
        _same("ranges together", paths, [rows for _, rows in parts], together, found)


def _same(
    kind: str, paths: Sequence[str], parts: Sequence[Outcome], joined: Outcome, found: Compared
) -> None:
    where = ", ".join(paths)
    failed = [part for part in parts if isinstance(part, Failed)]
    if failed or isinstance(joined, Failed):
        if not (failed and isinstance(joined, Failed)):
            theirs = _told(failed[0] if failed else parts[0])
            found.mismatches.append(
                Mismatch(kind=f"{kind}: error", file=where, theirs=theirs, ours=_told(joined))
            )
        return
    tables = [part for part in parts if not isinstance(part, Failed)]
    whole = pa.concat_tables(tables)
    if whole.num_rows != joined.num_rows:
        found.mismatches.append(
            Mismatch(kind=f"{kind}: rows", file=where, theirs=whole.num_rows, ours=joined.num_rows)
        )
        return
    found.again += whole.num_rows * whole.num_columns
    for name in whole.column_names:
        theirs, ours = whole.column(name), joined.column(name)
        for differing in _differing(where, name, str(theirs.type), theirs, ours):
            found.mismatches.append(replace(differing, kind=f"{kind}: value"))


def _told(outcome: Outcome) -> str:
    return outcome.why if isinstance(outcome, Failed) else f"{outcome.num_rows} rows"
