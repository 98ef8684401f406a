"""What our readers do otherwise than Spark's, on purpose. The fuzz fails on any other difference.

docs/readers.md has the same list, made from this one by ``python -m scripts.differences_table``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flip27_source.options import Options
from flip27_source.readers.json_lines import JsonLinesReader
from flip27_source.readers.json_options import json_dialect
from flip27_source.readers.json_strings import MalformedJsonError
from flip27_source.readers.schema_json import parsed_json

from .case import Case, LineFile
from .comparison import Mismatch, corrupt_column

ALL = ("json", "csv", "text", "parquet", "orc", "avro", "arrow")

_LONG_EXPONENT = re.compile(rb"[eE]([+-]?)[0-9]{5,}")
_ZONES_OF_OLD_RULES = re.compile(rb"(?:CET|MET|EET|WET|EST5EDT|CST6CDT|MST7MDT|PST8PDT)")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference that stays.

    Attributes:
        name: for reports.
        readers: which ones.
        spark, here: what both do.
        why: why it stays.
        shows: whether a mismatch can be of this kind, as far as it tells by itself.
        without: content of a file without what it comes from; a mismatch is of this kind only when it is
            gone then. None where ``shows`` is enough.
    """

    name: str
    readers: tuple[str, ...]
    spark: str
    here: str
    why: str
    shows: Callable[[Case, Mismatch], bool] = lambda case, mismatch: True
    without: Callable[[Case, bytes], bytes] | None = None


def neutral(case: Case, difference: Difference) -> Case:
    """The case without what the difference comes from; the same one where nothing of it is there."""
    if difference.without is None or case.format not in difference.readers:
        return case
    files = []
    for file in case.files:
        if isinstance(file, LineFile):
            data = b"".join(file.pieces)
            left = difference.without(case, data)
            file = file if left == data else replace(file, pieces=(left,))
        files.append(file)
    return replace(case, files=tuple(files))


def _without_broken_lines(case: Case, data: bytes) -> bytes:
    """Without the lines of JSON that are none, to a strict parser and to ours."""
    dialect = json_dialect(Options.parse(dict(case.options), JsonLinesReader.options))
    if case.options.get("multiLine") == "true":
        lines = [data]
    else:
        lines = _LINE.findall(data)
    return b"".join(line for line in lines if _is_json(line.rstrip(b"\r\n"), dialect))


def _is_json(line: bytes, dialect: object) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        try:
            parsed_json(line, dialect)  # type: ignore[arg-type]
        except MalformedJsonError:
            return False
    return True


def _is_of_a_malformed_row(case: Case, mismatch: Mismatch) -> bool:
    """A value of a row; that the row is malformed is said by both sides."""
    return mismatch.kind in ("null here", "null in Spark", "value") and mismatch.column != corrupt_column(
        case
    )


def _is_error_here(text: str) -> Callable[[Case, Mismatch], bool]:
    return lambda _, mismatch: mismatch.kind == "error only here" and text in str(mismatch.ours)


def _is_error_of_spark(text: str) -> Callable[[Case, Mismatch], bool]:
    return lambda _, mismatch: "Spark" in mismatch.kind and text in str(mismatch.theirs)


DIFFERENCES: Sequence[Difference] = (
    Difference(
        name="long exponents",
        readers=("csv", "json"),
        spark="computes `1e-99999` as a decimal, which takes it seconds to minutes, and gives up from some "
        "exponent on",
        here="an exponent of more than four digits makes no decimal: the value is null, the row malformed",
        why="no number that a decimal column holds is written so",
        without=lambda _, data: _LONG_EXPONENT.sub(rb"e\g<1>9", data),
    ),
    Difference(
        name="broken JSON",
        readers=("json",),
        spark="keeps those fields of a line that its parser had read when the line turned out not to be JSON",
        here="the row is malformed as well; fewer or other fields of it may be kept",
        why="which ones depends on where Spark's parser goes on in a broken line, which nobody can rely on",
        shows=_is_of_a_malformed_row,
        without=_without_broken_lines,
    ),
    Difference(
        name="old rules of zones",
        readers=("csv", "json"),
        spark="has the rules of time zones of its JVM",
        here="those of the system or of the package tzdata",
        why="both are right for their version: of 2024, in which `CET`, `MET`, `EST5EDT` and the like became "
        "names of cities, or of before",
        without=lambda _, data: _ZONES_OF_OLD_RULES.sub(b"UTC", data),
    ),
    Difference(
        name="partition values",
        readers=ALL,
        spark="makes null, or something else, of a directory name that the type of its column does not hold",
        here="an error that names the directory",
        why="the rows would be counted to another partition without a word",
        shows=_is_error_here("in the name of the directory is no"),
    ),
    Difference(
        name="headers that differ",
        readers=("csv",),
        spark="takes the names of the first file, also where those of another are in another order",
        here="refuses to find out a schema from files whose headers do not begin alike",
        why="columns go by position, so values would stand under the names of others",
        shows=lambda _, mismatch: (
            mismatch.kind == "schema not found here"
            and "columns of CSV files go by position" in str(mismatch.ours)
        ),
    ),
    Difference(
        name="trailing blanks at the start of a file",
        readers=("csv",),
        spark="fails with StringIndexOutOfBoundsException for a blank field at the start of a file or line, with "
        "`ignoreTrailingWhiteSpace` alone",
        here="the field is null",
        why="an error of Spark's",
        shows=_is_error_of_spark("StringIndexOutOfBoundsException"),
    ),
)
