"""Finds data of CSV lines that the schema cannot hold: extra fields, and values of the wrong type."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.readers.csv_lines.dialect import Dialect
from flip27_source.readers.csv_lines.ranges_and_quotes import CsvRows
from flip27_source.readers.csv_lines.schema import CsvTypes
from flip27_source.readers.files.line_blocks import Place
from flip27_source.readers.schemas.evolution import FILE_PATH, SchemaEvolution

Misfits = Mapping[str, tuple[pa.Array, pa.Array]]
"""For each column with values of the wrong type: a mask of their rows, and the texts."""


class CsvRescue:
    """Handles the rows of a block that have extra fields or values of the wrong type.

    Args:
        csv_types: infers the types of values that may widen a column; None if types are not inferred.
    """

    def __init__(
        self, evolution: SchemaEvolution, dialect: Dialect, csv_types: CsvTypes | None = None
    ) -> None:
        self._evolution = evolution
        self._dialect = dialect
        self._types = csv_types
        self._columns = len(evolution.schema)

    def long_rows(self, rows: CsvRows, wrong_count: pa.Array | None) -> dict[int, list[str]]:
        """The fields after the last column, by row number; only for rows that have such fields."""
        found = {}
        for row in [] if wrong_count is None else pc.indices_nonzero(wrong_count).to_pylist():
            fields = rows.fields(row)
            if len(fields) > self._columns:
                found[row] = fields[self._columns :]
        return found

    def check(self, long_rows: Mapping[int, Sequence[str]], place_of_first: Place) -> None:
        """Refuse fields after the last column if the schema evolution detects new columns.

        Raises:
            NewColumnsError: there are such fields; the error has them as columns.
        """
        most = max(map(len, long_rows.values()))
        names = (f"_c{self._columns + number}" for number in range(most))
        self._evolution.check(str(place_of_first), pa.schema([(name, pa.string()) for name in names]))

    def check_types(self, misfits: Misfits, place_of_row: Callable[[int], Place]) -> None:
        """Refuse values of the wrong type that fit a wider type, if the schema evolution widens types.

        Raises:
            NewColumnsError: there are such values.
        """
        if self._types is None:
            return
        first_rows: dict[tuple[str, pa.DataType], int] = {}
        for name, (bad, texts) in misfits.items():
            for row in pc.indices_nonzero(bad).to_pylist():
                first_rows.setdefault((name, self._types.of_text(texts[row].as_py())), row)
        found = {pa.schema([column]): row for column, row in first_rows.items()}
        new = self._evolution.new_columns(*found)
        if len(new):
            row = min(row for schema, row in found.items() if len(self._evolution.new_columns(schema)))
            raise self._evolution.refusal(new, str(place_of_row(row)))

    def rescued(
        self,
        rows: int,
        long_rows: Mapping[int, Sequence[str]],
        misfits: Misfits,
        origin: Mapping[int, tuple[FileSplit, Sequence[str]]],
    ) -> pa.Array:
        """The column of rescued data.

        Args:
            origin: for each row with data to rescue, its file and the column names of its header, if any.
        """
        texts: list[str | None] = [None] * rows
        for row, (split, names) in origin.items():
            left = {name: column[row].as_py() for name, (bad, column) in misfits.items() if bad[row].as_py()}
            left |= dict(self._named(long_rows.get(row, ()), names))
            texts[row] = json.dumps(left | {FILE_PATH: split.path}, ensure_ascii=False)
        return pa.array(texts, pa.string())

    def _named(self, fields: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        for number, text in enumerate(fields, self._columns):
            name = names[number] if number < len(names) else f"_c{number}"
            yield name, None if text == self._dialect.null_value else text


def rows_of_interest(long_rows: Mapping[int, Sequence[str]], misfits: Misfits) -> list[int]:
    """The numbers of the rows with data to rescue."""
    found = set(long_rows)
    for bad, _ in misfits.values():
        found.update(pc.indices_nonzero(bad).to_pylist())
    return sorted(found)
