"""The filters that Spark pushes to a batch reader: splits and files in which no row can match are left out.

Spark evaluates all filters again on the rows, so that a filter which is not understood here costs time only.
Spark before 4.1 pushes none, and this module cannot be imported there.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource as filters
from pyspark.sql.datasource import DataSourceReader, Filter
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.reader import KnowsConstants
from flip27_source.source import Source
from flip27_source.state_tables.predicates import EVERYTHING

if TYPE_CHECKING:
    from .state_source import StateReader

Constants = Mapping[tuple[str, ...], Any]

_COMPARED = (BooleanType, DateType, DecimalType, IntegralType, TimestampType)
_VALUES = (bool, int, str, dt.date, dt.datetime, decimal.Decimal)

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    filters.EqualTo: lambda is_, wanted: is_ == wanted,
    filters.GreaterThan: lambda is_, wanted: is_ > wanted,
    filters.GreaterThanOrEqual: lambda is_, wanted: is_ >= wanted,
    filters.LessThan: lambda is_, wanted: is_ < wanted,
    filters.LessThanOrEqual: lambda is_, wanted: is_ <= wanted,
    filters.StringStartsWith: lambda is_, wanted: is_.startswith(wanted),
    filters.StringEndsWith: lambda is_, wanted: is_.endswith(wanted),
    filters.StringContains: lambda is_, wanted: wanted in is_,
}

_SYMBOLS: dict[type[Filter], str] = {
    filters.EqualTo: "=",
    filters.GreaterThan: ">",
    filters.GreaterThanOrEqual: ">=",
    filters.LessThan: "<",
    filters.LessThanOrEqual: "<=",
}


class _UnknownError(Exception):
    """A filter whose result is not known before the rows are read."""


class _ReplacesPushFilters:
    """An object that replaces a reader's method ``pushFilters``.

    Spark refuses a reader that has its own method while ``spark.sql.python.filterPushdown.enabled`` is false,
    which is the default. It compares ``__func__``, so this attribute makes the reader work in both cases.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)


class PushedPredicate(_ReplacesPushFilters):
    """Keeps the filters that avoid reading files of the state."""

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader

    def __call__(self, given: list[Filter]) -> list[Filter]:
        predicate = EVERYTHING
        for one in given:
            item: Any = one
            if isinstance(item, filters.In) and len(item.attribute) == 1:
                predicate = predicate.narrowed(item.attribute[0], "=", item.value)
            elif type(item) in _SYMBOLS:
                name = ".".join(item.attribute)
                predicate = predicate.narrowed(name, _SYMBOLS[type(item)], [item.value])
        self._reader.wanted = predicate
        return given


class PushedFilters(_ReplacesPushFilters):
    """The filters that Spark has pushed to a batch reader."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema
        self._filters: list[Filter] = []

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the comparable filters, and return all filters: Spark still has to evaluate every one."""
        self._filters = [one for one in filters if self._is_comparable(_column_of(one))]
        return filters

    def applied_to(self, source: Source, schema: pa.Schema) -> Source:
        """The source without the splits that have no row for the filters."""
        kind, reader = source.enumerator_type, source.reader_type
        if not self._filters or not issubclass(reader, KnowsConstants):
            return source
        if not issubclass(kind, DiscoveringEnumerator):
            return source
        constants_of = reader.constants_of(schema, source.options)
        conditions = tuple(self._filters)
        return replace(
            source,
            enumerator_type=_selecting(kind, lambda split: may_have_rows(conditions, constants_of(split))),
        )

    def _is_comparable(self, column: tuple[str, ...]) -> bool:
        """Whether values of the column compare in Python as in Spark."""
        kind: DataType | None = self._schema
        for name in column:
            fields = kind.fields if isinstance(kind, StructType) else []
            kind = next((field.dataType for field in fields if field.name == name), None)
        if type(kind) is StringType:
            return bool(kind == StringType())  # not with another collation
        return isinstance(kind, _COMPARED)


def may_have_rows(conditions: Iterable[Filter], constants: Constants) -> bool:
    """Whether a split with these constant columns may have rows for which all filters are true."""
    for one in conditions:
        with suppress(_UnknownError):
            if _result(one, constants) is not True:
                return False
    return True


def _result(condition: Filter, constants: Constants) -> bool | None:
    """The result of a filter; None for SQL's null, which is not true and whose negation is not either."""
    if isinstance(condition, filters.Not):
        result = _result(condition.child, constants)
        return None if result is None else not result
    column = _column_of(condition)
    if column not in constants:
        raise _UnknownError
    value = constants[column]
    if isinstance(condition, filters.IsNull | filters.IsNotNull):
        return (value is None) == isinstance(condition, filters.IsNull)
    if isinstance(condition, filters.In):
        results = [_compared(filters.EqualTo, value, one) for one in condition.value]
        return True if True in results else None if None in results else False
    if isinstance(condition, filters.EqualNullSafe):
        return _compared(filters.EqualTo, value, condition.value) or value is condition.value
    return _compared(type(condition), value, getattr(condition, "value", None))


def _compared(kind: type[Filter], value: Any, other: Any) -> bool | None:
    if value is None or other is None:
        return None
    if kind not in _COMPARISONS or type(value) is not type(other) or not isinstance(value, _VALUES):
        raise _UnknownError
    return _COMPARISONS[kind](value, other)


def _column_of(condition: Filter) -> tuple[str, ...]:
    inner = condition.child if isinstance(condition, filters.Not) else condition
    return tuple(getattr(inner, "attribute", ()))


def _selecting(
    kind: type[DiscoveringEnumerator[Any]], is_wanted: Callable[[Any], bool]
) -> type[DiscoveringEnumerator[Any]]:
    """The enumerator, which finds only the wanted splits; for one batch, whose state is discarded."""

    class Selecting(kind):  # type: ignore[misc, valid-type]
        def _discovery(self) -> Discovery[Any, Any]:
            discovery = self._checked_type(super()._discovery())
            return replace(discovery, splits=[split for split in discovery.splits if is_wanted(split)])

    Selecting.__qualname__ = kind.__qualname__
    return Selecting
