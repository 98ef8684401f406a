"""What our readers do otherwise than Spark's, on purpose. The fuzz fails on any other difference.

docs/readers.md has the same list, made from this one by ``python -m scripts.differences_table``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flip27_source.options import Options
from flip27_source.readers.json_lines.options import json_dialect
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.readers.json_lines.schema import parsed_json
from flip27_source.readers.json_lines.strings import MalformedJsonError

from .case import Case, CaseFile, LineFile
from .comparison import Mismatch, corrupt_column
from .folders import PARTITION

ALL = ("json", "csv", "text", "parquet", "orc", "avro", "arrow")

_LONG_EXPONENT = re.compile(rb"[eE]([+-]?)[0-9]{5,}")
_HALF_CHARACTERS = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_LONG_NUMBER = re.compile(rb"[0-9.eE+-]{900,}")
_ZONES_OF_OLD_RULES = re.compile(rb"(?:CET|MET|EET|WET|EST5EDT|CST6CDT|MST7MDT|PST8PDT)")
_TINY = 5
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
        without: the content of a file without what it comes from; a mismatch is of this kind only when it is
            gone then. case_without: the same for a whole case. None where ``shows`` is enough.
    """

    name: str
    readers: tuple[str, ...]
    spark: str
    here: str
    why: str
    shows: Callable[[Case, Mismatch], bool] = lambda _case, _mismatch: True
    without: Callable[[Case, bytes], bytes] | None = None
    case_without: Callable[[Case], Case] | None = None

    @property
    def is_told_by_itself(self) -> bool:
        """Whether a mismatch says all by itself."""
        return self.without is None and self.case_without is None

    def neutral(self, case: Case) -> Case:
        """The case without what the difference comes from; the same one where nothing of it is there."""
        if case.reader not in self.readers:
            return case
        if self.case_without is not None:
            return self.case_without(case)
        return case if self.without is None else _with_contents(case, self.without)


def _with_contents(case: Case, changed: Callable[[Case, bytes], bytes]) -> Case:
    files: list[CaseFile] = []
    for file in case.files:
        if isinstance(file, LineFile):
            data = b"".join(file.pieces)
            left = changed(case, data)
            file = file if left == data else replace(file, pieces=(left,))
        files.append(file)
    return replace(case, files=tuple(files))


def _without_binary(case: Case) -> Case:
    if case.columns is None:
        return case
    columns = tuple((name, kind.replace("binary", "string")) for name, kind in case.columns)
    return replace(case, columns=columns)


def _with_texts_made_anew(case: Case) -> Case:
    return replace(case, settings_of_spark={"spark.sql.json.enableExactStringParsing": "false"})


def _without_broken_lines(case: Case, data: bytes) -> bytes:
    """Without the lines of JSON that are none, to a strict parser and to ours."""
    dialect = json_dialect(Options.parse(dict(case.options), JsonLinesReader.options))
    if case.options.get("multiLine") == "true":
        lines = [data]
    else:
        lines = _LINE.findall(data)
    return b"".join(line for line in lines if _is_json(line.rstrip(b"\r\n"), dialect))


def _without_tails(case: Case, data: bytes) -> bytes:
    """Without what stands behind an array in its line."""
    lines = []
    for line in _LINE.findall(data):
        text = line.decode("utf-8", "surrogateescape")
        if text.lstrip().startswith("["):
            try:
                _, end = json.JSONDecoder().raw_decode(text.lstrip())
            except (ValueError, RecursionError):
                end = len(text)
            text = text[: len(text) - len(text.lstrip()) + end] + text[len(text.rstrip("\r\n")) :]
        lines.append(text.encode("utf-8", "surrogateescape"))
    return b"".join(lines)


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


def _asks_for_another_type(case: Case, mismatch: Mismatch) -> bool:
    """Whether the column of a mismatch, or that which an error names, is to have another type than it has."""
    wanted = {name.lower(): kind for name, kind in case.columns or ()}
    if mismatch.column:
        columns = [mismatch.column.lower()]
    else:
        told = (
            re.findall(r"column (\w+):", str(mismatch.ours)) if mismatch.kind == "error only here" else wanted
        )
        columns = [name.lower() for name in told]
    return any(wanted.get(name, kind) != kind for name, kind in case.stored.items() if name in columns)


