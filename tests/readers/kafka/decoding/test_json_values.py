"""Decoding JSON values: each value is decoded or fails independently of the others."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.json_lines.strings import SPARK_DIALECT
from flip27_source.readers.kafka.decoding.json_values import JsonValues

ORDER = pa.struct([("id", pa.int64()), ("name", pa.string())])


def decoder(kind: pa.DataType = ORDER) -> JsonValues:
    formats = DateTimeFormats(day_numbers=True)
    return JsonValues(kind, time_zone="UTC", formats=formats, dialect=SPARK_DIALECT)


def order(number: int) -> bytes:
    return json.dumps({"id": number, "name": f"n{number}"}).encode()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id": "x"}', 'its field id cannot be read as bigint: "x"'),
        (b'{"id": 1} {"id": 2}', "it is not valid JSON: Extra data"),
        (b'{"id": 1}\n{"id": 2}', "it is not valid JSON: Extra data"),
        (b'{"id": 1}}\n{', "it is not valid JSON: Extra data"),
        (b'{"id": ', "it is not valid JSON: Expecting value: line 1 column 8 (char 7): '{\"id\": '"),
        (b'[{"id": 1}]', "it is not a JSON object: '[{\"id\": 1}]'"),
        (b"7", "it is not a JSON object: '7'"),
        (b"null", "it is not a JSON object: 'null'"),
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b'{"name": "\xff"} x', "it is not UTF-8: byte 10 is 0xff"),
    ],
)
@pytest.mark.parametrize("rows", [3, 4000])
def test_a_broken_value_fails_with_its_reason_and_affects_no_other(
    value: bytes, reason: str, rows: int
) -> None:
    values = [order(number) for number in range(rows)]
    values[1] = value
    decoded = decoder().decode(pa.array(values, pa.binary()))
    assert list(decoded.failures) == [1]
    assert decoded.failures[1].startswith(reason)
    expected = [{"id": number, "name": f"n{number}"} for number in range(rows)]
    assert decoded.values.to_pylist() == [expected[0], None, *expected[2:]]


@pytest.mark.parametrize(
    "value", [b'{"id": 1,\n "name": "a"}', b' {"id":1,"name":"a"} ', b'{"name":"a","id":1}\r\n']
)
def test_an_object_on_several_lines_or_surrounded_by_blanks_is_a_value(value: bytes) -> None:
    values = [order(0), value, None, order(3)]
    decoded = decoder().decode(pa.array(values, pa.binary()))
    assert decoded.failures == {}
    assert decoded.values.to_pylist() == [
        {"id": 0, "name": "n0"}, {"id": 1, "name": "a"}, None, {"id": 3, "name": "n3"},
    ]  # fmt: skip


def test_values_of_many_shapes_keep_their_order_in_blocks_of_any_size() -> None:
    def value(number: int) -> bytes | None:
        return [
            order(number),
            json.dumps({"name": f"n{number}", "other": [1], "id": number}).encode(),
            f'{{\n"id": {number}, "name": "n{number}"}}'.encode(),
            f"{{'id': {number}, 'name': 'n{number}'}}".encode(),
            None,
            b"broken",
        ][number % 7 % 6]

    values = [value(number) for number in range(30_000)]
    array = pa.array([b"before", *values], pa.binary()).slice(1)
    decoded = decoder().decode(array)
    assert sorted(decoded.failures) == [row for row, value in enumerate(values) if value == b"broken"]
    assert decoded.values.to_pylist() == [
        None if value in (None, b"broken") else {"id": row, "name": f"n{row}"}
        for row, value in enumerate(values)
    ]


def test_empty_blocks_and_blocks_of_only_nulls_are_decoded() -> None:
    for values in ([], [None, None]):
        decoded = decoder().decode(pa.array(values, pa.binary()))
        assert decoded.values.to_pylist() == values
        assert decoded.values.type == ORDER
        assert decoded.failures == {}


def test_values_of_all_json_types_are_read() -> None:
    kind = pa.struct(
        [
            ("at", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("price", pa.decimal128(10, 2)),
            ("tags", pa.list_(pa.string())), ("inner", pa.struct([("a", pa.bool_())])),
            ("counts", pa.map_(pa.string(), pa.int32())),
        ]
    )  # fmt: skip
    value = (
        b'{"at": "2026-01-02T03:04:05Z", "day": "2026-01-02", "price": 1.5, "tags": ["x"],'
        b' "inner": {"a": true}, "counts": {"k": 2}}'
    )
    (found,) = decoder(kind).decode(pa.array([value], pa.binary())).values.to_pylist()
    assert found["at"].isoformat() == "2026-01-02T03:04:05+00:00"
    assert [str(found[name]) for name in ("day", "price", "tags", "inner", "counts")] == [
        "2026-01-02", "1.50", "['x']", "{'a': True}", "[('k', 2)]",
    ]  # fmt: skip
