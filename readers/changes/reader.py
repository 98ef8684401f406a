"""The reader of a source that reads chunks of tables and windows of their log: what all of them do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa

from flip27_source.enumerators.tables_with_log.options import CHANGE_FORMAT, ON_SCHEMA_CHANGE
from flip27_source.enumerators.tables_with_log.schema import is_inferred
from flip27_source.errors import SchemaError
from flip27_source.reader import SourceReaderContext, SplitReader
from flip27_source.readers.changes.rows import OP, OTHER_FORMAT
from flip27_source.readers.schemas.column_changes import ColumnChanges


class Rows(Protocol):
    """Makes the batches of one schema."""

    @property
    def columns_read(self) -> Sequence[str] | None:
        """The names of the columns that are read from a table; None for all of them."""


Types = Callable[[], Mapping[str, pa.DataType]]
SplitT = TypeVar("SplitT", bound=Any)
RowsT = TypeVar("RowsT", bound=Rows)


class ChangesReader(SplitReader[SplitT], Generic[SplitT, RowsT]):
    """Reads chunks and windows, and reports each in an event."""

    repeatable: ClassVar[bool] = False

    def open(self, context: SourceReaderContext) -> None:
        """Prepare the rows; connections are made when they are needed."""
        super().open(context)
        is_typed, schema = context.options[CHANGE_FORMAT] == "typed", context.schema
        if is_typed and OP not in schema.names and is_inferred(context.options):
            raise SchemaError(f"the schema has no column {OP} of changeFormat=typed", remedy=OTHER_FORMAT)
        self._compared: set[Hashable] = set()
        self._rows = self._rows_of(context)
        self._columns = ColumnChanges(
            context, self._rows.columns_read, mode=context.options[ON_SCHEMA_CHANGE]
        )

    def _compare(
        self, table: Hashable, name: str, types: Types, *, old: Collection[str] | None = None
    ) -> None:
        """Compare the columns of a table with the DataFrame's, before its first row is delivered.

        Args:
            table: the table as the log describes it.
            types: returns the types of its columns.
            old: the columns that old rows have in the log; None for all of them.
        """
        if table not in self._compared:
            found = types()
            self._columns.check(name, found, old=found if old is None else old)
            self._compared.add(table)

    @abstractmethod
    def _rows_of(self, context: SourceReaderContext) -> RowsT:
        """What makes the rows of this context."""

    def must_read(self, split: SplitT) -> bool:
        """Whether it is a window of the log: later changes change the rows of earlier ones.

        Where the log is removed once it was read, the window could not be read later.
        """
        return split.log is not None