def _has_nested_unsigned_longs(case: Case) -> bool:
    return any("<" in kind and "decimal(20,0)" in kind for kind in case.stored.values())


def _has_more_columns(mismatch: Mismatch) -> bool:
    """Whether both sides found out the same columns, and ours some more."""
    theirs, ours = (_top_level(str(side)) for side in (mismatch.theirs, mismatch.ours))
    return len(ours) > len(theirs) and set(theirs) <= set(ours)


def _has_the_same_columns(mismatch: Mismatch) -> bool:
    theirs, ours = (_top_level(str(side)) for side in (mismatch.theirs, mismatch.ours))
    return sorted(theirs) == sorted(ours)


def _top_level(struct: str) -> list[str]:
    """The names of the columns of a schema as Spark writes it."""
    body = struct.removeprefix("struct<").removesuffix(">")
    while "<" in body or "(" in body:
        body = re.sub(r"<[^<>()]*>|\([^<>()]*\)", "", body)
    return [field.partition(":")[0] for field in body.split(",")]


def _sorted_maps(value: Any) -> Any:
    if isinstance(value, list):
        items = [_sorted_maps(item) for item in value]
        is_map = all(
            isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], bytes) for item in items
        )
        return sorted(items, key=lambda item: item[0]) if is_map else items
    return tuple(map(_sorted_maps, value)) if isinstance(value, tuple) else value


