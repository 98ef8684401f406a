"""Changes that the log does not have because the publication was missing when they were made.

Since PostgreSQL 18 a peek only warns of this and leaves the changes out; in older versions the peek fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection

_NOT_IN_PREREQUISITE_STATE = "55000"


@contextmanager
def publication_gaps(connection: Connection) -> Iterator[list[str]]:
    """The server's warnings about missing publications, in a list that grows while the connection is used.

    The session must not hide warnings (``client_min_messages``).
    """
    found: list[str] = []

    def notice(diagnostic: Any) -> None:
        if diagnostic.sqlstate == _NOT_IN_PREREQUISITE_STATE:
            found.append(str(diagnostic.message_primary))

    connection.add_notice_handler(notice)
    try:
        yield found
    finally:
        connection.remove_notice_handler(notice)
