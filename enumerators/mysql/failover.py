"""Where the log of another server continues that of the server before: after the transactions that were read.

They are found by their GTIDs, as a replica of MariaDB finds them. Nothing here changes the state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from flip27_source.enumerators.mysql.connection import Connection, connect, place, rows_of, variable
from flip27_source.enumerators.mysql.dump import file_began, log_blocks
from flip27_source.enumerators.mysql.errors import START_AGAIN, NotInTheLogError, ServerError
from flip27_source.enumerators.mysql.event_blocks import GTID
from flip27_source.enumerators.mysql.server import gtids_at, log_end, log_written_to
from flip27_source.enumerators.mysql.split import by_domain, failovers_of, parse_gtids, position_text
from flip27_source.enumerators.mysql.state import MysqlState
from flip27_source.errors import DataLossError, DiscoveryError
from flip27_source.options import Options


def failover(
    connection: Connection,
    options: Options,
    state: MysqlState,
    *,
    server: str,
    report_data_loss: Callable[..., None],
) -> MysqlState:
    """The state from which to go on in the log of another server.

    Raises:
        DataLossError: the server does not have what was read, or its log was deleted before it was read.
    """
    needed = state.gtids + (state.chunk_gtids if state.chunks_to > state.start else ())
    logged = check_has(connection, options, needed)
    end = log_end(connection, failovers=failovers_of(state.start) + 1)
    before_first = by_domain(gtids_at(connection, end.log, end.first) or ())
    ours = by_domain(state.gtids)
    own = tuple(gtid for domain, gtid in before_first.items() if domain not in ours)
    if own:
        report_data_loss(
            f"the log of {place(options)} no longer has its own transactions up to {', '.join(own)}, of "
            "domains that the server before did not have",
            remedy=f"{START_AGAIN}; or set onDataLoss=report if they have not changed the tables",
        )
    gtids = (*state.gtids, *own)
    try:
        start, later = start_after(connection, options, gtids, log=end.log, first=end.first)
        skips = tuple(gtid for gtid in later if gtid in logged)
    except NotInTheLogError:
        report_data_loss(
            f"the log of {place(options)} no longer has its log from the transactions after "
            f"{', '.join(gtids)} on, which another server had: it begins at {position_text(end.first)}",
            remedy=f"{START_AGAIN}; and keep the log for longer (binlog_expire_logs_seconds)",
        )
        start, gtids, skips = end.first, tuple((ours | before_first).values()), ()
    began = file_began(options, log=end.log, position=start)
    return replace(state, server=server, log=end.log, start=start, file_began=began, gtids=gtids, skips=skips)


def gtids_in(connection: Connection, name: str) -> tuple[str, ...]:
    """The GTIDs in a variable of the server."""
    return parse_gtids(variable(connection, name))


def check_has(connection: Connection, options: Options, gtids: Iterable[str]) -> Collection[str]:
    """Check that the server has these transactions, and return those that its log has or had.

    It may have others without their log, from a copy of the other server.
    """
    state = [gtid.rpartition("-") for gtid in gtids_in(connection, "gtid_binlog_state")]
    newest = {source: int(number) for source, _, number in state}
    copied = gtids_in(connection, "gtid_slave_pos")
    parts = {gtid: gtid.rpartition("-") for gtid in gtids}
    logged = {gtid for gtid, (source, _, number) in parts.items() if int(number) <= newest.get(source, -1)}
    lacking = sorted(parts.keys() - logged - {*copied})
    if lacking:
        raise DataLossError(
            f"{place(options)} does not have transaction {lacking[0]}, which was read on the server before: "
            "it follows that server and is still behind, or the transaction was lost at the failover",
            remedy="connect to a server that has it (log_slave_updates=ON), or wait until this one has it; "
            f"or {START_AGAIN}; onDataLoss=report does not help",
        )
    return logged


def start_at(
    connection: Connection, options: Options, given: str, *, log: str, first: int
) -> tuple[int, tuple[str, ...]]:
    """As :func:`start_after`, for the GTIDs of an option.

    Raises:
        DiscoveryError: the log has no such domain.
    """
    known = by_domain(gtids_in(connection, "gtid_binlog_state"))
    if unknown := by_domain(parse_gtids(given)).keys() - known:
        raise DiscoveryError(
            f"option startingPosition is {given}, and the log has no domain {min(unknown)}",
            remedy=f"name transactions of these domains: {', '.join(sorted(known))}",
        )
    return start_after(connection, options, parse_gtids(given), log=log, first=first)


def start_after(
    connection: Connection, options: Options, gtids: Collection[str], *, log: str, first: int
) -> tuple[int, tuple[str, ...]]:
    """Where the first transaction begins in the log of this server that is not one of these, or before them,
    each in its domain; and those of them that come later.

    Raises:
        NotInTheLogError: the log no longer has all of the later transactions.
    """
    # Before the log is searched: what is written meanwhile comes later.
    written_to = log_written_to(connection, failovers=failovers_of(first))
    with connect(options) as stream:
        _send_after(stream, gtids)
        blocks = log_blocks(stream, options, log=log, first=first)
        # Events that are made for the replica have no position.
        begins = (one.positions[(one.kinds == GTID) & (one.ends & 0xFFFFFFFF > 0)] for one in blocks)
        start = next((int(found[0]) for found in begins if len(found)), written_to)
    if start == written_to:
        check_sent(connection, gtids, log=log, first=first, end=start)
    before = gtids_at(connection, log, start) or ()
    return start, tuple(gtid for gtid in by_domain(gtids).values() if gtid not in before)


def check_sent(connection: Connection, gtids: Collection[str], *, log: str, first: int, end: int) -> None:
    """Check that the server has sent its log from a position to another one, but for events to leave out.

    If the thread that sends it is killed (KILL QUERY), the log seems to end.

    Args:
        gtids: of some domains, the last transaction that was sent or is to be left out.

    Raises:
        ServerError: it has sent less.
    """
    before, there = (gtids_at(connection, log, position) for position in (first, end))
    if there is None or not {*there} <= {*(before or ()), *gtids}:
        raise ServerError(
            f"the server has ended its log early, before {position_text(end)}",
            remedy="nothing is lost: it is repeated; do not kill the threads that send the log",
        )


def skip(connection: Connection, skips: Collection[str], *, log: str, position: int) -> Collection[str]:
    """Let the server leave out of the log from a position on what was read on another server.

    Args:
        skips: see MysqlState.

    Returns:
        Those of them that the log has before the position: nothing of their domains is left out any more.
    """
    if not skips:
        return ()
    there = gtids_at(connection, log, position)
    assert there is not None, f"no event of {log} begins at {position_text(position)}"
    left = {*skips} - {*there}
    if left:
        _send_after(connection, (by_domain(there) | by_domain(left)).values())
    return {*skips} - left


def _send_after(connection: Connection, gtids: Iterable[str]) -> None:
    """Let the server send its log as to a replica that has everything up to these transactions."""
    rows_of(connection, "SET @slave_connect_state = %s", [",".join(gtids)])
