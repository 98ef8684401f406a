"""Infers the schema of CSV files as Spark's CSVInferSchema does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.errors import SchemaError
from flip27_source.options import Change, Option, Options, ReadingOption, boolean
from flip27_source.readers.csv_lines.options import HEADER, NULL_VALUE
from flip27_source.readers.csv_lines.ranges_and_quotes import CsvRows
from flip27_source.readers.datetimes.fields import days_by_pattern
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.datetimes.patterns import datetime_pattern
from flip27_source.readers.scalars.texts import decimal_type_of, is_double, is_whole
from flip27_source.readers.schemas.merging import wider_number
from flip27_source.source_options import TIME_ZONE
from flip27_source.time_zones import java_zone

INFER_SCHEMA = Option(
    name="inferSchema",
    parse=boolean,
    doc="Infer the types of the columns if no schema is given; otherwise all columns are strings.",
    changes=Change.IGNORED,
    change_note="once the schema is recorded",
)
PREFER_DATE = Option(
    name="preferDate",
    parse=boolean,
    default=True,
    doc="With inferSchema: true reads dates as dates, false as timestamps.",
    changes=Change.IGNORED,
    change_note="once the schema is recorded",
)

_ISO_DATE = datetime_pattern("yyyy-MM-dd")
_DATES_OF_CASTS = frozenset(("yyyy-MM-dd", "yyyy-M-d", "yyyy-M-dd", "yyyy-MM-d", "yyyy-MM", "yyyy-M", "yyyy"))
"""Date patterns whose texts are also timestamps if timestamps have no pattern."""
_INSTANT = pa.timestamp("us", "UTC")


NAN_VALUE = ReadingOption(name="nanValue", default="NaN", doc="Text that means NaN.")
POSITIVE_INF = ReadingOption(name="positiveInf", default="Inf", doc="Text that means infinity.")
NEGATIVE_INF = ReadingOption(name="negativeInf", default="-Inf", doc="Text that means minus infinity.")
FLOAT_WORD_OPTIONS: tuple[Option[Any], ...] = (NAN_VALUE, POSITIVE_INF, NEGATIVE_INF)
CSV_INFERENCE_OPTIONS: tuple[Option[Any], ...] = (INFER_SCHEMA, PREFER_DATE)


def float_words(options: Options) -> dict[str, float]:
    """The texts that mean numbers; the first of equal texts is used, as in Spark."""
    words = ((NAN_VALUE, math.nan), (NEGATIVE_INF, -math.inf), (POSITIVE_INF, math.inf))
    return {options[option]: number for option, number in reversed(words)}


def csv_formats(options: Options) -> DateTimeFormats:
    """How texts become dates and timestamps; without the fallback, dates always have a pattern."""
    formats = DateTimeFormats.of(options)
    is_strict = formats.date is None and formats.fallback is False and options[PREFER_DATE]
    return replace(formats, date=_ISO_DATE) if is_strict else formats


def csv_schema(samples: Sequence[tuple[str, CsvRows]], options: Options) -> pa.Schema | None:
    """The columns of some files, given by path and first rows; None if there is no row."""
    samples = [(path, rows) for path, rows in samples if len(rows.records())]
    if not samples:
        return None
    first_rows = [(path, rows.fields(0)) for path, rows in samples]
    longest = max((fields for _, fields in first_rows), key=len)
    names = _column_names(longest, is_header=options[HEADER], null_value=options[NULL_VALUE])
    if options[HEADER]:
        _check_headers(first_rows)
    kinds = [pa.null()] * len(names)
    if options[INFER_SCHEMA]:
        finder = CsvTypes(options)
        for _, rows in samples:
            columns = rows.columns(len(names)).columns
            kinds = [
                finder.of_column(column[int(options[HEADER]) :], kind)
                for column, kind in zip(columns, kinds, strict=True)
            ]
    return pa.schema(
        [
            (name, pa.string() if types.is_null(kind) else kind)
            for name, kind in zip(names, kinds, strict=True)
        ]
    )


def _column_names(first_row: Sequence[str | None], *, is_header: bool, null_value: str) -> list[str]:
    """The column names of the header, made unique as Spark does, or ``_c0``, ``_c1``, ..."""
    times = Counter(name.lower() for name in first_row if name is not None)

    def name_of(number: int, name: str | None) -> str:
        if not (is_header and name) or name == null_value:
            return f"_c{number}"
        return f"{name}{number}" if times[name.lower()] > 1 else name

    return [name_of(number, name) for number, name in enumerate(first_row)]


def _check_headers(headers: Sequence[tuple[str, Sequence[str | None]]]) -> None:
    longest_path, longest = max(headers, key=lambda header: len(header[1]))
    for path, names in reversed(headers):
        for number, (name, other) in enumerate(zip(names, longest, strict=False), 1):
            if (name or "").lower() != (other or "").lower():
                raise SchemaError(
                    f"column {number} is called {name} in {path} and {other} in {longest_path}, but the "
                    "columns of CSV files are matched by position",
                    remedy="set the schema with .schema(...), or select similar files with pathGlobFilter",
                )


class CsvTypes:
    """Infers the types of columns of texts, as the options require.

    The order of the attempts is Spark's; they start at the column's current type.
    """

    def __init__(self, options: Options) -> None:
        zone = java_zone(options[TIME_ZONE] or "UTC")
        words, formats = float_words(options), csv_formats(options)
        date = formats.date or _ISO_DATE
        once = replace(formats, fallback=False)
        self._mixed = _INSTANT if formats.timestamp is None and date.text in _DATES_OF_CASTS else pa.string()
        attempts: list[tuple[Callable[[pa.DataType], bool], Callable[[str], pa.DataType | None]]] = [
            (lambda kind: kind == pa.int32(), _integer(pa.int32())),
            (lambda kind: kind == pa.int64(), _integer(pa.int64())),
            (types.is_decimal, decimal_type_of),
            (types.is_floating, lambda text: pa.float64() if is_double(text, words) else None),
            (types.is_date, lambda text: None if days_by_pattern(text, date) is None else pa.date32()),
            (types.is_timestamp, lambda text: None if once.timestamp_us(text, zone) is None else _INSTANT),
            (types.is_boolean, lambda text: pa.bool_() if text.lower() in ("true", "false") else None),
        ]
        self._attempts = (
            attempts if options[PREFER_DATE] else [item for item in attempts if item[0] is not types.is_date]
        )

    def of_column(self, texts: pa.Array, kind: pa.DataType) -> pa.DataType:
        """The type after some more texts of a column; null while the column has no text."""
        for value in pc.unique(texts).drop_null().to_pylist():
            if types.is_string(kind):
                break
            if value:
                kind = _joined(kind, self.of_text(value, kind), self._mixed)
        return kind

    def of_text(self, text: str, column_kind: pa.DataType) -> pa.DataType:
        """The type of one text, which is not empty, in a column of this type."""
        begun = types.is_null(column_kind)
        for is_tried, attempt in self._attempts:
            begun = begun or is_tried(column_kind)
            kind = attempt(text) if begun else None
            if kind is not None:
                return kind
        return pa.string()


def _integer(kind: pa.DataType) -> Callable[[str], pa.DataType | None]:
    return lambda text: kind if is_whole(text, kind) else None


def _joined(left: pa.DataType, right: pa.DataType, mixed: pa.DataType) -> pa.DataType:
    """The type that covers both; ``mixed`` is the type for dates and timestamps together."""
    if left == right or types.is_null(left):
        return right
    if types.is_temporal(left) and types.is_temporal(right):
        return mixed
    return wider_number(left, right)
