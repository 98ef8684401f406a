"""A growing DuckDB table: each batch reads up to the newest key, or as many keys as its limits allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from flip27_source import (
    Boundedness,
    BoundedRange,
    Budget,
    Option,
    Options,
    RetryPolicy,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitReader,
    SplitSize,
)

DATABASE = Option(
    name="database", parse=str, default="shop.duckdb", doc="The DuckDB file.", first_start_only=True
)
TABLE = Option(name="table", parse=str, default="orders", doc="The table.", first_start_only=True)
KEY = Option(name="key", parse=str, default="id", doc="Its growing integer key.", first_start_only=True)
POLL_S = 1.0
ROWS_PER_ARROW_BATCH = 65_536


@dataclass(frozen=True, kw_only=True)
class KeyRange:
    """The rows with keys above ``after`` (None: all) up to ``last`` (None: no end)."""

    split_id: str
    after: int | None = None
    last: int | None = None

    @property
    def size(self) -> SplitSize:
        """One row for each possible key. Gaps count too, so batches stay below their limits."""
        if self.after is None or self.last is None:
            return SplitSize(files=0)
        return SplitSize(files=0, rows=self.last - self.after)


class GrowingTableEnumerator(SplitEnumerator[KeyRange]):
    """Assigns the table as one split without an end, and bounds it at every checkpoint."""

    options = (DATABASE, TABLE, KEY)

    def __init__(
        self,
        context: SplitEnumeratorContext[KeyRange],
        options: Options,
        state: list[KeyRange] | None = None,
    ) -> None:
        super().__init__(context, options, state)
        self._unassigned = [KeyRange(split_id=options[TABLE])] if state is None else state
        self._keys: tuple[int, int] | None = None

    def start(self) -> None:
        """Poll for new keys beside the batches; retry while another process holds the file."""
        bounded = self.context.boundedness is Boundedness.BOUNDED
        self.context.call_async(
            self._look, self._looked, period_s=None if bounded else POLL_S, retry=RetryPolicy(retries=10)
        )

    def _look(self) -> tuple[int, int] | None:
        key, table = quoted(self.options_given[KEY]), quoted(self.options_given[TABLE])
        with duckdb.connect(self.options_given[DATABASE], read_only=True) as database:
            ((oldest, newest),) = database.sql(f"SELECT min({key}), max({key}) FROM {table}").fetchall()
        return None if newest is None else (oldest, newest)

    def _looked(self, keys: tuple[int, int] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._keys = keys

    def bound_split(self, split: KeyRange, budget: Budget) -> BoundedRange[KeyRange] | None:
        """The keys from the end of the last batch to the newest known key. Does no I/O."""
        if self._keys is None:
            return None
        oldest, newest = self._keys
        after = oldest - 1 if split.after is None else split.after
        last = newest if budget.rows is None else min(newest, after + budget.rows)
        if last <= after:
            return None
        return BoundedRange(read=replace(split, after=after, last=last), rest=replace(split, after=last))

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign the table at the first request."""
        if self._unassigned:
            self.context.assign_split(self._unassigned.pop())

    def add_splits_back(self, splits: Sequence[KeyRange], subtask_id: int) -> None:
        """Keep the table for the next request."""
        self._unassigned.extend(splits)

    def snapshot_state(self, checkpoint_id: int) -> list[KeyRange]:
        """The table, as long as it is not assigned."""
        return list(self._unassigned)


class GrowingTableReader(SplitReader[KeyRange]):
    """Yields the columns of the user's schema, as Arrow record batches."""

    def read(self, split: KeyRange) -> Iterator[pa.RecordBatch]:
        """The rows of the range, in the order of their keys."""
        options = self.context.options
        key, table = quoted(options[KEY]), quoted(options[TABLE])
        columns = ", ".join(map(quoted, self.context.schema.names))
        wanted = f"SELECT {columns} FROM {table} WHERE {key} > ? AND {key} <= ? ORDER BY {key}"
        with duckdb.connect(options[DATABASE], read_only=True) as database:
            rows = database.sql(wanted, params=[split.after, split.last])
            yield from rows.to_arrow_reader(ROWS_PER_ARROW_BATCH)


def quoted(name: str) -> str:
    """A name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
