"""A server that ends its log early, because the thread that sends it was killed: nothing is taken as read."""

from __future__ import annotations

import pytest

from flip27_source.errors import Flip27Error
from tests.enumerators.mysql.reading import query
from tests.mysql_server import MysqlServer

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
