"""Values of all types: the log has them as a SELECT does, for single values and for random ones."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.enumerators.mysql.reading import query, values_of
from tests.mysql_server import MysqlServer

UTC = dt.UTC
LONG = "1234567890123456789012345678.0123456789"

VALUES: list[tuple[str, str, Any]] = [
    ("TINYINT", "-128", -128),
    ("TINYINT UNSIGNED", "255", 255),
    ("BOOLEAN", "TRUE", 1),
    ("SMALLINT", "-32768", -32768),
    ("SMALLINT UNSIGNED", "65535", 65535),
    ("MEDIUMINT", "-8388608", -8388608),
    ("MEDIUMINT UNSIGNED", "16777215", 16777215),
    ("INT", "-2147483648", -(2**31)),
    ("INT UNSIGNED", "4294967295", 2**32 - 1),
    ("BIGINT", "-9223372036854775808", -(2**63)),
    ("BIGINT UNSIGNED", "18446744073709551615", Decimal(2**64 - 1)),
    ("FLOAT", "16777217", 16777216.0),
    ("FLOAT", "1.1", 1.100000023841858),
    ("DOUBLE", "0.1", 0.1),
    ("DOUBLE", "-1.7976931348623157e308", -1.7976931348623157e308),
    # The value that is stored: the text of a SELECT has only some of its digits.
    ("DOUBLE(10, 2)", "-0.57", -0.5700000000000001),
    ("FLOAT(7, 3)", "1.005", 1.0049999952316284),
    ("DECIMAL(10, 2)", "-1234.5", Decimal("-1234.50")),
    ("DECIMAL(5, 5)", "0.00001", Decimal("0.00001")),
    ("DECIMAL(18, 9)", "-123456789.987654321", Decimal("-123456789.987654321")),
    (
        "DECIMAL(38, 10)",
        "-1234567890123456789012345678.0123456789",
        Decimal("-1234567890123456789012345678.0123456789"),
    ),
    ("DECIMAL(20, 0)", "0", Decimal(0)),
    ("DECIMAL(65, 2)", "123.45", "123.45"),
    ("DECIMAL(40, 2) ZEROFILL", "4.5", "4.50"),
    ("DECIMAL(65, 30) ZEROFILL", "0", "0." + "0" * 30),
    ("BIT(1)", "b'1'", 1),
    ("BIT(12)", "b'101010101010'", 0b101010101010),
    ("BIT(64)", "b'1" + "0" * 63 + "'", Decimal(2**63)),
    ("YEAR", "2155", 2155),
    ("YEAR", "'0000'", 0),
    ("DATE", "'1000-01-01'", dt.date(1000, 1, 1)),
    ("DATE", "'9999-12-31'", dt.date(9999, 12, 31)),
    ("DATE", "'0000-00-00'", None),
    ("DATE", "'0000-01-01'", None),
    ("DATE", "'0000-12-31'", None),
    ("DATE", "'0001-01-01'", dt.date(1, 1, 1)),
    ("DATE", "'2021-00-05'", None),
    ("DATE", "'2021-02-29'", None),
    ("DATE", "'2024-02-29'", dt.date(2024, 2, 29)),
    ("DATETIME", "'1969-12-31 23:59:59'", dt.datetime(1969, 12, 31, 23, 59, 59)),
    ("DATETIME(3)", "'2024-02-29 12:34:56.789'", dt.datetime(2024, 2, 29, 12, 34, 56, 789000)),
    ("DATETIME(6)", "'9999-12-31 23:59:59.999999'", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("DATETIME", "'0000-00-00 00:00:00'", None),
    ("DATETIME", "'0000-12-31 23:59:59'", None),
    ("DATETIME", "'0001-01-01 00:00:00'", dt.datetime(1, 1, 1)),
    ("DATETIME(3)", "'2021-04-31 12:34:56.789'", None),
    ("DATETIME", "'2021-04-00 12:34:56'", None),
    ("DATETIME", "'9999-12-31 12:34:56'", dt.datetime(9999, 12, 31, 12, 34, 56)),
    ("TIMESTAMP NULL", "'2024-02-29 12:34:56'", dt.datetime(2024, 2, 29, 12, 34, 56, tzinfo=UTC)),
    (
        "TIMESTAMP(5) NULL",
        "'2024-02-29 12:34:56.00001'",
        dt.datetime(2024, 2, 29, 12, 34, 56, 10, tzinfo=UTC),
    ),
    ("TIMESTAMP NULL", "'0000-00-00 00:00:00'", None),
    ("TIME", "'-838:59:59'", "-838:59:59"),
    ("TIME", "'00:00:01'", "00:00:01"),
    ("TIME(2)", "'-00:00:00.05'", "-00:00:00.05"),
    ("TIME(6)", "'12:34:56.789012'", "12:34:56.789012"),
    ("TIME(1)", "'-12:34:56.7'", "-12:34:56.7"),
    ("CHAR(5)", "'ab '", "ab"),
    ("VARCHAR(20)", "'ü€𝄞 '", "ü€𝄞 "),
    ("VARCHAR(20)", "''", ""),
    ("VARCHAR(300)", "REPEAT('ä', 300)", "ä" * 300),
    ("CHAR(200)", "REPEAT('ä', 200)", "ä" * 200),
    ("VARCHAR(20) CHARACTER SET latin1", "'äöü€'", "äöü€"),
    ("TEXT CHARACTER SET ucs2", "'äöü'", "äöü"),
    ("TINYTEXT", "'a'", "a"),
    ("TEXT", "REPEAT('x', 65535)", "x" * 65535),
    ("MEDIUMTEXT", "REPEAT('y', 70000)", "y" * 70000),
    ("LONGTEXT", "'long'", "long"),
    ("JSON", "'{\"a\": 1}'", '{"a": 1}'),
    ("BINARY(4)", "x'01'", b"\x01\0\0\0"),
    ("BINARY(4)", "x'01020000'", b"\x01\x02\0\0"),
    ("VARBINARY(20)", "x'00FF'", b"\0\xff"),
    ("BLOB", "x'00FF10'", b"\0\xff\x10"),
    ("LONGBLOB", "REPEAT('z', 100000)", b"z" * 100000),
    ("ENUM('a', 'ü', 'c')", "'ü'", "ü"),
    ("SET('a', 'b', 'ü')", "'a,ü'", "a,ü"),
    ("SET('a', 'b')", "''", ""),
]


def test_the_log_has_the_values_that_a_select_has(mysql: MysqlServer) -> None:
    """One table has a column for each value, so that each column follows columns of other types."""
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _, _) in enumerate(VALUES))
    table = f"CREATE TABLE orders (id INT PRIMARY KEY, {columns})"
    values = ", ".join(value for _, value, _ in VALUES)
    nulls = ", ".join("NULL" for _ in VALUES)
    rows = [f"({key}, {values}), ({key + 1}, {nulls})" for key in (1, 3)]
    is_lenient = "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"
    with query(mysql, is_lenient, table, f"INSERT INTO orders VALUES {rows[0]}") as found:
        found.batches()
        found.write(f"INSERT INTO orders VALUES {rows[1]}")
        by_key = {row["id"]: row for row in found.changes_from()}
        for number, (kind, value, expected) in enumerate(VALUES):
            name = f"c{number}"
            assert (by_key[1][name], by_key[3][name]) == (expected, expected), f"{kind} {value}"
            assert (by_key[2][name], by_key[4][name]) == (None, None), kind


def test_columns_of_all_types_have_their_signs_beside_unsigned_ones(mysql: MysqlServer) -> None:
    """The log has a list of signs, without the names of the columns that they belong to."""
    every = {kind: value for kind, value, _ in VALUES} | {"FLOAT UNSIGNED": "1", "DECIMAL(9) UNSIGNED": "1"}
    columns = ", ".join(f"c{at} {kind}, u{at} INT UNSIGNED, n{at} TINYINT" for at, kind in enumerate(every))
    values = ", ".join(f"{value}, 4000000000, -5" for value in every.values())
    is_lenient = "SET sql_mode = 'ALLOW_INVALID_DATES'"
    with query(mysql, is_lenient, f"CREATE TABLE orders (id INT PRIMARY KEY, {columns})") as found:
        found.batches()
        (change,) = found.write(f"INSERT INTO orders VALUES (1, {values})")
        for at, kind in enumerate(every):
            assert (change[f"u{at}"], change[f"n{at}"]) == (4_000_000_000, -5), kind


def _integer(bits: int, *, is_signed: bool) -> Callable[[random.Random], str]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    return lambda rng: str(rng.choice([low, high, 0, rng.randint(low, high)]))


def _text(most: int) -> Callable[[random.Random], str]:
    return lambda rng: "'" + "".join(rng.choice("aä€𝄞 ") for _ in range(rng.randint(0, most))) + "'"


def _decimal(digits: int, scale: int) -> Callable[[random.Random], str]:
    def make(rng: random.Random) -> str:
        number = rng.randint(0, 10 ** rng.randint(1, digits) - 1)
        return f"{rng.choice(['', '-'])}{Decimal(number).scaleb(-scale):f}"

    return make


def _moment(digits: int) -> Callable[[random.Random], str]:
    def make(rng: random.Random) -> str:
        at = dt.datetime(1971, 1, 1) + dt.timedelta(microseconds=rng.randrange(2 * 10**15))
        fraction = f".{at.microsecond:06}"[: digits + 1] if digits else ""
        return f"'{at:%Y-%m-%d %H:%M:%S}{fraction}'"

    return make


def _time(digits: int) -> Callable[[random.Random], str]:
    def make(rng: random.Random) -> str:
        micros = rng.randrange(838 * 3600 * 10**6)
        hours, rest = divmod(micros, 3600 * 10**6)
        minutes, rest = divmod(rest, 60 * 10**6)
        seconds, part = divmod(rest, 10**6)
        fraction = f".{part:06}"[: digits + 1] if digits else ""
        return f"'{rng.choice(['', '-'])}{hours:02}:{minutes:02}:{seconds:02}{fraction}'"

    return make


RANDOM: list[tuple[str, Callable[[random.Random], str]]] = [
    *((f"{name}{sign}", _integer(bits, is_signed=not sign))
      for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
      for sign in ("", " UNSIGNED")),
    *((f"DECIMAL({digits},{scale})", _decimal(digits, scale))
      for digits, scale in ((1, 0), (9, 9), (10, 0), (18, 3), (19, 10), (30, 15), (38, 38))),
    ("DOUBLE", lambda rng: repr(math.ldexp(rng.uniform(-1, 1), rng.randint(-300, 300)))),
    ("FLOAT", lambda rng: repr(math.ldexp(rng.uniform(-1, 1), rng.randint(-100, 100)))),
    *((f"VARCHAR({most})", _text(most)) for most in (5, 63, 64, 400)),
    *((f"CHAR({most})", _text(most)) for most in (5, 100)),
    *((f"DATETIME({digits})", _moment(digits)) for digits in range(7)),
    *((f"TIMESTAMP({digits}) NULL", _moment(digits)) for digits in range(7)),
    *((f"TIME({digits})", _time(digits)) for digits in range(7)),
    ("SET('a','b','c','d','e','f','g','h','i')", lambda rng: str(rng.randrange(512))),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_rows_are_the_same_in_the_log_and_in_a_select(mysql: MysqlServer, seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.sample(RANDOM, len(RANDOM))
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(kinds))

    def row(key: int) -> str:
        return f"({key}, {', '.join('NULL' if rng.random() < 0.2 else make(rng) for _, make in kinds)})"

    def rows(first: int, count: int) -> str:
        return "INSERT INTO orders VALUES " + ", ".join(row(first + number) for number in range(count))

    table = f"CREATE TABLE orders (id INT PRIMARY KEY, {columns})"
    with query(mysql, "SET time_zone = '+00:00'", table, snapshot="never") as log:
        log.batches()
        log.write(*(rows(first, rng.randint(1, 40)) for first in range(0, 1000, 100)))
        with query(mysql, tables=f"{log.options['database']}.orders", snapshot="only") as selected:
            selected.batches()
            names = ["id", *(f"c{number}" for number in range(len(kinds)))]
            by_log = sorted(values_of(log.changes_from(), *names))
            by_select = sorted(values_of(selected.changes_from(), *names))
            assert len(by_log) > 50
            for left, right in zip(by_log, by_select, strict=True):
                for (kind, _), one, other in zip([("INT", None), *kinds], left, right, strict=True):
                    assert one == other, kind


def test_the_old_row_has_the_old_values(mysql: MysqlServer) -> None:
    with query(mysql, "CREATE TABLE orders (id INT PRIMARY KEY, a INT, b TEXT)", snapshot="never") as found:
        found.batches()
        changes = found.write(
            "INSERT INTO orders VALUES (1, NULL, 'one'), (2, 2, NULL)",
            "UPDATE orders SET a = 3, b = CONCAT(b, '!')",
            "DELETE FROM orders WHERE id = 1",
        )
        assert values_of(changes, "_op", "id", "a", "b", "_before") == [
            ("c", 1, None, "one", None),
            ("c", 2, 2, None, None),
            ("u", 1, 3, "one!", {"id": 1, "a": None, "b": "one"}),
            ("u", 2, 3, None, {"id": 2, "a": 2, "b": None}),
            ("d", 1, 3, "one!", {"id": 1, "a": 3, "b": "one!"}),
        ]


def test_a_transaction_that_is_longer_than_a_block_is_read_whole(mysql: MysqlServer) -> None:
    with query(mysql, "CREATE TABLE orders (id INT PRIMARY KEY, a TEXT)", snapshot="never") as found:
        found.batches()
        changes = found.write(
            "INSERT INTO orders VALUES (0, 'first')",
            "INSERT INTO orders SELECT seq, REPEAT('x', 1000) FROM seq_1_to_20000",
            "UPDATE orders SET a = REPEAT('y', 500) WHERE id > 10",
            "DELETE FROM orders WHERE id = 1",
        )
        assert values_of(changes, "_op", "id") == [
            *(("c", key) for key in range(20_001)),
            *(("u", key) for key in range(11, 20_001)),
            ("d", 1),
        ]
        assert len({(change["_pos"], change["_seq"]) for change in changes}) == len(changes)
        assert {change["_gtid"] for change in changes[1:20_001]} == {changes[1]["_gtid"]}
