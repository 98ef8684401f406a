"""What stops a query of the mysql source, and what to do then."""

from __future__ import annotations

from collections.abc import Sequence

from flip27_source.enumerators.mysql.split import TableName, position_text
from flip27_source.errors import DataLossError, Flip27Error, SplitReadError

START_AGAIN = "start a query with a new stateLocation, whose snapshot has all rows"


def left_out(table: TableName) -> str:
    """The remedy for a table that cannot be read."""
    return f"leave the table out: tables=..., -{table}"


class ServerError(Flip27Error):
    """The server cannot be reached, or refused a statement."""


class NotInTheLogError(ServerError):
    """The server's log does not have a position, or not all transactions after some."""


class OtherLogError(DataLossError):
    """The server has another log than the one that was read up to a position."""

    def __init__(self, position: int) -> None:
        super().__init__(
            f"the log was read up to {position_text(position)}, and the server has another one: it was "
            "deleted (RESET MASTER), the server was set back, or another server with the same server_id "
            "answers",
            remedy=f"{START_AGAIN}; onDataLoss=report does not help: there is no log to continue with",
        )


class GoneTableError(DataLossError):
    """A table was dropped or renamed before all of its chunks were read."""

    def __init__(self, table: TableName) -> None:
        super().__init__(f"table {table} no longer exists, and not all of it was read", remedy=START_AGAIN)


class AlteredKeyError(SplitReadError):
    """A table has another key, or it no longer begins with the integers by which chunks are cut."""

    def __init__(self, table: TableName, key: Sequence[str]) -> None:
        super().__init__(
            f"table {table} is read in chunks along {', '.join(key)}, and its primary key was replaced, or "
            "does not begin with these columns of integers any more",
            remedy=f"{START_AGAIN}; or {left_out(table)}",
        )
