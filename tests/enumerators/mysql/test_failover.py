"""A query continues on another server that has what it has read: a replica that was promoted, or the former
primary. Two real servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from flip27_source.errors import DataLossError, DiscoveryError, Flip27Error
from flip27_source.testing import Crashed, Step
from tests.deadline import until
from tests.enumerators.mysql.reading import Query, fails, query, values_of
from tests.mysql_server import MysqlServer, mysql_server
from tests.postgres_server import free_port

ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20))"
SEVEN = "INSERT INTO orders VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d'),(5,'e'),(6,'f'),(7,'g')"


class Pair:
    """A primary and a replica that follows it."""

    def __init__(self, first: MysqlServer, second: MysqlServer) -> None:
        self.primary, self.replica = first, second
        second.follow(first)

    def wait(self) -> None:
        self.replica.catch_up_with(self.primary)

    def switch(self, orders: Query, *, waits: bool = True) -> None:
        """Make the replica the primary, and the query read it."""
        if waits:
            self.wait()
        self.replica.promote()
        self.primary, self.replica = self.replica, self.primary
        orders.move_to(self.primary)

    def kill(self, orders: Query) -> None:
        """Kill the primary once the replica has everything, and promote the replica."""
        self.wait()
        self.primary.kill()
        self.switch(orders, waits=False)


@pytest.fixture
def pair() -> Iterator[Pair]:
    settings = {"log_slave_updates": "ON"}
    with mysql_server(**settings) as first, mysql_server(server_id="2", **settings) as second:
        yield Pair(first, second)


@pytest.fixture
def orders(pair: Pair) -> Iterator[Query]:
    """A table of seven rows, in chunks of three."""
    with query(pair.primary, ORDERS, SEVEN) as found:
        yield found


def failovers(changes: list[dict[str, Any]]) -> list[int]:
    """After how many failovers each change was read, by its position."""
    return [change["_pos"] >> 55 for change in changes]


def test_the_log_is_read_on_where_the_former_primary_ended(pair: Pair, orders: Query) -> None:
    orders.batches()
    assert failovers(orders.write("INSERT INTO orders VALUES (8, 'h')")) == [0]
    orders.execute("UPDATE orders SET v = 'unread' WHERE id < 3")
    pair.kill(orders)
    orders.execute("DELETE FROM orders WHERE id = 7", "INSERT INTO orders VALUES (9, 'i')")
    seen = len(orders.engine.rows)
    orders.catch_up()
    changes = orders.changes_from(seen)
    assert values_of(changes, "_op", "id") == [("u", 1), ("u", 2), ("d", 7), ("c", 9)]
    assert failovers(changes) == [1, 1, 1, 1]
    orders.check_copy()


def test_nothing_is_read_twice_if_nothing_happened_since(pair: Pair, orders: Query) -> None:
    orders.batches()
    orders.write("INSERT INTO orders VALUES (8, 'h')")
    pair.switch(orders)
    assert orders.write() == []
    assert values_of(orders.write("INSERT INTO orders VALUES (9, 'i')"), "_op", "id") == [("c", 9)]


def test_the_first_server_is_read_again_when_it_is_the_primary_again(pair: Pair, orders: Query) -> None:
    orders.batches()
    for number in range(3):
        orders.write(f"INSERT INTO orders VALUES ({10 + number}, 'x')")
        former = pair.primary
        pair.switch(orders)
        former.follow(pair.primary)
        changes = orders.write(f"UPDATE orders SET v = '{number}' WHERE id = 2")
        assert failovers(changes) == [number + 1]
    orders.check_copy()


def test_a_running_query_notices_that_another_server_has_taken_the_address(pair: Pair, orders: Query) -> None:
    orders.batches()
    orders.execute("UPDATE orders SET v = 'z' WHERE id = 1")
    pair.wait()
    pair.replica.promote()
    pair.primary.stop()
    pair.replica.restart(extra_port=str(pair.primary.port), extra_max_connections="100")
    orders.server = pair.replica
    orders.reconnect()
    orders.execute("DELETE FROM orders WHERE id = 2")

    def has_read_all() -> bool:
        orders.batches()
        return len(orders.engine.rows) == 9

    until(has_read_all, lambda: f"{len(orders.engine.rows)} rows were read")
    assert failovers(orders.changes_from(7))[-1] == 1
    orders.check_copy()


def test_a_replica_that_takes_host_and_port_is_another_server(pair: Pair, orders: Query) -> None:
    """Both servers have the same server_uid, which MariaDB makes of the port and the network card."""
    orders.batches()
    orders.write("INSERT INTO orders VALUES (8, 'h')")
    pair.wait()
    pair.primary.stop()
    pair.replica.promote()
    pair.replica.stop()
    pair.replica.port = pair.primary.port
    pair.replica.start()
    orders.server = pair.replica
    orders.reconnect()
    changes = orders.write("DELETE FROM orders WHERE id = 2")
    assert (values_of(changes, "_op", "id"), failovers(changes)) == ([("d", 2)], [1])


@pytest.mark.parametrize("step", [Step.PLANNED, Step.TASKS_ENDED])
@pytest.mark.parametrize("reads_chunks", [True, False])
def test_a_server_that_is_started_again_on_another_port_is_the_same_server(
    reads_chunks: bool, step: Step
) -> None:
    with mysql_server() as server, query(server, ORDERS, SEVEN, maxRowsPerTrigger="3") as orders:
        if not reads_chunks:
            orders.catch_up()
            orders.engine.restart()
        orders.execute("UPDATE orders SET v = 'x' WHERE id IN (1, 5)")
        orders.until_planned()
        with pytest.raises(Crashed):
            orders.engine.run_batch(crash_at=step)
        orders.execute("UPDATE orders SET v = 'y' WHERE id IN (2, 6)")
        server.stop()
        server.port = free_port()
        server.start()
        orders.move_to(server)
        orders.batches()
        orders.catch_up()
        # A chunk that is read again has newer rows, whose changes come too.
        orders.check_copy(is_exact=not reads_chunks)
        assert {*failovers(orders.changes_from())} == {0}


def test_a_snapshot_goes_on_on_the_other_server(pair: Pair, orders: Query) -> None:
    orders.engine.restart(options={"maxRowsPerTrigger": "3"})
    orders.until_planned()
    orders.engine.run_batch()
    orders.execute("UPDATE orders SET v = 'x' WHERE id IN (1, 5)", "DELETE FROM orders WHERE id = 6")
    pair.kill(orders)
    orders.execute("INSERT INTO orders VALUES (0, 'o'), (9, 'p')", "DELETE FROM orders WHERE id = 2")
    orders.batches()
    orders.catch_up()
    orders.check_copy()


def test_changes_that_a_chunk_has_already_may_come_again(pair: Pair, orders: Query) -> None:
    orders.engine.restart(options={"maxRowsPerTrigger": "3"})
    orders.until_planned()
    orders.execute("UPDATE orders SET v = 'x'", "DELETE FROM orders WHERE id = 3")
    orders.engine.run_batch()
    orders.execute("UPDATE orders SET v = 'y' WHERE id IN (1, 5)")
    pair.kill(orders)
    orders.execute("DELETE FROM orders WHERE id = 2")
    orders.batches()
    orders.catch_up()
    orders.check_copy(is_exact=False)


@pytest.mark.parametrize("step", [Step.PLANNED, Step.REPORT_WRITTEN, Step.TASKS_ENDED])
def test_a_batch_of_chunks_is_repeated_on_the_other_server(pair: Pair, orders: Query, step: Step) -> None:
    orders.until_planned()
    with pytest.raises(Crashed):
        orders.engine.run_batch(crash_at=step)
    orders.execute("UPDATE orders SET v = 'x' WHERE id IN (1, 5)", "DELETE FROM orders WHERE id = 6")
    pair.kill(orders)
    orders.execute("INSERT INTO orders VALUES (0, 'o')", "DELETE FROM orders WHERE id = 2")
    orders.batches()
    orders.catch_up()
    orders.check_copy(is_exact=False)


def test_a_planned_window_is_read_on_the_other_server(pair: Pair, orders: Query) -> None:
    orders.batches()
    orders.execute("UPDATE orders SET v = 'x' WHERE id IN (1, 5)")
    orders.until_planned()
    pair.kill(orders)
    orders.execute("DELETE FROM orders WHERE id = 2")
    orders.batches()
    orders.catch_up()
    orders.check_copy()


def test_a_window_that_was_read_and_is_repeated_on_the_other_server_is_refused(
    pair: Pair, orders: Query
) -> None:
    orders.batches()
    orders.execute("UPDATE orders SET v = 'x' WHERE id IN (1, 5)")
    orders.until_planned()
    with pytest.raises(Crashed):
        orders.engine.run_batch(crash_at=Step.TASKS_ENDED)
    pair.switch(orders)
    fails(orders, Flip27Error, "was read on another server before")
    pair.replica.follow(pair.primary)
    pair.switch(orders)
    orders.batches()
    orders.check_copy()


def test_a_replica_that_lacks_what_was_read_is_a_data_loss(pair: Pair, orders: Query) -> None:
    orders.batches()
    pair.wait()
    pair.replica.execute("STOP SLAVE")
    orders.write("INSERT INTO orders VALUES (8, 'lost')")
    ((lost,),) = orders.execute("SELECT @@gtid_binlog_pos")
    pair.switch(orders, waits=False)
    fails(orders, DataLossError, f"does not have transaction {lost}")
    orders.execute("INSERT INTO orders VALUES (9, 'i')", "INSERT INTO orders VALUES (10, 'j')")
    fails(orders, DataLossError, f"does not have transaction {lost}")


def test_a_replica_that_lacks_what_a_chunk_has_is_a_data_loss(pair: Pair, orders: Query) -> None:
    orders.until_planned()
    pair.wait()
    pair.replica.execute("STOP SLAVE")
    orders.execute("INSERT INTO orders VALUES (0, 'lost')")
    ((lost,),) = orders.execute("SELECT @@gtid_binlog_pos")
    orders.engine.run_batch()
    pair.switch(orders, waits=False)
    fails(orders, DataLossError, f"does not have transaction {lost}")


@pytest.mark.parametrize("most_bytes", ["1b", "1g"])
def test_transactions_of_several_domains_are_read_once_in_whatever_order_a_replica_has_them(
    pair: Pair, orders: Query, most_bytes: str
) -> None:
    orders.batches()
    orders.engine.restart(options={"maxBytesPerTrigger": most_bytes})
    pair.wait()
    # Each domain is applied on its own, so that the replica has the second domain's transactions first.
    name = orders.options["database"]
    domains = "IGNORE_DOMAIN_IDS"
    pair.replica.execute("STOP SLAVE", f"CHANGE MASTER TO {domains}=(0)", "START SLAVE")
    orders.write("UPDATE orders SET v = 'first' WHERE id = 1")
    orders.execute(
        "SET SESSION gtid_domain_id = 5",
        "UPDATE orders SET v = 'second' WHERE id = 2",
        "UPDATE orders SET v = 'third' WHERE id = 3",
        "SET SESSION gtid_domain_id = 0",
    )
    pair.replica.execute("STOP SLAVE", f"CHANGE MASTER TO {domains}=()")
    pair.replica.execute(
        f"USE {name}",
        "SET SESSION server_id = 1, gtid_domain_id = 5, gtid_seq_no = 1",
        "UPDATE orders SET v = 'second' WHERE id = 2",
        "SET SESSION gtid_seq_no = 2",
        "UPDATE orders SET v = 'third' WHERE id = 3",
    )
    ((read,),) = orders.execute("SELECT @@gtid_binlog_pos")
    (first,) = (gtid for gtid in read.split(",") if gtid.startswith("0-"))
    pair.replica.execute(
        f"USE {name}",
        f"SET SESSION server_id = 1, gtid_domain_id = 0, gtid_seq_no = {first.rpartition('-')[2]}",
        "UPDATE orders SET v = 'first' WHERE id = 1",
    )
    pair.switch(orders, waits=False)
    changes = orders.write("UPDATE orders SET v = 'last' WHERE id = 4")
    assert values_of(changes, "id", "v") == [(2, "second"), (3, "third"), (4, "last")]
    assert orders.write() == []
    orders.check_copy()


@pytest.mark.parametrize("is_followed", [False, True], ids=["to the end", "and another file follows"])
@pytest.mark.parametrize("most_bytes", ["1b", "600b", "1g"])
def test_what_a_replica_has_among_transactions_that_were_read_is_read_once(
    pair: Pair, orders: Query, most_bytes: str, *, is_followed: bool
) -> None:
    orders.batches()
    pair.wait()
    pair.replica.promote()
    orders.engine.restart(options={"maxBytesPerTrigger": most_bytes})
    use = f"USE {orders.options['database']}"
    fifth, zeroth = (f"INSERT INTO orders VALUES ({{}}, '{domain}')" for domain in ("five", "zero"))
    in_five, in_zero = "SET SESSION gtid_domain_id = 5", "SET SESSION gtid_domain_id = 0"
    orders.execute(in_five, fifth.format(50), in_zero, zeroth.format(60), zeroth.format(61))
    orders.catch_up()
    ((read,),) = orders.execute("SELECT @@gtid_binlog_pos")
    (newest,) = (int(gtid.rpartition("-")[2]) for gtid in read.split(",") if gtid.startswith("0-"))

    def applied(domain: int, number: int, insert: str) -> list[str]:
        return [f"SET SESSION server_id = 1, gtid_domain_id = {domain}, gtid_seq_no = {number}", insert]

    pair.replica.execute(
        use,
        *(one for number in (1, 2, 3) for one in applied(5, number, fifth.format(49 + number))),
        *applied(0, newest - 1, zeroth.format(60)),
        *applied(5, 4, fifth.format(53)),
        *applied(0, newest, zeroth.format(61)),
        *(applied(0, newest + 1, zeroth.format(62)) if is_followed else ()),
        *(["FLUSH BINARY LOGS"] if is_followed else ()),
    )
    seen = len(orders.engine.rows)
    pair.switch(orders, waits=False)
    orders.catch_up()
    orders.catch_up()
    found = [(51, "five"), (52, "five"), (53, "five"), *([(62, "zero")] if is_followed else [])]
    assert values_of(orders.changes_from(seen), "id", "v") == found
    assert values_of(orders.write("INSERT INTO orders VALUES (70, 'last')"), "id") == [(70,)]


def test_the_other_servers_own_transactions_are_read_too(pair: Pair, orders: Query) -> None:
    orders.batches()
    orders.write("UPDATE orders SET v = 'x' WHERE id = 1")
    pair.wait()
    name = orders.options["database"]
    pair.replica.execute(
        f"USE {name}", "SET SESSION gtid_domain_id = 7", "INSERT INTO orders VALUES (70, 'own')"
    )
    orders.write("UPDATE orders SET v = 'y' WHERE id = 1")
    pair.switch(orders)
    changes = orders.write("UPDATE orders SET v = 'z' WHERE id = 1")
    assert values_of(changes, "_op", "id") == [("c", 70), ("u", 1)]
    orders.check_copy()


def test_own_transactions_that_the_other_servers_log_no_longer_has_are_a_data_loss(
    pair: Pair, orders: Query
) -> None:
    orders.batches()
    pair.wait()
    name = orders.options["database"]
    pair.replica.execute(
        f"USE {name}", "SET SESSION gtid_domain_id = 7", "INSERT INTO orders VALUES (70, 'own')"
    )
    pair.replica.purge_log()
    pair.switch(orders)
    fails(orders, DataLossError, "no longer has its own transactions up to 7-2-1")


def test_what_the_other_servers_log_no_longer_has_is_a_data_loss(pair: Pair, orders: Query) -> None:
    orders.batches()
    orders.write("UPDATE orders SET v = 'x' WHERE id = 1")
    orders.execute("UPDATE orders SET v = 'lost' WHERE id = 2")
    pair.wait()
    pair.replica.purge_log()
    pair.switch(orders)
    fails(orders, DataLossError, "no longer has its log from")


def test_with_on_data_loss_report_reading_goes_on_where_the_other_log_begins(pair: Pair) -> None:
    with query(pair.primary, ORDERS, SEVEN, onDataLoss="report") as orders:
        orders.batches()
        orders.execute("UPDATE orders SET v = 'lost' WHERE id = 2")
        pair.wait()
        pair.replica.purge_log()
        pair.switch(orders)
        changes = orders.write("UPDATE orders SET v = 'kept' WHERE id = 3")
        assert values_of(changes, "_op", "id", "v") == [("u", 3, "kept")]
        assert orders.engine.holder.report()["dataLosses"] == 1


def test_a_replica_whose_log_lacks_what_it_replicates_is_refused() -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(mysql_server(server_id=number)) for number in "12")
        pair = Pair(first, second)
        orders = stack.enter_context(query(first, ORDERS, SEVEN))
        orders.batches()
        pair.wait()
        orders.move_to(second)
        fails(orders, DiscoveryError, "set log_slave_updates=ON in the server's configuration")
        # What it replicates while no query looks is not in its log either.
        second.execute("STOP SLAVE")
        fails(orders, DiscoveryError, "the server is a replica, or was one")
