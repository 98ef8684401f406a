"""Handles columns that a table has and the DataFrame does not have, and vice versa."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from flip27_source.enumerators.tables_with_log.schema import is_inferred
from flip27_source.errors import SplitReadError
from flip27_source.reader import SourceReaderContext

_BEFORE = "_before"


class ColumnChanges:
    """Compares the columns of tables with those of the DataFrame, as ``onSchemaChange`` requires.

    Args:
        selected: the table's columns in the DataFrame; None if the format can deliver rows with any columns.
        mode: the value of the option.
    """

    def __init__(self, context: SourceReaderContext, selected: Sequence[str] | None, *, mode: str) -> None:
        self._context = context
        self._selected = selected
        self._mode = mode
        self._is_whole = is_inferred(context.options)

    def check(self, table: str, types: Mapping[str, pa.DataType], *, old: Collection[str]) -> None:
        """Compare the columns, before the first row with them is delivered.

        Args:
            types: the columns of the table.
            old: the names of the columns that old rows have in the log.

        Raises:
            NewColumnsError: there are new columns; they are recorded, and the query has them after a restart.
            SplitReadError: the option forbids the change, or the DataFrame cannot have such a column.
        """
        if self._selected is None:
            return
        self._check_case(table, types)
        if self._mode == "ignore":
            return
        if self._mode == "fail":
            self._check_same(table, types)
            return
        fields = [pa.field(name, kind) for name, kind in types.items()]
        if old and _BEFORE in self._context.schema.names:
            fields.append(pa.field(_BEFORE, pa.struct([field for field in fields if field.name in old])))
        self._context.check_new_columns(pa.schema(fields), where=f"table {table}")

    def _check_same(self, table: str, types: Mapping[str, pa.DataType]) -> None:
        assert self._selected is not None
        new = [name for name in types if name not in self._selected] if self._is_whole else []
        gone = [name for name in self._selected if name not in types]
        if new or gone:
            said = [f"also has {', '.join(new)}"] if new else []
            said += [f"has no {', '.join(gone)}"] if gone else []
            raise SplitReadError(
                f"the columns of table {table} are not those of the DataFrame: it {' and '.join(said)} "
                "(onSchemaChange=fail)",
                remedy="set onSchemaChange=evolve to add new columns, or ignore to leave them out; with "
                "both, a dropped column is null from then on",
            )

    def _check_case(self, table: str, types: Mapping[str, pa.DataType]) -> None:
        assert self._selected is not None
        by_lower = {name.lower(): name for name in self._context.schema.names}
        for name in types:
            known = by_lower.get(name.lower())
            if name in self._selected or known is None:
                continue
            if known in self._selected and known not in types:
                raise SplitReadError(
                    f"the schema has a column {known}, but table {table} has {name}",
                    remedy=f"use the table's name of the column in the schema: {name}",
                )
            if self._is_whole and self._mode != "ignore":
                raise SplitReadError(
                    f"table {table} has a new column {name}, which a DataFrame cannot have together with "
                    f"{known}",
                    remedy="rename the column, or set onSchemaChange=ignore to leave it out",
                )
