"""What waits on a PostgreSQL server, for people: it is only asked, and its log is not decoded.

Decoding needs the slot, which the query may be reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flip27_source.enumerators.postgres import server
from flip27_source.enumerators.postgres.connection import checked, connect
from flip27_source.enumerators.postgres.own_slot import own_slot_name
from flip27_source.enumerators.postgres.split import PostgresSplit, lsn_text
from flip27_source.enumerators.postgres.state import PostgresState
from flip27_source.options import Options
from flip27_source.source_progress import Cell, ProgressTable


def looked_at(
    options: Options,
    state: PostgresState | None,
    live: Sequence[PostgresSplit],
    position_of: Callable[[PostgresState, Sequence[PostgresSplit]], int],
) -> ProgressTable:
    """The end of the log, and the slot of the query.

    Args:
        position_of: up to where the log is in batches.

    Raises:
        ServerError: the server cannot be reached, or refuses an answer.
    """
    name = own_slot_name(options, state)
    if state is None or name is None:
        return ProgressTable(title="in the source", said="no log is read")
    with connect(options, purpose="look") as connection:
        end, slot = checked(
            options,
            "querying the log",
            lambda: (server.log_end(connection), server.slot_of(connection, name)),
        )
    at = position_of(state, live)
    rows: list[tuple[str, Cell]] = [
        ("read up to", lsn_text(at)), ("ends at", lsn_text(end)), ("bytes after it", max(0, end - at)),
    ]  # fmt: skip
    said = f"{max(0, end - at):,} bytes of log, of all tables, after {lsn_text(at)}"
    if slot is None:
        said += f"; slot {name} does not exist"
    else:
        said += f"; slot {name} keeps {slot.kept_bytes:,} bytes of WAL ({slot.wal_status})"
        rows += [
            ("slot", name), ("confirmed up to", lsn_text(slot.confirmed)),
            ("WAL that it keeps, bytes", slot.kept_bytes), ("its WAL is", slot.wal_status),
            ("read by process", slot.active_pid),
        ]  # fmt: skip
    return ProgressTable(title="in the source", said=said, columns=("log", "now"), rows=rows)
