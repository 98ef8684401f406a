"""Sets of characters: the log has the texts that a SELECT has, or the column is refused."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.enumerators.mysql.column_types import UNREAD_CHARSETS
from flip27_source.errors import Flip27Error
from flip27_source.readers.mysql.charsets import COLLATIONS, PYTHONS_NAMES, Charsets
from tests.enumerators.mysql.reading import query
from tests.mysql_server import MysqlServer

WITH_TWO_BYTES = ("gbk", "gb2312", "euckr", "cp932", "utf16", "utf16le")
_SETS = """
SELECT character_set_name FROM information_schema.character_sets
WHERE maxlen = 1 AND character_set_name <> 'binary'
"""
_PAIRS = """
SELECT pair, CONVERT(CONVERT(pair USING {0}) USING utf8mb4)
FROM (SELECT UNHEX(LPAD(HEX(seq), 4, '0')) pair FROM seq_0_to_65535) pairs
WHERE HEX(CONVERT(pair USING {0})) = HEX(pair)
"""
TEXTS = [
    ("VARCHAR(20) CHARACTER SET ucs2", "'aä€'"),
    ("CHAR(5) CHARACTER SET ucs2", "'a '"),
    ("VARCHAR(20) CHARACTER SET utf16 COLLATE utf16_uca1400_ai_ci", "'aä€𝄞'"),
    ("TEXT CHARACTER SET utf16le", "'aä€𝄞'"),
    ("CHAR(5) CHARACTER SET utf32", "'aä€𝄞'"),
    ("VARCHAR(20) CHARACTER SET cp932", "'aあ\\\\ｱ'"),
    ("CHAR(9) CHARACTER SET euckr", "'각갂'"),
    ("ENUM('x', 'é') CHARACTER SET latin1", "'é'"),
    ("SET('x', 'á', 'b') CHARACTER SET latin2", "'x,á'"),
    ("ENUM('abc', 'd') CHARACTER SET ucs2", "'abc'"),
    ("SET('abc', '€') CHARACTER SET utf16le", "'abc,€'"),
    ("SET('abc', '𝄞') CHARACTER SET utf32", "'abc,𝄞'"),
    ("ENUM('a', '가') CHARACTER SET euckr", "'가'"),
    ("ENUM('a', 'b')", "''"),
]


def rows_of(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def test_the_log_has_each_byte_of_each_set_and_all_labels_as_a_select_has_them(mysql: MysqlServer) -> None:
    with closing(mysql.connect()) as connection:
        sets = rows_of(
            connection, "SELECT character_set_name FROM information_schema.character_sets WHERE maxlen = 1"
        )
    every = bytes(range(256)).hex()
    given = [
        (f"VARCHAR(256) CHARACTER SET {name}", f"_{name} x'{every}'") for (name,) in sets if name != "binary"
    ]
    given += TEXTS
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(given))
    with query(
        mysql, "SET sql_mode = ''", f"CREATE TABLE orders (id INT PRIMARY KEY, {columns})",
        f"INSERT INTO orders VALUES (1, {', '.join(value for _, value in given)})",
    ) as found:  # fmt: skip
        found.batches()
        names = ", ".join(f"c{number}" for number in range(len(given)))
        found.write(f"INSERT INTO orders SELECT 2, {names} FROM orders")
        selected, logged = found.changes_from()
        for number, (kind, value) in enumerate(given):
            assert logged[f"c{number}"] == selected[f"c{number}"], kind
            if value.startswith("'"):
                assert logged[f"c{number}"] == value.strip("'").replace("\\\\", "\\").rstrip(), kind


@pytest.mark.parametrize("name", WITH_TWO_BYTES)
def test_python_decodes_all_values_of_two_bytes_as_the_server_does(mysql: MysqlServer, name: str) -> None:
    with closing(mysql.connect("mysql")) as connection:
        charsets = Charsets(rows_of(connection, COLLATIONS), lambda sql: rows_of(connection, sql))
        pairs = rows_of(connection, _PAIRS.format(name))
    collation = next(number for number, found in charsets.names.items() if found == name)
    texts = charsets.texts(pa.array([pair for pair, _ in pairs], pa.binary()), collation)
    assert len(pairs) > 20_000
    assert texts.to_pylist() == [text for _, text in pairs]


def test_every_set_of_more_than_one_byte_is_compared_or_refused() -> None:
    compared = {*WITH_TWO_BYTES, "utf8mb3", "utf8mb4", "ucs2", "utf32"}
    assert {*PYTHONS_NAMES} - compared == {*UNREAD_CHARSETS}


def test_the_server_is_asked_only_for_characters_that_are_not_ascii() -> None:
    asked: list[str] = []

    def answer(sql: str) -> list[tuple[str]]:
        asked.append(sql)
        return [(bytes(range(256)).decode("latin-1"),)]

    charsets = Charsets([("latin1", "8,5")], answer)
    assert charsets.texts(pa.array([b"abc", None, b""]), 8).to_pylist() == ["abc", None, ""]
    assert asked == []
    texts = pa.array([b"\x81", b"abc", None, b"\x81"])
    assert charsets.texts(texts, 8).to_pylist() == ["\x81", "abc", None, "\x81"]
    assert charsets.decode(b"\x8d", 8) == "\x8d"
    assert len(asked) == 1


def test_sets_that_python_decodes_otherwise_are_refused_by_name(mysql: MysqlServer) -> None:
    with query(mysql, "CREATE TABLE orders (id INT PRIMARY KEY, v ENUM('a'))") as found:
        for name in UNREAD_CHARSETS:
            found.execute(f"ALTER TABLE orders MODIFY v ENUM('a') CHARACTER SET {name}")
            with pytest.raises(
                Flip27Error, match=f"the column v in the character set {name}, which"
            ) as refused:
                found.batches()
            assert "CONVERT TO CHARACTER SET utf8mb4" in str(refused.value)
