"""What an existing publication leaves out of the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flip27_source.enumerators.postgres.split import TableName
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import DiscoveryError

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection

_log = logging.getLogger(__name__)

_SCOPE = """
SELECT p.pubviaroot,
       array_remove(ARRAY[
           CASE WHEN NOT pubinsert THEN 'insert' END, CASE WHEN NOT pubupdate THEN 'update' END,
           CASE WHEN NOT pubdelete THEN 'delete' END, CASE WHEN NOT pubtruncate THEN 'truncate' END], NULL),
       (SELECT array_agg(c.oid::regclass::text) FROM pg_class c
        WHERE c.oid = ANY(%s::bigint[]::oid[]) AND c.relkind = 'p'),
       (SELECT array_agg(r.prrelid::regclass::text) FROM pg_publication_rel r
        WHERE r.prpubid = p.oid AND r.prrelid = ANY(%s::bigint[]::oid[])
          AND coalesce(to_jsonb(r) ->> 'prqual', to_jsonb(r) ->> 'prattrs') IS NOT NULL)
FROM pg_publication p WHERE p.pubname = %s
"""


def check_scope(connection: Connection, name: str, tables: Sequence[TableName]) -> None:
    """Warn of what the publication leaves out; a publication that does not exist leaves out nothing.

    Raises:
        DiscoveryError: changes of a partitioned table would have the names of its partitions.
    """
    oids = [table.oid for table in tables]
    row = connection.execute(_SCOPE, [oids, oids, name]).fetchone()
    if row is None:
        return
    is_via_root, left_out, partitioned, cut = row
    if partitioned and not is_via_root:
        raise DiscoveryError(
            f"publication {name} has publish_via_partition_root off, and {', '.join(partitioned)} is "
            "partitioned: the log names its partitions",
            remedy=f"ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true);",
        )
    if left_out:
        _log.warning(
            "publication %s leaves out every %s: what is read differs from the tables",
            name,
            ", ".join(left_out),
        )
    if cut:
        _log.warning(
            "publication %s has only some rows or columns of %s; the snapshot has all", name, ", ".join(cut)
        )
