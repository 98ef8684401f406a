"""What the mysql enumerator stores. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flip27_source.enumerators.mysql.split import LogRead, MysqlSplit, Prepared, TableName, Tables, by_domain
from flip27_source.enumerators.tables_with_log.enumerator import ReadingState
from flip27_source.snapshot_then_log.assigner import PositionAssigner

Assigner = PositionAssigner[TableName]


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlState(ReadingState):
    """The state of the enumerator.

    Attributes:
        start, log_assigned, returned, chunks_read: see ReadingState.
        server: the identity of the server.
        log: the name of the log's files, without their numbers; None with ``snapshot=only``.
        gtids: the last transaction of each domain before ``start``.
        file_began: when the server began the file in which ``start`` is, in seconds since 1970 UTC.
        skips: those of them that come after ``start`` in this log, because the log of the server before had
            its domains in another order: the server skips transactions up to them.
        prepared: the XA transactions that were prepared in the log up to ``start``.
        chunks_to: the newest position at which a chunk was read.
        chunk_gtids: that chunk has no transaction after these.
    """

    server: str
    log: str | None
    assigner: Tables
    gtids: tuple[str, ...] = ()
    file_began: int | None = None
    skips: tuple[str, ...] = ()
    prepared: Prepared = ()
    chunks_to: int = 0
    chunk_gtids: tuple[str, ...] = ()
    returned: tuple[MysqlSplit, ...] = ()

    def after(self, read: LogRead) -> MysqlState:
        found = by_domain(read.gtids)
        gtids = tuple((by_domain(self.gtids) | found).values())
        # Where the window has transactions of a domain, those to skip come before them.
        skips = tuple(gtid for domain, gtid in by_domain(self.skips).items() if domain not in found)
        facts = replace(self, start=read.end, file_began=read.file_began, prepared=read.prepared)
        return replace(facts, gtids=gtids, skips=skips)