DIFFERENCES: Sequence[Difference] = (
    Difference(
        name="long exponents",
        readers=("csv", "json"),
        spark="computes `1e-99999` as a decimal, which takes it up to hours, and gives up from some "
        "exponent on",
        here="an exponent of more than four digits makes no decimal: the value is null, the row malformed",
        why="no number that a decimal column holds is written so",
        without=lambda _, data: _LONG_EXPONENT.sub(rb"e\g<1>9", data),
    ),
    Difference(
        name="broken JSON",
        readers=("json", "parsed json"),
        spark="keeps those fields of a line that its parser had read when the line turned out not to be JSON",
        here="the row is malformed as well; fewer or other fields of it may be kept",
        why="which ones depends on where Spark's parser goes on in a broken line, which nobody can rely on",
        shows=_is_of_a_malformed_row,
        without=_without_broken_lines,
    ),
    Difference(
        name="texts of other values",
        readers=("parsed json",),
        spark='gives a number, list or object in a string column as it is written: `1.50`, `{"x": 1}`',
        here='gives it as `from_json` writes it: `1.5`, `{"x":1}`; a number with a point or an exponent has '
        "the digits of a double",
        why="`from_json` parses characters, not bytes; `reader=json` has the text, and a column of type "
        "variant or decimal the digits",
        shows=lambda _, mismatch: "string" in mismatch.column_type,
        case_without=_with_texts_made_anew,
    ),
    Difference(
        name="lines that only bytes break",
        readers=("parsed json",),
        spark="calls a line malformed that has half a surrogate pair in the name of a field, such as "
        "`\\ud800`, or a number of more than 1,000 digits in a field that is not read",
        here="the line is read",
        why="`from_json` parses characters, not bytes; the columns that are asked for are good",
        without=lambda _, data: _LONG_NUMBER.sub(b"1", _HALF_CHARACTERS.sub(b"\\\\u0101", data)),
    ),
    Difference(
        name="bytes that are not UTF-8",
        readers=("parsed json",),
        spark="reads some bytes that are not UTF-8 (a character in more bytes than it takes), and lines of "
        "UTF-16",
        here="a line that is not UTF-8 is malformed",
        why="there is no other encoding for JSON here",
        without=lambda _, data: data.decode("utf-8", "replace").replace("\0", "").encode(),
    ),
    Difference(
        name="text behind an array",
        readers=("parsed json",),
        spark="passes over what stands behind an array in its line, as in `[{}] x`",
        here="its rows are malformed; behind an object it is passed over as well",
        why="`from_json` does not tell whether an array is good; something is put behind it to find out",
        without=_without_tails,
    ),
    Difference(
        name="the noncharacter U+FFFF",
        readers=("parsed csv",),
        spark="takes U+FFFF for a character",
        here="a line that holds it is malformed",
        why="`from_csv` would take it for the end of the line, and leave out the rest",
        without=lambda _, data: data.replace("\uffff".encode(), b"?"),
    ),
    Difference(
        name="trailing blanks",
        readers=("parsed csv",),
        spark="fails for some blank fields with `ignoreTrailingWhiteSpace` alone: an index out of bounds",
        here="fails for other ones",
        why="an error of Spark's parser; set `ignoreLeadingWhiteSpace` too",
        shows=lambda case, mismatch: (
            case.options.get("ignoreTrailingWhiteSpace") == "true"
            and "ignoreLeadingWhiteSpace" not in case.options
            and "StringIndexOutOfBounds" in f"{mismatch.theirs} {mismatch.ours}"
        ),
    ),
    Difference(
        name="broken base64",
        readers=("json", "parsed json"),
        spark="loses its place in a line in which base64 breaks off, so what comes behind it is null too",
        here="the row is malformed as well; more fields of it are kept",
        why="those fields are good",
        shows=_is_of_a_malformed_row,
        case_without=_without_binary,
    ),
    Difference(
        name="byte order marks",
        readers=("csv",),
        spark="takes a byte order mark for text with `multiLine` and another encoding than UTF-8, leaves "
        "out a "
        "second one, and makes a row with a NUL character of a file that holds nothing else, with "
        "`multiLine`",
        here="one at the start of a file is left out, any other is text, and a file of nothing else has no "
        "rows",
        why="the mark says how a file is encoded, and is no value",
        without=lambda _, data: data.replace(b"\xef\xbb\xbf", b""),
    ),
    Difference(
        name="tiny documents",
        readers=("csv",),
        spark="takes the line end of a file of less than five bytes for text, with `multiLine`",
        here="it ends the record",
        why="an error of Spark's",
        shows=lambda case, _: case.options.get("multiLine") == "true",
        without=lambda _, data: b"" if len(data) < _TINY else data,
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
        spark="makes null, or something else, of a directory name that the type of its column does not "
        "hold; with "
        "Parquet and ORC a decimal such as `7959.3` becomes 0.0000079593 in `decimal(20,10)`",
        here="an error that names the directory; the decimal is what it says",
        why="the rows would be counted to another partition without a word",
        shows=lambda case, mismatch: (
            _is_error_here("the directory name contains")(case, mismatch)
            or (mismatch.column == PARTITION and mismatch.column_type.startswith("decimal"))
        ),
    ),
    Difference(
        name="nothing to find a schema in",
        readers=("json", "csv"),
        spark="has no columns, and no rows, where no file tells a column",
        here="an error that asks for a schema",
        why="a stream without columns is a mistake",
        shows=lambda _, mismatch: (
            mismatch.kind == "schema not found here" and "no schema was given" in str(mismatch.ours)
        ),
    ),
    Difference(
        name="fields that are there twice",
        readers=("json",),
        spark="finds out a type where an object that has a field twice is not what the column becomes",
        here="an error, as in Spark where it is",
        why="the file has no schema either way",
        shows=lambda _, mismatch: mismatch.kind == "schema not found here" and " twice" in str(mismatch.ours),
    ),
    Difference(
        name="number of columns that is found out",
        readers=("csv",),
        spark="has as many columns as the first line of the first file",
        here="as many as the longest of the first lines of all files that are looked into",
        why="which file is the first is chance in a landing folder",
        shows=lambda _, mismatch: mismatch.kind == "schema" and _has_more_columns(mismatch),
    ),
    Difference(
        name="decimals without places",
        readers=("json",),
        spark="fails to find out a schema, with NEGATIVE_SCALE_DISALLOWED, where `prefersDecimal` meets "
        "`8e3`",
        here="the number is a double",
        why="an error of Spark's",
        shows=_is_error_of_spark("NEGATIVE_SCALE_DISALLOWED"),
    ),
    Difference(
        name="types that lose values",
        readers=("parquet", "orc"),
        spark="drops bits and digits, or makes null or something else of a value that the type of the "
        "schema does "
        "not hold, by format, type and release",
        here="an error that names the file and the column",
        why="the values would be lost without a word",
        shows=lambda case, mismatch: (
            mismatch.kind == "error only here" and _asks_for_another_type(case, mismatch)
        ),
    ),
    Difference(
        name="types that lose nothing",
        readers=("parquet", "orc"),
        spark="fails for a decimal of unsigned numbers, a string of fixed-size bytes, any type of a column "
        "of nulls",
        here="the value",
        why="nothing is lost",
        shows=lambda case, mismatch: (
            mismatch.kind == "error only in Spark"
            and (_asks_for_another_type(case, mismatch) or _has_nested_unsigned_longs(case))
        ),
    ),
    Difference(
        name="order of entries in maps",
        readers=("orc",),
        spark="sorts the entries of a map by key",
        here="they come as they are stored",
        why="a map has no order",
        shows=lambda _, mismatch: (
            mismatch.kind == "value" and _sorted_maps(mismatch.theirs) == _sorted_maps(mismatch.ours)
        ),
    ),
    Difference(
        name="moments that ORC files leave open",
        readers=("orc",),
        spark="reads dates before 1582, and timestamps of any year",
        here="dates before 1582 and timestamps before 1900 and after 2262 are an error",
        why="ORC files do not tell in which calendar old ones are, and Arrow reads nanoseconds in 64 bits",
        shows=lambda _, mismatch: (
            mismatch.kind == "error only here"
            and any(text in str(mismatch.ours) for text in ("ORC timestamps", "calendar"))
        ),
    ),
    Difference(
        name="columns of files without rows",
        readers=("orc",),
        spark="finds out no columns in files without rows",
        here="finds out all columns",
        why="nothing is lost",
        shows=lambda _, mismatch: mismatch.kind == "schema" and _has_more_columns(mismatch),
    ),
    Difference(
        name="order of columns that are found out",
        readers=("parquet", "orc"),
        spark="takes the columns of one file first, which depends on the sizes of the files",
        here="takes the files in the order of their paths",
        why="sizes are chance",
        shows=lambda _, mismatch: mismatch.kind == "schema" and _has_the_same_columns(mismatch),
    ),
    Difference(
        name="types that only Arrow knows",
        readers=("parquet",),
        spark="finds out no schema of files with timestamps of nanoseconds and the like",
        here="the type that Spark has for them",
        why="nothing is lost but digits behind the microsecond",
        shows=_is_error_of_spark("PARQUET_TYPE_ILLEGAL"),
    ),
    Difference(
        name="rows that Arrow does not find",
        readers=("parquet",),
        spark="reads rows behind an empty page",
        here="an error that says how many rows of a row group are there and how many Arrow gives",
        why="Arrow loses them",
        shows=_is_error_here("Arrow returns "),
    ),
    Difference(
        name="headers that differ",
        readers=("csv",),
        spark="takes the names of the first file, also where those of another are in another order",
        here="refuses to find out a schema from files whose headers do not begin alike",
        why="columns go by position, so values would stand under the names of others",
        shows=lambda _, mismatch: (
            mismatch.kind == "schema not found here"
            and "columns of CSV files are matched by position" in str(mismatch.ours)
        ),
    ),
    Difference(
        name="blanks at the start of a line",
        readers=("csv",),
        spark="fails, with an index out of bounds, for a blank field at the start of a file or line, with "
        "`ignoreTrailingWhiteSpace` alone",
        here="the field is null",
        why="an error of Spark's",
        shows=lambda case, mismatch: (
            mismatch.kind in ("error only in Spark", "schema not found by Spark")
            and case.options.get("ignoreTrailingWhiteSpace") == "true"
            and "ignoreLeadingWhiteSpace" not in case.options
        ),
    ),
)
