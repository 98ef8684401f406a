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

import pyarrow as pa

from flip27_source._version import __version__
from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres import schema as names
from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.options import Options
from flip27_source.readers.changes.json_objects import JsonTexts, joined, quoted
from flip27_source.readers.changes.rows import Op, batch_of, check_columns, op_texts
from flip27_source.readers.postgres.change_rows import change_columns
from flip27_source.readers.postgres.debezium_values import debezium_encoder, placeholder
from flip27_source.readers.postgres.delivered_changes import DeliveredChanges
from flip27_source.readers.postgres.envelope_rows import JsonObjects
from flip27_source.readers.scalars.text_bytes import Int64s

_MOST_BITS = 0xFFFFFFFF


class DebeziumRows:
    """Makes the batches of ``DEBEZIUM_SCHEMA``, or of some of its columns.

    Args:
        topic_prefix: the name of the source.
        decimal_handling, interval_handling: the values of Debezium's options for these types.
        now_ns: returns the time in nanoseconds since 1970 UTC.
    """

    columns_read = None

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
        database = options.require(opts.DATABASE, why="the postgres source reads the tables of one database")
        return cls(
            schema,
            database=database,
            topic_prefix=options[opts.TOPIC_PREFIX] or database,
            decimal_handling=options[opts.DECIMAL_HANDLING],
            interval_handling=options[opts.INTERVAL_HANDLING],
        )

    def batch(
        self, changes: DeliveredChanges, types: Mapping[str, PgType], *, key: Sequence[str]
    ) -> pa.RecordBatch:
        columns = {
            "key": lambda: self._objects.key(changes, types, key),
            "value": lambda: self._values(changes, types),
            **change_columns(changes),
        }
        return batch_of(self._schema, columns)

    def _values(self, changes: DeliveredChanges, types: Mapping[str, PgType]) -> pa.Array:
        now = self._now_ns()
        processed_at = f'"ts_ms":{now // 1_000_000},"ts_us":{now // 1000},"ts_ns":{now}'
        relation = changes.relation
        xid: str | pa.Array
        if changes.is_chunk:
            times, snapshot = [str(now // 1_000_000), str(now // 1000), str(now)], "true"
            lsn, seq, xid, op = str(changes.lsn[0]), "0", "null", "r"
        else:
            committed_at = changes.committed_at
            times = [_texts(committed_at // 1000), _texts(committed_at), _texts(committed_at * 1000)]
            snapshot = "false"
            lsn, seq, xid = _texts(changes.lsn), _texts(changes.seq), _texts(changes.xid & _MOST_BITS)
            op = op_texts(changes.op)
        has_before = changes.has_before & (changes.op != Op.CREATE)
        before = (
            JsonTexts(self._objects.before(changes, types, has_before=has_before)).complete()
            if has_before.any()
            else "null"
        )
        return joined(
            '{"before":',
            before,
            ',"after":',
            JsonTexts(self._objects.after(changes, types)).complete(),
            f',"source":{{"version":{quoted(f"flip27-source {__version__}")},"connector":"postgresql",',
            f'"name":{quoted(self._topic_prefix)},"ts_ms":',
            times[0],
            rf',"snapshot":"{snapshot}","db":{quoted(self._database)},"sequence":"[\"',
            lsn,
            r"\",\"",
            seq,
            r'\"]","ts_us":',
            times[1],
            ',"ts_ns":',
            times[2],
            f',"schema":{quoted(relation.schema)},"table":{quoted(relation.name)},"txId":',
            xid,
            ',"lsn":',
            lsn,
            ',"xmin":null,"origin":null,"origin_lsn":null},"transaction":null,"op":"',
            op,
            f'",{processed_at}}}',
        )


def _texts(numbers: Int64s) -> pa.Array:
    return pa.array(numbers).cast(pa.string())
