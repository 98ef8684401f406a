"""Makes the rows of ``changeFormat=debezium``, with the JSON of Debezium's PostgreSQL connector.

The fields and their order are those of Debezium 3.6 with Kafka's JSON converter and ``schemas.enable=false``.
The differences are:

- ``source.version`` names this project.
- ``source.lsn`` is the position of the commit, and ``source.sequence`` has this position and the index of the
  change in the transaction, because positions of single changes are not read.
- Old values that the log does not have are null, even in columns that are NOT NULL.
- Tombstones are not written, but TRUNCATE is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from flip27_source._version import __version__
from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres import schema as names
from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.enumerators.postgres.split import TableName
from flip27_source.options import Options
from flip27_source.readers.postgres.debezium_values import debezium_encoder, placeholder
from flip27_source.readers.postgres.delivered_changes import CREATE, DeliveredChanges
from flip27_source.readers.postgres.json_objects import JsonObjects
from flip27_source.readers.postgres.json_rows import (
    Columns,
    batch_of,
    change_position,
    check_columns,
    snapshot_position,
)
from flip27_source.readers.postgres.json_texts import JsonTexts, joined, quoted
from flip27_source.readers.postgres.typed_rows import constant, op_texts

_MOST_BITS = 0xFFFFFFFF


class DebeziumRows:
    """Makes the batches of ``DEBEZIUM_SCHEMA``, or of some of its columns.

    Args:
        topic_prefix: the name of the source.
        decimal_handling, interval_handling: the values of Debezium's options for these types.
        now_ns: returns the time in nanoseconds since 1970 UTC.
    """

    wanted = None

    def __init__(
        self,
        schema: pa.Schema,
        *,
        database: str,
        topic_prefix: str,
        decimal_handling: str = "string",
        interval_handling: str = "numeric",
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        check_columns(schema, names.DEBEZIUM_SCHEMA, change_format="debezium")
        self._schema = schema
        self._database = database
        self._topic_prefix = topic_prefix
        self._now_ns = now_ns
        encoder = partial(
            debezium_encoder, decimal_handling=decimal_handling, interval_handling=interval_handling
        )
        self._objects = JsonObjects(encoder, placeholder)

    @classmethod
    def of(cls, schema: pa.Schema, options: Options) -> DebeziumRows:
        """The instance that the options define."""
        database = options.require(opts.DATABASE, why="the postgres source reads the tables of one database")
        return cls(
            schema,
            database=database,
            topic_prefix=options[opts.TOPIC_PREFIX] or database,
            decimal_handling=options[opts.DECIMAL_HANDLING],
            interval_handling=options[opts.INTERVAL_HANDLING],
        )

    def snapshot(
        self,
        table: TableName,
        types: Mapping[str, PgType],
        texts: Mapping[str, pa.Array],
        *,
        key: Sequence[str],
        rows: int,
        lsn: int,
    ) -> pa.RecordBatch:
        """A batch of rows that were read from the table."""
        columns: Columns = {
            "key": lambda: self._objects.snapshot_key(texts, types, key, rows=rows, table=str(table)),
            "value": lambda: self._snapshot_values(table, types, texts, rows=rows, lsn=lsn),
            "table": lambda: constant(str(table), rows, pa.string()),
            **snapshot_position(rows, lsn),
        }
        return batch_of(self._schema, columns)

    def changes(
        self, changes: DeliveredChanges, types: Mapping[str, PgType], *, key: Sequence[str]
    ) -> pa.RecordBatch:
        """A batch of changes from the log, in its order."""
        columns: Columns = {
            "key": lambda: self._objects.key(changes, types, key),
            "value": lambda: self._change_values(changes, types),
            "table": lambda: constant(str(changes.relation), len(changes), pa.string()),
            **change_position(changes),
        }
        return batch_of(self._schema, columns)

    def _snapshot_values(
        self,
        table: TableName,
        types: Mapping[str, PgType],
        texts: Mapping[str, pa.Array],
        *,
        rows: int,
        lsn: int,
    ) -> pa.Array:
        now = self._now_ns()
        after = self._objects.rows(texts, types, rows=rows, table=str(table))
        return joined(
            '{"before":null,"after":',
            after,
            self._source_start()
            + f"{now // 1_000_000}{self._source_middle('true')}{lsn}"
            + rf'\",\"0\"]","ts_us":{now // 1000},"ts_ns":{now}'
            + _source_table(table.schema, table.name)
            + f'null,"lsn":{lsn}{_SOURCE_END}r{_ends(now)}',
        )

    def _change_values(self, changes: DeliveredChanges, types: Mapping[str, PgType]) -> pa.Array:
        now = self._now_ns()
        lsn = _texts(changes.lsn)
        has_before = changes.has_before & (changes.op != CREATE)
        before = self._objects.before(changes, types, has_before=has_before)
        return joined(
            '{"before":',
            JsonTexts(before).complete(),
            ',"after":',
            JsonTexts(self._objects.after(changes, types)).complete(),
            self._source_start(),
            _texts(changes.committed_at // 1000),
            self._source_middle("false"),
            lsn,
            r"\",\"",
            _texts(changes.seq),
            r'\"]","ts_us":',
            _texts(changes.committed_at),
            ',"ts_ns":',
            _texts(changes.committed_at * 1000),
            _source_table(changes.relation.schema, changes.relation.name),
            _texts(changes.xid & _MOST_BITS),
            ',"lsn":',
            lsn,
            _SOURCE_END,
            op_texts(changes.op),
            _ends(now),
        )

    def _source_start(self) -> str:
        return (
            f',"source":{{"version":{quoted(f"flip27-source {__version__}")},"connector":"postgresql",'
            f'"name":{quoted(self._topic_prefix)},"ts_ms":'
        )

    def _source_middle(self, snapshot: str) -> str:
        return rf',"snapshot":"{snapshot}","db":{quoted(self._database)},"sequence":"[\"'


_SOURCE_END = ',"xmin":null,"origin":null,"origin_lsn":null},"transaction":null,"op":"'


def _source_table(schema: str, name: str) -> str:
    return f',"schema":{quoted(schema)},"table":{quoted(name)},"txId":'


def _ends(now: int) -> str:
    return f'","ts_ms":{now // 1_000_000},"ts_us":{now // 1000},"ts_ns":{now}}}'


def _texts(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    return pa.array(numbers).cast(pa.string())
