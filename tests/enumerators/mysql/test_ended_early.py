"""A server that ends its log early, because the thread that sends it was killed: nothing is taken as read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from flip27_source.enumerators.mysql import connection
from flip27_source.enumerators.mysql.errors import ServerError
from flip27_source.enumerators.mysql.failover import start_after
from flip27_source.enumerators.mysql.options import MYSQL_OPTIONS
from flip27_source.errors import Flip27Error
from flip27_source.options import Options
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.mysql.reading import query
from tests.mysql_server import MysqlServer
from tests.simulator.mysql_server import MysqlServer as ModelServer
from tests.simulator.mysql_server import MysqlSession

ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, v LONGTEXT)"
FIRST, LAST = "INSERT INTO orders VALUES (1, REPEAT('x', 9000000))", "INSERT INTO orders VALUES (2, 'last')"
LARGE = f"CREATE OR REPLACE VIEW large AS SELECT '{'x' * 60_000}'"


def test_what_was_not_sent_is_not_taken_as_read(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS) as orders:
        orders.batches()
        # More than the server can send before the first rows are read.
        orders.execute(FIRST, *[LARGE] * 400, LAST)
        orders.until_planned()
        attempt = orders.engine.attempt(orders.engine.partitions()[0])
        assert next(attempt)[0] == 1
        (sender,) = [row[0] for row in orders.execute("SHOW PROCESSLIST") if row[4] == "Binlog Dump"]
        # It ends after its present event, as if the log ended there.
        orders.execute(f"KILL QUERY {sender}")
        with pytest.raises(Flip27Error, match=r"has ended its log early|ends within the transaction"):
            list(attempt)
        orders.batches()
        orders.check_copy()


class EndsEarly(ModelServer):
    """A server with two transactions, which sends no events but the first two when it is asked first.

    Attributes:
        session: one of its sessions; the source opens others.
        within: a position within the first transaction.
    """

    def __init__(self, patches: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.commit([(None, (1, "a")), (None, (2, "b"))])
        self.commit([(None, (3, "c"))])
        self._most: list[int | None] = [2]
        self.within = sum(map(len, self._log[:4]))
        self.session = MysqlSession(self, lambda: None)
        patches.setattr(connection, "_connection_type", lambda: lambda **_: MysqlSession(self, lambda: None))

    def sent(self, position: int) -> Iterator[bytes]:
        return islice(super().sent(position), self._most.pop() if self._most else None)


SHOP = {"host": "127.0.0.1", "port": "1", "database": "shop", "user": "root", "tables": "orders"}


def test_what_another_server_has_not_sent_is_not_taken_as_read(monkeypatch: pytest.MonkeyPatch) -> None:
    server, options = EndsEarly(monkeypatch), Options.parse(SHOP, MYSQL_OPTIONS)
    first = 1 << 32 | 4
    with pytest.raises(ServerError, match="has ended its log early"):
        start_after(server.session, options, ["0-1-1"], log="binlog", first=first)


def test_a_position_within_a_transaction_is_refused_although_the_log_ended_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = EndsEarly(monkeypatch)
    within = f"binlog.000001:{server.within}"
    given = {"enumerator": "mysql", **SHOP, "snapshot": "never", "startingPosition": within}
    with pytest.raises(Flip27Error, match="within the transaction that begins at 000001:80"):
        MicroBatchEngine(given).process_all_available()
