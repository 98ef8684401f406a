"""Positions in the logs of several servers as one number that grows, and GTIDs."""

from __future__ import annotations

import pytest

from flip27_source.enumerators.mysql.split import (
    MOST_FAILOVERS,
    TableName,
    by_domain,
    failovers_of,
    file_and_offset,
    parse_gtids,
    parse_position,
    position_of,
    position_text,
)
from flip27_source.errors import DiscoveryError


def test_a_position_without_a_failover_is_the_file_and_the_offset() -> None:
    position = position_of("binlog.000017", 1234)
    assert position == 17 * 2**32 + 1234 == parse_position("000017:1234")
    assert (failovers_of(position), position_text(position)) == (0, "000017:1234")


def test_positions_grow_with_each_failover() -> None:
    last = position_of("binlog.8388607", 2**32 - 1, failovers=1)
    next_server = position_of("log.000001", 4, failovers=2)
    assert last < next_server < 2**63
    assert (failovers_of(next_server), position_text(next_server)) == (2, "000001:4 (failover 2)")
    assert file_and_offset("log", next_server) == ("log.000001", 4)
    assert position_of("log.8388607", 2**32 - 1, failovers=MOST_FAILOVERS) == 2**63 - 1


@pytest.mark.parametrize(
    ("file", "offset", "failovers"),
    [("binlog.8388608", 4, 0), ("binlog.000001", 4, 256), ("binlog.000001", 2**32, 0)],
)
def test_a_position_that_is_too_large_is_refused(file: str, offset: int, failovers: int) -> None:
    with pytest.raises(DiscoveryError, match=r"has no position after .*: files are counted to 8388607"):
        position_of(file, offset, failovers=failovers)


def test_texts_of_tables_are_all_different() -> None:
    names = [("shop", "orders"), ("x.y", "z"), ("x", "y.z"), ("x", "z.1"), ("`x", "y`.z"), ("x.y`", "z")]
    texts = ["shop.orders", "`x.y`.z", "x.`y.z`", "x.`z.1`", "```x`.`y``.z`", "`x.y```.z"]
    assert [str(TableName(schema=schema, name=name)) for schema, name in names] == texts


def test_the_last_gtid_of_each_domain_counts() -> None:
    assert parse_gtids(None) == parse_gtids("") == ()
    assert by_domain(parse_gtids("0-1-42, 5-2-7,0-2-43")) == {"0": "0-2-43", "5": "5-2-7"}
