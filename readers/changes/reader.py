"""The reader of a source that reads chunks of tables and windows of their log: what all of them do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

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
        self._rows = self._rows_of(context)
        self._columns = ColumnChanges(
            context, self._rows.columns_read, mode=context.options[ON_SCHEMA_CHANGE]
        )

    @abstractmethod
    def _rows_of(self, context: SourceReaderContext) -> RowsT:
        """What makes the rows of this context."""

    def must_read(self, split: SplitT) -> bool:
        """Whether it is a window of the log: later changes change the rows of earlier ones.

        Where the log is removed once it was read, the window could not be read later.
        """
        return split.log is not None
