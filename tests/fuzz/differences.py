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


def _is_same_value_after(change: Callable[[Any], object]) -> Callable[[Case, Mismatch], bool]:
    """Whether the values of both sides are equal once ``change`` was applied to each."""
    return lambda _, mismatch: mismatch.kind == "value" and change(mismatch.theirs) == change(mismatch.ours)


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


def _stored_type(case: Case, mismatch: Mismatch) -> str:
    stored = {name.lower(): kind for name, kind in case.stored.items()}
    return stored.get(mismatch.column.lower(), "")


def _with_texts_as_numbers(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_with_texts_as_numbers(item) for item in value]
    try:
        return float(value) if isinstance(value, bytes) else value
    except ValueError:
        return value


def _without_signs_of_zeros(value: object) -> str:
    return str(value).replace("-0.0 (8000000000000000)", "0.0 (0000000000000000)")


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
        spark="computes `1e-99999` as a decimal, which takes up to hours, and gives up above some exponent",
        here="a number whose exponent has more than four digits is not a decimal: the value is null, the row "
        "malformed",
        why="no value of a decimal column needs such an exponent",
        without=lambda _, data: _LONG_EXPONENT.sub(rb"e\g<1>9", data),
    ),
    Difference(
        name="broken JSON",
        readers=("json", "parsed json"),
        spark="keeps the fields that its parser has read before it finds that the line is not JSON",
        here="the row is malformed as well; fewer or other fields of it may be kept",
        why="which fields depends on where Spark's parser continues in a broken line, which is not specified",
        shows=_is_of_a_malformed_row,
        without=_without_broken_lines,
    ),
    Difference(
        name="other values as strings",
        readers=("parsed json",),
        spark='returns a number, list or object in a string column as it is in the file: `1.50`, `{"x": 1}`',
        here='returns it as `from_json` writes it: `1.5`, `{"x":1}`; a number with a point or an exponent '
        "has the digits of a double",
        why="`from_json` parses characters, not bytes; `reader=json` keeps the text, and a column of type "
        "variant or decimal keeps the digits",
        shows=lambda _, mismatch: "string" in mismatch.column_type,
        case_without=_with_texts_made_anew,
    ),
    Difference(
        name="lines that are malformed only as bytes",
        readers=("parsed json",),
        spark="a line is malformed if the name of a field contains half a surrogate pair, such as "
        "`\\ud800`, or if a field that is not read contains a number of more than 1,000 digits",
        here="the line is read",
        why="`from_json` parses characters, not bytes; the requested columns are valid",
        without=lambda _, data: _LONG_NUMBER.sub(b"1", _HALF_CHARACTERS.sub(b"\\\\u0101", data)),
    ),
    Difference(
        name="bytes that are not UTF-8",
        readers=("parsed json",),
        spark="reads some bytes that are not UTF-8 (characters encoded in too many bytes), and lines in "
        "UTF-16",
        here="a line that is not UTF-8 is malformed",
        why="UTF-8 is the only encoding for JSON here",
        without=lambda _, data: data.decode("utf-8", "replace").replace("\0", "").encode(),
    ),
    Difference(
        name="text after an array",
        readers=("parsed json",),
        spark="ignores text after an array in its line, as in `[{}] x`",
        here="the rows of the array are malformed; text after an object is ignored as well",
        why="`from_json` does not report whether an array is valid; `parsed` appends something to the "
        "array to find out",
        without=_without_tails,
    ),
    Difference(
        name="the noncharacter U+FFFF",
        readers=("parsed csv",),
        spark="reads U+FFFF as a character",
        here="a line that contains it is malformed",
        why="`from_csv` would read it as the end of the line, and lose the rest",
        without=lambda _, data: data.replace("\uffff".encode(), b"?"),
    ),
    Difference(
        name="trailing blanks",
        readers=("parsed csv",),
        spark="fails for some blank fields with `ignoreTrailingWhiteSpace` alone: an index out of bounds",
        here="fails for other blank fields",
        why="a bug in Spark's parser; set `ignoreLeadingWhiteSpace` too",
        shows=lambda case, mismatch: (
            case.options.get("ignoreTrailingWhiteSpace") == "true"
            and "ignoreLeadingWhiteSpace" not in case.options
            and "StringIndexOutOfBounds" in f"{mismatch.theirs} {mismatch.ours}"
        ),
    ),
    Difference(
        name="broken base64",
        readers=("json", "parsed json"),
        spark="loses its position in a line with incomplete base64: the fields after it are null too",
        here="the row is malformed as well; more fields of it are kept",
        why="those fields are valid",
        shows=_is_of_a_malformed_row,
        case_without=_without_binary,
    ),
    Difference(
        name="byte order marks",
        readers=("csv",),
        spark="with `multiLine` and an encoding other than UTF-8, reads a byte order mark as text; skips a "
        "second one; with `multiLine`, returns a row with a NUL character for a file that contains only a "
        "mark",
        here="a mark at the start of a file is skipped, any other is text, and a file with only a mark has "
        "no rows",
        why="the mark describes the encoding, and is not a value",
        without=lambda _, data: data.replace(b"\xef\xbb\xbf", b""),
    ),
    Difference(
        name="tiny documents",
        readers=("csv",),
        spark="with `multiLine`, reads the line end of a file of less than five bytes as text",
        here="it ends the record",
        why="a bug in Spark",
        shows=lambda case, _: case.options.get("multiLine") == "true",
        without=lambda _, data: b"" if len(data) < _TINY else data,
    ),
    Difference(
        name="old time zone rules",
        readers=("csv", "json"),
        spark="has the time zone rules of its JVM",
        here="has those of the system or of the package tzdata",
        why="both are right for their version of the rules: since 2024, `CET`, `MET`, `EST5EDT` and the like "
        "are links to zones of cities",
        without=lambda _, data: _ZONES_OF_OLD_RULES.sub(b"UTC", data),
    ),
    Difference(
        name="partition values",
        readers=ALL,
        spark="returns null, or another value, for a directory name that the type of its column cannot "
        "hold; with Parquet and ORC, a decimal such as `7959.3` becomes 0.0000079593 in `decimal(20,10)`",
        here="an error that names the directory; the decimal keeps its value",
        why="the rows would silently belong to another partition",
        shows=lambda case, mismatch: (
            _is_error_here("the directory name contains")(case, mismatch)
            or (mismatch.column == PARTITION and mismatch.column_type.startswith("decimal"))
        ),
    ),
    Difference(
        name="nothing to infer a schema from",
        readers=("json", "csv"),
        spark="has no columns and no rows if no file has a column",
        here="an error that asks for a schema",
        why="a stream without columns is a mistake",
        shows=lambda _, mismatch: (
            mismatch.kind == "schema not found here" and "no schema is set" in str(mismatch.ours)
        ),
    ),
    Difference(
        name="duplicate fields",
        readers=("json",),
        spark="infers a type if the column does not become the type of an object with a duplicate field",
        here="an error, as in Spark if the column becomes that type",
        why="the file has no valid schema either way",
        shows=lambda _, mismatch: mismatch.kind == "schema not found here" and " twice" in str(mismatch.ours),
    ),
    Difference(
        name="inferred number of columns",
        readers=("csv",),
        spark="has as many columns as the first line of the first file",
        here="has as many columns as the longest of the first lines of all sampled files",
        why="which file comes first in a landing folder is chance",
        shows=lambda _, mismatch: mismatch.kind == "schema" and _has_more_columns(mismatch),
    ),
    Difference(
        name="decimals without decimal places",
        readers=("json",),
        spark="fails to infer a schema, with NEGATIVE_SCALE_DISALLOWED, for `8e3` with `prefersDecimal`",
        here="the number is a double",
        why="a bug in Spark",
        shows=_is_error_of_spark("NEGATIVE_SCALE_DISALLOWED"),
    ),
    Difference(
        name="types that lose values",
        readers=("parquet", "orc"),
        spark="for a value that the type in the schema cannot hold: drops bits and digits, or returns null "
        "or another value, depending on format, type and release",
        here="an error that names the file and the column",
        why="the values would be lost silently",
        shows=lambda case, mismatch: (
            mismatch.kind == "error only here" and _asks_for_another_type(case, mismatch)
        ),
    ),
    Difference(
        name="types that lose nothing",
        readers=("parquet", "orc"),
        spark="fails to read unsigned numbers as decimal, fixed-size bytes as string, and a column of nulls "
        "as any type",
        here="returns the value",
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
        here="keeps the stored order",
        why="a map has no order",
        shows=_is_same_value_after(_sorted_maps),
    ),
    Difference(
        name="zeros of both signs in ORC files",
        readers=("orc",),
        spark="repeats the first of a batch of floating-point zeros, with its sign",
        here="each zero has its own sign",
        why="Spark takes equal numbers for repeated ones",
        shows=_is_same_value_after(_without_signs_of_zeros),
    ),
    Difference(
        name="digits of doubles as strings",
        readers=("orc",),
        spark="on Java 17 and 18, writes some doubles above 1.0E16 with one more digit than they need",
        here="writes the fewest digits that identify the double, as Java 19 does",
        why="the number is the same",
        shows=lambda case, mismatch: (
            re.search("float|double", _stored_type(case, mismatch)) is not None
            and _is_same_value_after(_with_texts_as_numbers)(case, mismatch)
        ),
    ),
    Difference(
        name="timestamps of ORC files as timestamp_ntz",
        readers=("orc",),
        spark="refuses some files, and takes the seconds of others for microseconds",
        here="returns the stored clock time",
        why="nothing is lost",
        shows=lambda case, mismatch: (
            mismatch.kind == "value"
            and "timestamp_ntz" in mismatch.column_type
            and "timestamp" in _stored_type(case, mismatch)
        ),
    ),
    Difference(
        name="timestamps that Spark's ORC reader refuses",
        readers=("orc",),
        spark="fails for a few timestamps before 1970 that Arrow has written: nanos > 999999999 or < 0",
        here="returns the value",
        why="nothing is lost",
        shows=_is_error_of_spark("nanos > 999999999 or < 0"),
    ),
    Difference(
        name="ambiguous dates and times in ORC files",
        readers=("orc",),
        spark="reads dates before 1582, and timestamps of any year",
        here="dates before 1582 and timestamps before 1900 and after 2262 are an error",
        why="ORC files do not say which calendar old dates use, and Arrow reads nanoseconds in 64 bits",
        shows=lambda _, mismatch: (
            mismatch.kind == "error only here"
            and any(text in str(mismatch.ours) for text in ("ORC timestamps", "calendar"))
        ),
    ),
    Difference(
        name="columns of files without rows",
        readers=("orc",),
        spark="infers no columns from files without rows",
        here="infers all columns",
        why="nothing is lost",
        shows=lambda _, mismatch: mismatch.kind == "schema" and _has_more_columns(mismatch),
    ),
    Difference(
        name="order of inferred columns",
        readers=("parquet", "orc"),
        spark="takes the columns of one file first, which depends on the sizes of the files",
        here="takes the columns of the files in the order of their paths",
        why="sizes are chance",
        shows=lambda _, mismatch: mismatch.kind == "schema" and _has_the_same_columns(mismatch),
    ),
    Difference(
        name="types that only Arrow knows",
        readers=("parquet",),
        spark="infers no schema from files with timestamps in nanoseconds and similar types",
        here="infers the corresponding type of Spark",
        why="only digits after the microsecond are lost",
        shows=_is_error_of_spark("PARQUET_TYPE_ILLEGAL"),
    ),
    Difference(
        name="rows that Arrow misses",
        readers=("parquet",),
        spark="reads rows after an empty page",
        here="an error with the number of rows that a row group has, and the number that Arrow returns",
        why="Arrow loses the rows",
        shows=_is_error_here("Arrow returns "),
    ),
    Difference(
        name="headers that differ",
        readers=("csv",),
        spark="uses the names of the first file, even if another file has them in another order",
        here="refuses to infer a schema from files whose headers begin differently",
        why="columns are matched by position, so values would get the names of other columns",
        shows=lambda _, mismatch: (
            mismatch.kind == "schema not found here"
            and "columns of CSV files are matched by position" in str(mismatch.ours)
        ),
    ),
    Difference(
        name="unescaped quotes in a header",
        readers=("csv",),
        spark="with `unescapedQuoteHandling=RAISE_ERROR`, fails for an unescaped quote in a header line, "
        "even if its names are not used",
        here="skips the line if a schema is given and `enforceSchema` is true",
        why="no value is in the line",
        shows=lambda case, mismatch: (
            case.options.get("unescapedQuoteHandling") == "RAISE_ERROR"
            and case.options.get("header") == "true"
            and _is_error_of_spark("Unescaped quote character")(case, mismatch)
        ),
    ),
    Difference(
        name="blanks at the start of a line",
        readers=("csv",),
        spark="with `ignoreTrailingWhiteSpace` alone, fails for a blank field at the start of a file or "
        "line: an index out of bounds",
        here="the field is null",
        why="a bug in Spark",
        shows=lambda case, mismatch: (
            mismatch.kind in ("error only in Spark", "schema not found by Spark")
            and case.options.get("ignoreTrailingWhiteSpace") == "true"
            and "ignoreLeadingWhiteSpace" not in case.options
        ),
    ),
)
