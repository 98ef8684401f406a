"""The avro reader: types, unions, codecs and ranges, on literal data."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError
from flip27_source.options import Options
from flip27_source.readers.columnar.avro import AvroReader
from flip27_source.readers.columnar.avro_blocks import blocks_of, read_header
from flip27_source.readers.files.input import CorruptFileError
from tests.fuzz.avro_files import recoded
from tests.readers.spark_reading import arrow_schema, ranges_of, read_batches, read_table, split_of

NOON = dt.datetime(2024, 5, 6, 12, 30, 15, 123456, tzinfo=dt.UTC)
MILLIS = NOON.replace(microsecond=123000)
ID = uuid.UUID("6b8b4567-327b-23c6-643c-986966334873")


def write(
    path: Path, kind: Any, values: list[Any], *, codec: str = "null", sync_interval: int = 1000
) -> Path:
    """Write a file of records with the single field ``v``."""
    schema = {"type": "record", "name": "r", "namespace": "n", "fields": [{"name": "v", "type": kind}]}
    with path.open("wb") as file:
        records = [{"v": value} for value in values]
        fastavro.writer(file, schema, records, codec=codec, sync_interval=sync_interval)
    return path


def logical(kind: str, logical_type: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "X", "type": "int"}, {"name": "y", "type": "int"}],
}
SUIT = {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}
MD5 = {"type": "fixed", "name": "Md5", "size": 4}
MONEY = {"precision": 9, "scale": 2}

VALUES: list[tuple[str, Any, str, list[Any], list[Any] | None]] = [
    ("boolean", "boolean", "boolean", [True, False], None),
    ("int", "int", "int", [-1, 2**31 - 1], None),
    ("int to long", "int", "long", [-1, 2**31 - 1], None),
    ("int to double", "int", "double", [-1, 2**31 - 1], None),
    ("long", "long", "long", [-(2**63), 2**63 - 1], None),
    ("float", "float", "float", [1.5, -0.25], None),
    ("float to double", "float", "double", [1.5, -0.25], None),
    ("double", "double", "double", [0.1, 1e300], None),
    ("bytes", "bytes", "binary", [b"\x00\xff", b""], None),
    ("string", "string", "string", ["caf\u00e9", ""], None),
    ("null", "null", "string", [None, None], None),
    ("decimal in bytes", logical("bytes", "decimal", **MONEY), "decimal(9,2)", [Decimal("-1.25")], None),
    ("wider decimal", logical("bytes", "decimal", **MONEY), "decimal(12,4)", [Decimal("-1.25")], None),
    ("decimal in fixed", logical("fixed", "decimal", name="d", size=5, **MONEY), "decimal(9,2)",
     [Decimal("1234567.89")], None),
    ("date", logical("int", "date"), "date", [dt.date(1500, 1, 1), dt.date(9999, 12, 31)], None),
    ("timestamp-millis", logical("long", "timestamp-millis"), "timestamp", [MILLIS], None),
    ("timestamp-micros", logical("long", "timestamp-micros"), "timestamp", [NOON], None),
    ("local-timestamp-micros", logical("long", "local-timestamp-micros"), "timestamp_ntz",
     [NOON.replace(tzinfo=None)], None),
    ("local-timestamp-millis", logical("long", "local-timestamp-millis"), "timestamp_ntz",
     [MILLIS.replace(tzinfo=None)], None),
    ("time-millis", logical("int", "time-millis"), "int", [dt.time(0, 0, 1)], [1000]),
    ("uuid", logical("string", "uuid"), "string", [ID], [str(ID)]),
    ("enum", SUIT, "string", ["SPADES", "HEARTS"], None),
    ("fixed", MD5, "binary", [b"abcd"], None),
    ("union with null", ["null", "string"], "string", ["x", None], None),
    ("union of one", ["long"], "long", [1], None),
    ("int or long", ["null", "int", "long"], "long", [1, None, 2**40], None),
    ("float or double", ["float", "double"], "double", [1.5, 2.5], None),
    ("other unions", ["int", "null", "string"], "struct<member0: int, member1: string>", [1, None, "x"],
     [{"member0": 1, "member1": None}, None, {"member0": None, "member1": "x"}]),
    ("union of records", [POINT, MD5], "struct<member0: struct<y: long>, member1: binary>",
     [{"X": 1, "y": 2}, b"abcd"],
     [{"member0": {"y": 2}, "member1": None}, {"member0": None, "member1": b"abcd"}]),
    ("record", POINT, "struct<y: long, x: int, z: string>",
     [{"X": 1, "y": 2}], [{"y": 2, "x": 1, "z": None}]),
    ("array", {"type": "array", "items": ["null", "int"]}, "array<long>", [[1, None], []], None),
    ("array of records", {"type": "array", "items": POINT}, "array<struct<x: int>>",
     [[{"X": 1, "y": 2}], []], [[{"x": 1}], []]),
    ("map", {"type": "map", "values": "long"}, "map<string, long>", [{"a": 1}, {}], [[("a", 1)], []]),
    ("map of dates", {"type": "map", "values": logical("int", "date")}, "map<string, date>",
     [{"a": dt.date(2024, 2, 29)}], [[("a", dt.date(2024, 2, 29))]]),
    ("decimals in records",
     {"type": "record", "name": "Q", "fields": [{"name": "d", "type": logical("bytes", "decimal", **MONEY)}]},
     "struct<d: decimal(9,2)>", [{"d": Decimal("0.01")}], None),
    ("the same name twice",
     {"type": "record", "name": "Q",
      "fields": [{"name": "a", "type": POINT}, {"name": "b", "type": "n.Point"}]},
     "struct<a: struct<x: int>, b: struct<y: int>>", [{"a": {"X": 1, "y": 2}, "b": {"X": 3, "y": 4}}],
     [{"a": {"x": 1}, "b": {"y": 4}}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "wanted", "written", "expected"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES]
)
def test_values_are_read_as_written(
    tmp_path: Path, kind: Any, wanted: str, written: list[Any], expected: list[Any] | None
) -> None:
    path = write(tmp_path / "a.avro", kind, written)
    found = read_table(AvroReader(), [path], f"v {wanted}")
    assert found["v"].to_pylist() == (written if expected is None else expected)


@pytest.mark.parametrize(
    ("first", "second", "wanted", "found"),
    [
        (["null", POINT, "string"], "Point", "a struct<member0: struct<y: int>>, b struct<y: int>",
         {"a": {"member0": {"y": 2}}, "b": {"y": 4}}),
        (POINT, ["string", "Point"], "a struct<y: int>, b struct<member1: struct<y: int>>",
         {"a": {"y": 2}, "b": {"member1": {"y": 4}}}),
    ],
)  # fmt: skip
def test_a_type_without_a_namespace_is_used_inside_and_outside_of_a_union(
    tmp_path: Path, first: Any, second: Any, wanted: str, found: Any
) -> None:
    fields = [{"name": "a", "type": first}, {"name": "b", "type": second}]
    with (tmp_path / "a").open("wb") as file:
        record = {"a": {"X": 1, "y": 2}, "b": {"X": 3, "y": 4}}
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [record])
    assert read_table(AvroReader(), [tmp_path / "a"], wanted).to_pylist() == [found]


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_blocks_of_other_codecs_are_read_without_more_packages(tmp_path: Path, codec: str) -> None:
    path = write(tmp_path / "a", "long", list(range(5000)))
    path.write_bytes(recoded(path.read_bytes(), codec))
    assert read_table(AvroReader(), [path], "v long")["v"].to_pylist() == list(range(5000))
    whole = path.read_bytes()
    at = -40 if codec == "snappy" else whole.index(b"\x28\xb5\x2f\xfd")  # only snappy has checksums
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at:][1:])
    with pytest.raises(CorruptFileError, match=r"/a is truncated or damaged: block at byte \d+"):
        read_table(AvroReader(), [path], "v long")


def test_damage_inside_a_block_is_an_error_with_block_and_record(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "string", ["abc", "def"])
    path.write_bytes(path.read_bytes().replace(b"\x06def", b"\x06d\xffe"))
    with pytest.raises(CorruptFileError, match=r"block at byte \d+, record 1 of the block: Unicode"):
        read_table(AvroReader(), [path], "v string")
    path = write(tmp_path / "b", "string", ["abc", "def"])
    path.write_bytes(path.read_bytes().replace(b"\x06def", b"\x04def"))
    with pytest.raises(CorruptFileError, match=r"block at byte \d+: bytes follow the last record"):
        read_table(AvroReader(), [path], "v string")


def test_a_record_that_contains_itself_is_refused_and_may_be_left_out(tmp_path: Path) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "n.Node"]}]}
    path = write(tmp_path / "a", node, [{"next": {"next": None}}])
    with pytest.raises(SchemaError, match=r"/a: column v: it has the type n\.Node, which contains itself"):
        read_table(AvroReader(), [path], "v string")
    assert read_table(AvroReader(), [path], "w string").num_rows == 1


def write_declared(path: Path, encoded: Any, declared: Any, value: Any) -> Path:
    """Write a value as one type, with a schema that declares another type of the same encoding."""
    schemas = [
        {"type": "record", "name": "r", "fields": [{"name": "v", "type": kind}]}
        for kind in (encoded, declared)
    ]
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schemas[0]), {"v": value})
    header = io.BytesIO()
    mark, record = b"flip27-sync-mark", body.getvalue()
    meta = {"avro.schema": json.dumps(schemas[1]).encode()}
    fastavro.schemaless_writer(header, {"type": "map", "values": "bytes"}, meta)
    sizes = io.BytesIO()
    for number in (1, len(record)):
        fastavro.schemaless_writer(sizes, "long", number)
    path.write_bytes(b"Obj\x01" + header.getvalue() + mark + sizes.getvalue() + record + mark)
    return path


INVALID: list[tuple[Any, Any, str, Any]] = [
    ("string", logical("string", "decimal", **MONEY), "string", "x"),
    ("int", logical("int", "decimal", **MONEY), "int", 7),
    ("long", logical("long", "decimal", **MONEY), "bigint", 7),
    ("bytes", logical("bytes", "decimal", precision=2, scale=3), "binary", b"ab"),
    ("bytes", logical("bytes", "decimal"), "binary", b"ab"),
    ("bytes", logical("bytes", "decimal", precision="9"), "binary", b"ab"),
    ("bytes", logical("bytes", "decimal", precision=True), "binary", b"ab"),
    ("bytes", logical("bytes", "decimal", precision=0), "binary", b"ab"),
    ("bytes", logical("bytes", "decimal", precision=9, scale=-1), "binary", b"ab"),
    ("bytes", logical("bytes", "decimal", precision=9, scale=None), "binary", b"ab"),
    (MD5, logical("fixed", "decimal", name="Md5", size=4, precision=10, scale=2), "binary", b"abcd"),
    ("string", logical("string", "date"), "string", "x"),
    ("int", logical("int", "timestamp-micros"), "int", 7),
    ("int", {"type": "int", "logicalType": ["date"]}, "int", 7),
]


def test_a_record_that_contains_itself_very_often_is_damage(tmp_path: Path) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    for depth, is_read in ((2_000, True), (100_000, False)):
        bytes_of_it = b"\x02" * depth + b"\0"
        encoded = {"type": "fixed", "name": "f", "size": len(bytes_of_it)}
        path = write_declared(tmp_path / f"{depth}", encoded, node, bytes_of_it)
        if is_read:
            assert read_table(AvroReader(), [path], "w string").num_rows == 1
        else:
            with pytest.raises(CorruptFileError, match="record 0 of the block: RecursionError"):
                read_table(AvroReader(), [path], "w string")


@pytest.mark.parametrize(("encoded", "declared", "kind", "value"), INVALID)
@pytest.mark.parametrize("place", ["alone", "in a union", "in an array", "in a map", "in a record"])
def test_a_logical_type_that_its_type_cannot_have_is_ignored(
    tmp_path: Path, encoded: Any, declared: Any, kind: str, value: Any, place: str
) -> None:
    def around(inner: Any) -> Any:
        return {
            "alone": inner,
            "in a union": ["null", inner],
            "in an array": {"type": "array", "items": inner},
            "in a map": {"type": "map", "values": inner},
            "in a record": {"type": "record", "name": "q", "fields": [{"name": "x", "type": inner}]},
        }[place]

    whole, wanted = {
        "alone": (value, kind),
        "in a union": (value, kind),
        "in an array": ([value], f"array<{kind}>"),
        "in a map": ({"k": value}, f"map<string, {kind}>"),
        "in a record": ({"x": value}, f"struct<x: {kind}>"),
    }[place]
    path = write_declared(tmp_path / "a.avro", around(encoded), around(declared), whole)
    found_schema = AvroReader.schema_of_files([split_of(path)], Options.parse({}, AvroReader.options))
    assert found_schema == arrow_schema(f"v {wanted}")
    found = read_table(AvroReader(), [path], f"v {wanted}")["v"].to_pylist()
    assert found == [[("k", value)] if place == "in a map" else whole]


@pytest.mark.parametrize("precision", [39, 77])
def test_a_decimal_with_more_digits_than_spark_has_is_refused_and_may_be_left_out(
    tmp_path: Path, precision: int
) -> None:
    kind = logical("bytes", "decimal", precision=precision, scale=2)
    path = write(tmp_path / "a", kind, [Decimal("1.25")])
    with pytest.raises(SchemaError, match=rf"/a: column v: .*{precision}"):
        read_table(AvroReader(), [path], "v decimal(38,2)")
    with pytest.raises(SchemaError, match=rf"/a: column v: .*{precision}"):
        AvroReader.schema_of_files([split_of(path)], Options.parse({}, AvroReader.options))
    assert read_table(AvroReader(), [path], "w string").num_rows == 1


def test_values_that_are_not_records_are_refused(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        fastavro.writer(file, "long", [1])
    with pytest.raises(SchemaError, match=r"/a contains values of type .*long.* instead of records"):
        read_table(AvroReader(), [tmp_path / "a"], "v long")


def test_a_block_without_the_sync_marker_of_the_file_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "long", list(range(5000)))
    whole = path.read_bytes()
    mark = whole[-16:]
    second = whole.index(mark, whole.index(mark) + 16)
    path.write_bytes(whole[:second] + bytes(16) + whole[second + 16 :])
    with pytest.raises(CorruptFileError, match=r"block at byte \d+: the block does not end with the mark"):
        read_table(AvroReader(), [path], "v long")


def marks_of(content: bytes) -> list[int]:
    """The positions of the sync marks, first that of the header."""
    found = [match.start() for match in re.finditer(re.escape(content[-16:]), content)]
    assert found[-1] == len(content) - 16
    return found


def test_damage_anywhere_near_the_end_of_a_range_lets_a_range_fail_for_each_lost_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "long", list(range(2000)), sync_interval=500)
    whole, times = path.read_bytes(), path.stat()
    marks = marks_of(whole)
    boundary = marks[3] + 16
    for start in (boundary - 20, boundary - 16, boundary - 1, boundary, boundary + 1, boundary + 300):
        splits = ranges_of(path, [start, start + 3 * (marks[4] - marks[3])])
        expected = [rows_of(split) for split in splits]
        assert [row for rows in expected for row in rows or []] == list(range(2000))
        for damaged in (
            marks[0],
            marks[2],
            marks[3],
            marks[4],
            marks[5],
            marks[2] + 17,
            marks[3] + 17,
            marks[-1],
        ):
            path.write_bytes(whole[:damaged] + b"\xff" + whole[damaged + 1 :])
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            found = [rows_of(split) for split in splits]
            assert None in found
            assert all(rows in (None, correct) for rows, correct in zip(found, expected, strict=True))
        path.write_bytes(whole)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_block_longer_than_several_ranges_belongs_to_the_range_of_its_first_byte(tmp_path: Path) -> None:
    texts = ["a" * 10, "b" * 3_000_000, "c" * 10]
    path = write(tmp_path / "a", "string", texts, sync_interval=1)
    long_block = marks_of(path.read_bytes())[1] + 16
    starts = range(long_block, path.stat().st_size, 500_000)
    found = [
        read_batches(AvroReader(), [split], arrow_schema("v string")) for split in ranges_of(path, starts)
    ]
    values = [[len(text) for batch in batches for text in batch["v"].to_pylist()] for batches in found]
    assert values == [[10], [3_000_000], *[[]] * 5, [10]]


def test_an_unreachable_file_is_not_a_damaged_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "long", list(range(5000)))

    class Unreachable(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 2000:
                raise ConnectionResetError(104, "the store does not answer")
            return super().read(size)

    stream = Unreachable(path.read_bytes())
    header = read_header(stream, str(path))
    for split in ranges_of(path, [4000]):
        with pytest.raises(ConnectionResetError):
            list(blocks_of(stream, header, split))


def rows_of(split: FileSplit) -> list[int] | None:
    """The rows of a range, or None if it is damaged."""
    try:
        batches = read_batches(AvroReader(), [split], arrow_schema("v long"))
    except CorruptFileError:
        return None
    return [row for batch in batches for row in batch["v"].to_pylist()]
