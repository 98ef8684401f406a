"""Finds data of CSV lines that the schema cannot hold: extra fields, and values of the wrong type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.readers.csv_lines.dialect import Dialect
from flip27_source.readers.csv_lines.ranges_and_quotes import CsvRows
from flip27_source.readers.csv_lines.schema import CsvTypes
from flip27_source.readers.schemas.evolution import SchemaEvolution, rescued_text

Misfits = Mapping[str, tuple[pa.Array, pa.Array]]
"""For each column with values of the wrong type: a mask of their rows, and the texts."""


class CsvRescue:
    """Handles the rows of a block that have extra fields or values of the wrong type.

    Args:
        header_of: returns the column names in a file; None if files have no headers.
        csv_types: infers the types of values that may widen a column; None if types are not inferred.
    """

    def __init__(
        self,
        evolution: SchemaEvolution,
        dialect: Dialect,
        header_of: Callable[[FileSplit], Sequence[str]] | None,
        csv_types: CsvTypes | None,
    ) -> None:
        self._evolution = evolution
        self._dialect = dialect
        self._header_of = header_of
        self._types = csv_types
        self._columns = len(evolution.schema)

    def left_over(
        self, rows: CsvRows, count: int, malformed: pa.Array | None, misfits: Misfits
    ) -> tuple[pa.Array | None, pa.Array | None]:
        """A mask of the malformed rows and the column of rescued data; each is None if there are none.

        Args:
            malformed: a mask of the rows with another number of fields than columns.

        Raises:
            NewColumnsError: there are fields or values that need another schema, and the schema evolution
                does not ignore them.
        """
        self._check_types(rows, misfits)
        # The fields after the last column, by row number; only for rows that have such fields.
        long_rows: dict[int, list[str]] = {}
        for row in [] if malformed is None else pc.indices_nonzero(malformed).to_pylist():
            if extra := rows.fields(row)[self._columns :]:
                long_rows[row] = extra
        if long_rows and self._header_of is None:
            most = max(map(len, long_rows.values()))
            names = (f"_c{self._columns + number}" for number in range(most))
            place = str(rows.place(min(long_rows)))
            self._evolution.check(place, pa.schema([(name, pa.string()) for name in names]))
        if self._evolution.rescued_at is None:
            return malformed, None
        misfit_rows = (pc.indices_nonzero(bad).to_pylist() for bad, _ in misfits.values())
        numbers = sorted({*long_rows, *(row for column_rows in misfit_rows for row in column_rows)})
        texts: list[str | None] = [None] * count
        for row, split in zip(numbers, rows.splits(numbers), strict=True):
            left = {name: column[row].as_py() for name, (bad, column) in misfits.items() if bad[row].as_py()}
            if row in long_rows:
                names_in_file = self._header_of(split) if self._header_of is not None else ()
                left |= dict(self._named(long_rows[row], names_in_file))
            texts[row] = rescued_text(left, split.path)
        if malformed is not None:
            malformed = pc.and_not(malformed, pa.array([row in long_rows for row in range(count)]))
            malformed = malformed if malformed.true_count else None
        return malformed, pa.array(texts, pa.string())

    def _check_types(self, rows: CsvRows, misfits: Misfits) -> None:
        """Refuse values of the wrong type that fit a wider type, if the schema evolution widens types."""
        if self._types is None:
            return
        first_rows: dict[tuple[str, pa.DataType], int] = {}
        for name, (bad, texts) in misfits.items():
            for row in pc.indices_nonzero(bad).to_pylist():
                kind = self._types.of_text(texts[row].as_py(), pa.null())
                first_rows.setdefault((name, kind), row)
        schemas = {pa.schema([column]): row for column, row in first_rows.items()}
        new = self._evolution.new_columns(*schemas)
        if len(new):
            row = min(row for schema, row in schemas.items() if len(self._evolution.new_columns(schema)))
            raise self._evolution.refusal(new, str(rows.place(row)))

    def _named(self, fields: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        for number, text in enumerate(fields, self._columns):
            name = names[number] if number < len(names) else f"_c{number}"
            yield name, None if text == self._dialect.null_value else text
