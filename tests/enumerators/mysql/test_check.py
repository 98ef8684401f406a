"""What ``flip27 check`` says about a MariaDB server and its tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flip27_source.enumerators.mysql.enumerator import MysqlEnumerator
from flip27_source.options import Options
from flip27_source.source_checks import Finding, Status
from tests.enumerators.mysql.reading import Query, query
from tests.mysql_server import MysqlServer, mysql_server

ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20))"


@pytest.fixture(scope="module")
def own_server() -> Iterator[MysqlServer]:
    with mysql_server() as server:
        yield server


@pytest.fixture
def orders(own_server: MysqlServer) -> Iterator[Query]:
    with query(own_server, ORDERS) as found:
        yield found


def found(options: dict[str, str], **more: str) -> dict[str, Finding]:
    """The findings by the names of their checks."""
    given = {name: text for name, text in {**options, **more}.items() if name in NAMES}
    parsed = Options.parse(given, MysqlEnumerator.options)
    return {finding.check: finding for finding in MysqlEnumerator.check_source(parsed)}


NAMES = {option.name for option in MysqlEnumerator.options}


def test_a_server_and_a_table_that_can_be_read_have_nothing_to_correct(orders: Query) -> None:
    findings = found(orders.options)
    name = f"table {orders.options['database']}.orders"
    assert findings.keys() == {"server", name, "log"}
    assert {finding.status for finding in findings.values()} == {Status.OK}
    assert findings[name].found == "2 columns, read in chunks along id"
    assert "MariaDB" in findings["server"].found


@pytest.mark.parametrize("name", ["binlog_row_metadata", "binlog_row_image"])
def test_a_setting_that_the_log_lacks_is_named(orders: Query, name: str) -> None:
    orders.execute(f"SET GLOBAL {name} = 'MINIMAL'")
    try:
        server = found(orders.options)["server"]
    finally:
        orders.execute(f"SET GLOBAL {name} = 'FULL'")
    assert server.status is Status.FAILED
    assert server.found == f"variable {name} of the server is MINIMAL, and the mysql source needs FULL"


def test_a_log_that_is_soon_deleted_is_a_warning(orders: Query) -> None:
    orders.execute("SET GLOBAL binlog_expire_logs_seconds = 3600")
    try:
        finding = found(orders.options)["age of the log"]
    finally:
        orders.execute("SET GLOBAL binlog_expire_logs_seconds = 0")
    assert finding.status is Status.WARNING


def test_a_former_replica_whose_log_lacks_what_it_replicated_is_refused(orders: Query) -> None:
    assert found(orders.options)["server"].status is Status.OK
    orders.execute("SET GLOBAL gtid_slave_pos = '5-9-1'")
    try:
        finding = found(orders.options)["server"]
    finally:
        orders.execute("SET GLOBAL gtid_slave_pos = ''")
    assert finding.status is Status.FAILED
    assert "set log_slave_updates=ON" in (finding.remedy or "")


def test_rights_that_an_account_lacks_are_named(own_server: MysqlServer, orders: Query) -> None:
    with own_server.account("SELECT, BINLOG MONITOR") as account:
        findings = found(orders.options, user=account.name, password=account.password)
        assert findings["log"].status is Status.FAILED
        assert findings["log"].remedy == "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO <account>"
        only = found(orders.options, user=account.name, password=account.password, snapshot="only")
        assert {finding.status for finding in only.values()} == {Status.OK}


def test_an_unreachable_server_is_one_finding(orders: Query) -> None:
    (finding,) = found(orders.options, port="1").values()
    assert (finding.check, finding.status) == ("server", Status.FAILED)


def test_tables_that_cannot_be_read_are_named(own_server: MysqlServer) -> None:
    with query(own_server, ORDERS, "CREATE TABLE places (id INT PRIMARY KEY, at POINT)") as orders:
        assert found(orders.options, tables="missing")["tables"].status is Status.FAILED
        assert found(orders.options, tables="none_*")["tables"].status is Status.WARNING
        name = f"table {orders.options['database']}.places"
        for change_format in ("typed", "envelope"):
            findings = found(orders.options, tables="*", changeFormat=change_format)
            assert findings[name].status is Status.FAILED
