"""A MariaDB server on which only the query and the transactions of a story do something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import pytest

from flip27_source.enumerators.mysql import connection
from tests.simulator.mysql_server import Change, MysqlServer, MysqlSession


class MysqlShop(MysqlServer):
    """The server.

    Attributes:
        present: the server on which sessions are opened.
    """

    present: ClassVar[MysqlShop]
    TRANSACTIONS: ClassVar[Sequence[Sequence[Change]]] = (
        [(None, (key, f"c{key}")) for key in range(1, 11)],
        [((1, "c1"), (1, "u1")), ((10, "c10"), (10, "u1"))],
        [((1, "u1"), None), ((10, "u1"), (10, "u2"))],
        [((2, "c2"), (2, "u3")), ((10, "u2"), (10, "u3"))],
        [(None, (11, "c4"))],
    )

    @classmethod
    def opened(cls, transactions: int) -> None:
        """Open a new server after so many transactions."""
        cls.present = cls()
        for _ in range(transactions):
            cls.present.commit_next()

    def commit_next(self) -> None:
        """Commit the next transaction."""
        self.commit(self.TRANSACTIONS[self.committed])


@contextmanager
def mysql_shop() -> Iterator[None]:
    """The server after all transactions."""
    MysqlShop.opened(len(MysqlShop.TRANSACTIONS))
    with pytest.MonkeyPatch.context() as patches:
        session = lambda **_: MysqlSession(MysqlShop.present, lambda: None)  # noqa: E731
        patches.setattr(connection, "_connection_type", lambda: session)
        yield
