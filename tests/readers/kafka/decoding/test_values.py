"""Decoding Avro, Protobuf and text with schemas of files and registries, and what cannot be decoded."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from flip27_source.errors import OptionError, SchemaError, SplitReadError
from flip27_source.options import Options
from flip27_source.readers.datetimes.options import DATETIME_OPTIONS
from flip27_source.readers.json_lines.options import JSON_DIALECT_OPTIONS
from flip27_source.readers.kafka.decoding.decoder import Decoded
from flip27_source.readers.kafka.decoding.options import DECODING_OPTIONS
from flip27_source.readers.kafka.decoding.value_schemas import value_decoder, value_type
from tests.enumerators.kafka.reading import read, stream
from tests.kafka_server import KafkaBroker
from tests.schema_registry_server import SchemaRegistryServer, framed

ORDER: Any = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
ORDER_ID = pa.struct([("id", pa.int64())])
ROW = {"id": 7, "name": "seven", "at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)}


def options(**given: str) -> Options:
    declared = (*DECODING_OPTIONS, *DATETIME_OPTIONS, *JSON_DIALECT_OPTIONS)
    return Options.parse(given, declared)


def avro(row: dict[str, Any], schema: Any = ORDER) -> bytes:
    data = io.BytesIO()
    fastavro.schemaless_writer(data, schema, row)
    return data.getvalue()


def decoded(values: list[bytes | None], kind: pa.DataType | None = None, **given: str) -> Decoded:
    found = options(**given)
    kind = kind or value_type(found, ("orders",))
    result = value_decoder(kind, found, "UTC").decode(pa.array(values, pa.binary()))
    assert result.values.type == kind
    assert len(result.values) == len(values)
    return result


def test_text_is_decoded_and_invalid_utf_8_fails_with_its_position() -> None:
    found = decoded([b"a", "ä€".encode(), None, b"", b"x\xff"], valueFormat="string")
    assert found.values.to_pylist() == ["a", "ä€", None, "", None]
    assert found.failures == {4: "it is not UTF-8: byte 1 is 0xff"}


def test_avro_is_decoded_with_a_schema_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    given = {"valueFormat": "avro", "valueSchemaFile": str(tmp_path / "order.avsc")}
    found = decoded([avro(ROW), None, avro(ROW) + b"x", b"\x02\x99", b""], **given)
    assert found.values.to_pylist() == [ROW, None, None, None, None]
    assert found.failures[2] == f"1 bytes follow the Avro record of {given['valueSchemaFile']}"
    assert sorted(found.failures) == [2, 3, 4]
    wider = pa.struct([("name", pa.string()), ("id", pa.int64()), ("more", pa.float64())])
    assert decoded([avro(ROW)], wider, **given).values.to_pylist() == [
        {"name": "seven", "id": 7, "more": None}
    ]
    with pytest.raises(SchemaError, match="column id"):
        decoded([avro(ROW)], pa.struct([("id", pa.bool_())]), **given)


def test_each_schema_is_requested_from_the_registry_once(registry: SchemaRegistryServer) -> None:
    wider = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}]}
    first, second = registry.add("orders-value", wider), registry.add("orders-value", ORDER)
    given = {"valueFormat": "avro", "schemaRegistryUrl": registry.url}
    values = [
        framed(first, avro({**ROW, "note": "n"}, wider)), framed(second, avro(ROW)), None, b"\1abcd", b"\0\0",
        framed(99, avro(ROW)), framed(second, b""),
    ]  # fmt: skip
    kind = value_type(options(**given), ("orders",))
    for _ in range(3):
        found = decoded(values, kind, **given)
    assert found.values.to_pylist() == [ROW, ROW, None, None, None, None, None]
    assert found.failures[3] == "it has no header of a schema registry: it starts with 0x0161626364"
    assert found.failures[5].startswith("schema 99: ")
    assert sorted(found.failures) == [3, 4, 5, 6]
    asked = [path for path in registry.requests if not path.endswith("/99")]
    assert asked == ["/subjects/orders-value/versions/latest", "/schemas/ids/1", "/schemas/ids/2"]


@pytest.mark.parametrize("value_format", ["avro", "protobuf"])
def test_each_query_of_an_application_begins_with_the_newest_schema(
    value_format: str, registry: SchemaRegistryServer
) -> None:
    given = {"valueFormat": value_format, "schemaRegistryUrl": registry.url}
    wider = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string"}]}
    file, wider_file = descriptors(), descriptors()
    wider_file.message_type[0].field.add(name="note", number=99, type=KINDS.TYPE_STRING)
    versions = [ORDER, wider] if value_format == "avro" else [file, wider_file]
    found = []
    for version in versions:
        registry.add("orders-value", version, kind=value_format.upper())
        found.append("note" in value_type(options(**given), ("orders",)).names)
    assert found == [False, True]


def test_credentials_for_a_registry_come_from_the_environment(
    registry: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add("orders-value", ORDER)
    registry.credentials = "reader:pass:word"
    given = {"valueFormat": "avro", "schemaRegistryUrl": registry.url}
    with pytest.raises(OptionError, match="refuses the credentials: HTTP 401"):
        decoded([], **given)
    with pytest.raises(OptionError, match="REGISTRY_AUTH, which option schemaRegistryAuthEnv names"):
        decoded([], schemaRegistryAuthEnv="REGISTRY_AUTH", **given)
    monkeypatch.setenv("REGISTRY_AUTH", "reader:pass:word")
    assert decoded([framed(1, avro(ROW))], schemaRegistryAuthEnv="REGISTRY_AUTH", **given).values[0].is_valid
    registry.token, registry.credentials = "a-token", ""
    monkeypatch.setenv("REGISTRY_TOKEN", "a-token")
    assert (
        decoded([framed(1, avro(ROW))], schemaRegistryTokenEnv="REGISTRY_TOKEN", **given).values[0].is_valid
    )


def test_a_failing_registry_fails_the_task_and_quarantines_no_record(registry: SchemaRegistryServer) -> None:
    registry.add("orders-value", ORDER)
    given = {"valueFormat": "avro", "schemaRegistryUrl": registry.url}
    registry.failures = 2
    kind = value_type(options(**given), ("orders",))
    registry.failures = 1000
    with pytest.raises(SplitReadError, match="returned no schema for /schemas/ids/1: HTTP 503"):
        decoded([framed(1, avro(ROW))], kind, **given)
    registry.failures = 0
    assert decoded([framed(1, avro(ROW))], kind, **given).failures == {}


@pytest.mark.parametrize(
    "body", [b"default backend - 404", b"[]", b'{"error_code": 404, "message": "HTTP 404 Not Found"}']
)
def test_a_404_that_is_not_about_a_schema_fails_the_task(body: bytes, registry: SchemaRegistryServer) -> None:
    registry.add("orders-value", ORDER)
    given = {"valueFormat": "avro", "schemaRegistryUrl": registry.url}
    kind = pa.struct([("id", pa.int64())])
    registry.failures, registry.failure = 1, (404, body)
    with pytest.raises(SplitReadError, match="returned no schema for /schemas/ids/1: HTTP 404"):
        decoded([framed(1, avro(ROW))], kind, **given)
    assert decoded([framed(1, avro(ROW))], kind, **given).failures == {}


def test_an_answer_without_the_text_of_a_schema_fails_the_task(registry: SchemaRegistryServer) -> None:
    registry.failures, registry.failure = 1, (200, b'{"schema": null}')
    with pytest.raises(SplitReadError, match="HTTP 200 without a schema"):
        decoded([framed(1, b"")], ORDER_ID, valueFormat="avro", schemaRegistryUrl=registry.url)


def test_a_value_whose_schema_the_registry_does_not_know_cannot_be_decoded(
    registry: SchemaRegistryServer,
) -> None:
    money = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
    registry.add("money", money)
    order = {"type": "record", "name": "Order", "fields": [{"name": "net", "type": "Money"}]}
    for subject, version in (("money", 2), ("nothing", 1)):
        registry.add("orders-value", order, references=(("Money", subject, version),))
    given = {"valueFormat": "avro", "schemaRegistryUrl": registry.url}
    values = [framed(number, b"") for number in (2, 3, 99)]
    found = decoded(values, pa.struct([("id", pa.int64())]), **given)
    assert [found.failures[row].partition(" has nothing at ")[2] for row in range(3)] == [
        "/subjects/money/versions/2",
        "/subjects/nothing/versions/1",
        "/schemas/ids/99",
    ]
    with pytest.raises(SchemaError, match="has nothing at /subjects/payments-value/versions/latest"):
        value_type(options(**given), ("payments",))


def test_a_response_of_a_registry_is_read_up_to_a_limit(registry: SchemaRegistryServer) -> None:
    number = registry.add("orders-value", "a" * (17 << 20))
    with pytest.raises(SplitReadError, match=r"returned no schema for .*larger than 16,777,216 bytes"):
        decoded([framed(number, b"")], valueFormat="avro", schemaRegistryUrl=registry.url)


def test_json_values_with_a_registry_header_are_decoded_without_the_header(
    registry: SchemaRegistryServer,
) -> None:
    kind = pa.struct([("id", pa.int64())])
    found = decoded(
        [framed(1, b'{"id": 1}'), b'{"id": 2}'], kind, valueFormat="json", schemaRegistryUrl=registry.url
    )
    assert found.values.to_pylist() == [{"id": 1}, None]
    assert list(found.failures) == [1]
    assert registry.requests == []


def descriptors() -> descriptor_pb2.FileDescriptorProto:
    """The descriptor of messages with every kind of field."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kinds = descriptor_pb2.FieldDescriptorProto
    color = file.enum_type.add(name="Color")
    color.value.add(name="RED", number=0)
    color.value.add(name="BLUE", number=1)
    order = file.message_type.add(name="Order")

    def add(
        name: str, kind: int, type_name: str = "", *, repeated: bool = False, optional: bool = False
    ) -> None:
        label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
        made = order.field.add(
            name=name, number=len(order.field) + 1, type=kind, type_name=type_name or None, label=label
        )
        if optional:
            made.proto3_optional = True
            made.oneof_index = len(order.oneof_decl)
            order.oneof_decl.add(name=f"_{name}")

    add("id", kinds.TYPE_INT64)
    add("name", kinds.TYPE_STRING, optional=True)
    add("at", kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    add("color", kinds.TYPE_ENUM, ".shop.Color")
    add("tags", kinds.TYPE_STRING, repeated=True)
    add("line", kinds.TYPE_MESSAGE, ".shop.Order.Line")
    add("counts", kinds.TYPE_MESSAGE, ".shop.Order.CountsEntry", repeated=True)
    add("data", kinds.TYPE_BYTES)
    add("big", kinds.TYPE_UINT64)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    for number, (name, kind) in enumerate([("key", kinds.TYPE_STRING), ("value", kinds.TYPE_INT32)], 1):
        entry.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    line = order.nested_type.add(name="Line")
    line.field.add(name="price", number=1, type=kinds.TYPE_DOUBLE, label=kinds.LABEL_OPTIONAL)
    return file


def message(**values: Any) -> bytes:
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(descriptors().SerializeToString())
    kind = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    made = kind(**{name: value for name, value in values.items() if name != "at"})
    if "at" in values:
        made.at.seconds = values["at"]
    return bytes(made.SerializeToString())


FULL = message(
    id=1, name="", at=1767312000, color=1, tags=["a", "b"], line={"price": 1.5}, counts={"k": 2}, data=b"\0",
    big=2**64 - 1,
)  # fmt: skip
FULL_ROW = {
    "id": 1, "name": "", "at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "color": "BLUE", "tags": ["a", "b"],
    "line": {"price": 1.5}, "counts": [("k", 2)], "data": b"\0", "big": Decimal(2**64 - 1),
}  # fmt: skip
EMPTY_ROW = {
    "id": 0, "name": None, "at": None, "color": "RED", "tags": [], "line": None, "counts": [], "data": b"",
    "big": Decimal(0),
}  # fmt: skip


def test_protobuf_is_decoded_with_a_descriptor_set(tmp_path: Path) -> None:
    given = descriptor_set(tmp_path, descriptors())
    path = Path(given["valueSchemaFile"])
    found = decoded([FULL, b"", None, b"\xff"], valueMessage="shop.Order", **given)
    assert found.values.to_pylist() == [FULL_ROW, EMPTY_ROW, None, None]
    assert found.failures[3].startswith(f"it is not a shop.Order of {path}: ")
    assert list(found.failures) == [3]
    with pytest.raises(SchemaError, match=r"no message type 'shop.Nothing'"):
        decoded([], valueMessage="shop.Nothing", **given)
    path.write_bytes(b"\xff")
    with pytest.raises(SchemaError, match="is not a descriptor set"):
        decoded([], **given)


def test_protobuf_is_decoded_with_a_registry(registry: SchemaRegistryServer) -> None:
    number = registry.add("orders-value", descriptors(), kind="PROTOBUF")
    values = [
        framed(number, b"\0" + FULL), framed(number, b"\2\0" + FULL), framed(number, b"\2\x0e"),
        framed(number, b""),
    ]  # fmt: skip
    found = decoded(values, valueFormat="protobuf", schemaRegistryUrl=registry.url)
    assert found.values.to_pylist() == [FULL_ROW, FULL_ROW, None, None]
    assert sorted(found.failures) == [2, 3]


def test_with_a_registry_value_message_selects_the_type_and_other_types_are_failures(
    registry: SchemaRegistryServer,
) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="v.proto", package="shop", syntax="proto3")
    for name in ("Header", "Order", "Refund"):
        field = {"name": f"{name.lower()}_id", "number": 1, "type": KINDS.TYPE_INT64}
        file.message_type.add(name=name).field.add(label=KINDS.LABEL_OPTIONAL, **field)
    number = registry.add("orders-value", file, kind="PROTOBUF")
    given = {"valueFormat": "protobuf", "schemaRegistryUrl": registry.url, "valueMessage": "shop.Order"}
    values = [framed(number, b"\2\2" + b"\x08\7"), framed(number, b"\2\4" + b"\x08\7")]
    found = decoded(values, **given)
    assert found.values.to_pylist() == [{"order_id": 7}, None]
    place = f"schema {number} of {registry.url}"
    assert found.failures == {
        1: f"schema {number}: it is a shop.Refund of {place}, but valueMessage is shop.Order"
    }
    with pytest.raises(SchemaError, match=r"no message type 'shop\.Other'"):
        decoded([], **{**given, "valueMessage": "shop.Other"})


@pytest.mark.parametrize("value_format", ["avro", "protobuf"])
def test_a_field_of_a_recursive_type_is_an_error_only_if_it_is_read(
    value_format: str, registry: SchemaRegistryServer
) -> None:
    if value_format == "avro":
        fields = [{"name": "id", "type": "long"}, {"name": "child", "type": ["null", "Node"]}]
        node = {"type": "record", "name": "Node", "fields": fields}
        number, payload = registry.add("orders-value", node), avro({"id": 7, "child": None}, node)
    else:
        file = descriptor_pb2.FileDescriptorProto(name="node.proto", syntax="proto3")
        message = file.message_type.add(name="Node")
        message.field.add(name="id", number=1, type=KINDS.TYPE_INT64)
        message.field.add(name="child", number=2, type=KINDS.TYPE_MESSAGE, type_name=".Node")
        number, payload = registry.add("orders-value", file, kind="PROTOBUF"), b"\0\x08\7"
    given = {"valueFormat": value_format, "schemaRegistryUrl": registry.url}
    found = decoded([framed(number, payload)], pa.struct([("id", pa.int64())]), **given)
    assert (found.values.to_pylist(), found.failures) == ([{"id": 7}], {})
    with pytest.raises(SchemaError, match=r"Node(, which)? contains itself"):
        decoded([], **given)


def test_an_avro_value_that_contains_itself_very_often_does_not_decode(tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "child", "type": ["null", "Node"]}]
    (tmp_path / "node.avsc").write_text(json.dumps({"type": "record", "name": "Node", "fields": fields}))
    given = {"valueFormat": "avro", "valueSchemaFile": str(tmp_path / "node.avsc")}
    values = [b"\x0e\x02" * depth + b"\x0e\0" for depth in (0, 2_000, 100_000)]
    found = decoded(values, pa.struct([("id", pa.int64())]), **given)
    assert found.values.to_pylist() == [{"id": 7}, {"id": 7}, None]
    assert "RecursionError" in found.failures[2]


def nodes_in_avro(registry: SchemaRegistryServer, node: dict[str, Any]) -> tuple[int, bytes]:
    fields = [
        {"name": "who", "type": "string"},
        {"name": "cause", "type": ["null", "Node"], "default": None},
        {"name": "all", "type": {"type": "array", "items": "Node"}, "default": []},
        {"name": "by", "type": {"type": "map", "values": "Node"}, "default": {}},
        {"name": "odd", "type": ["null", "long", "Node"], "default": None},
    ]
    of_node = {"type": "record", "name": "Node", "fields": fields}
    schema = {"type": "record", "name": "Order", "fields": [{"name": "node", "type": of_node}]}
    return registry.add("orders-value", schema), avro({"node": node}, schema)


def nodes_in_protobuf(registry: SchemaRegistryServer, node: dict[str, Any]) -> tuple[int, bytes]:
    file = descriptor_pb2.FileDescriptorProto(name="node.proto", syntax="proto3")
    one, many = KINDS.LABEL_OPTIONAL, KINDS.LABEL_REPEATED
    of_node = {"type": KINDS.TYPE_MESSAGE, "type_name": ".Node"}
    file.message_type.add(name="Order").field.add(name="node", number=1, label=one, **of_node)
    message = file.message_type.add(name="Node")
    entry = message.nested_type.add(name="ByEntry", options={"map_entry": True})
    entry.field.add(name="key", number=1, type=KINDS.TYPE_STRING, label=one)
    entry.field.add(name="value", number=2, label=one, **of_node)
    message.field.add(name="who", number=1, type=KINDS.TYPE_STRING, label=one)
    message.field.add(name="cause", number=2, label=one, **of_node)
    message.field.add(name="all", number=3, label=many, **of_node)
    message.field.add(name="by", number=4, label=many, type=KINDS.TYPE_MESSAGE, type_name=".Node.ByEntry")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    made = GetMessageClass(pool.FindMessageTypeByName("Order"))(node=node)
    return registry.add("orders-value", file, kind="PROTOBUF"), b"\0" + made.SerializeToString()


WHO = pa.struct([("who", pa.string())])


@pytest.mark.parametrize("nodes_in", [nodes_in_avro, nodes_in_protobuf])
def test_a_message_that_contains_itself_inside_a_field_is_read_as_deep_as_the_schema(
    nodes_in: Callable[[SchemaRegistryServer, dict[str, Any]], tuple[int, bytes]],
    registry: SchemaRegistryServer,
) -> None:
    node = {"who": "a", "cause": {"who": "b"}, "all": [{"who": "c"}], "by": {"d": {"who": "e"}}}
    number, payload = nodes_in(registry, node)
    given = {"valueFormat": nodes_in.__name__.rpartition("_")[2], "schemaRegistryUrl": registry.url}

    def read_as(of_node: pa.DataType) -> Any:
        found = decoded([framed(number, payload)], pa.struct([("node", of_node)]), **given)
        assert found.failures == {}
        return found.values[0].as_py()["node"]

    assert read_as(WHO) == {"who": "a"}
    assert read_as(pa.struct([("cause", WHO)])) == {"cause": {"who": "b"}}
    lists = pa.struct([("ALL", pa.list_(WHO)), ("by", pa.map_(pa.string(), WHO)), ("new", pa.int64())])
    assert read_as(lists) == {"ALL": [{"who": "c"}], "by": [("d", {"who": "e"})], "new": None}
    with pytest.raises(SchemaError, match=r"Node(, which)? contains itself"):
        decoded([], **given)
    text = pa.struct([("node", pa.struct([("cause", pa.string())]))])
    assert "contains itself" in decoded([framed(number, payload)], text, **given).failures[0]


def test_a_value_without_a_required_field_does_not_decode() -> None:
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    kind = pa.struct(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("list", pa.list_(inner)),
            pa.field("one", inner),
            pa.field("map", pa.map_(pa.string(), pa.field("value", inner, nullable=False))),
        ]
    )
    values = [
        b'{"id": 1, "list": [{"a": 1}], "one": {"a": 1}, "map": {"x": {"a": 1}, "y": {"a": 2}}}',
        b'{"list": []}',
        None,
        b'{"id": 1, "list": [{"a": 1}, {}]}',
        b'{"id": 1, "one": {}}',
        b'{"id": 2}',
        b'{"id": 3, "map": {"x": {"a": 1}, "y": null}}',
        b'{"id": 4, "map": {"x": {}}}',
        b'{"id": 5, "map": {}}',
    ]
    found = decoded(values, kind, valueFormat="json")
    assert found.failures == {
        1: "its field id is NOT NULL, but has no value",
        3: "its field list.a is NOT NULL, but has no value",
        4: "its field one.a is NOT NULL, but has no value",
        6: "its field map.value is NOT NULL, but has no value",
        7: "its field map.value.a is NOT NULL, but has no value",
    }
    assert [row for row, value in enumerate(found.values.to_pylist()) if value is not None] == [0, 5, 8]


@pytest.mark.parametrize(
    ("given", "kind", "match"),
    [
        ({"valueFormat": "json"}, None, "the fields of the values are not known"),
        ({"valueFormat": "json"}, pa.binary(), "decoded values are a struct"),
        ({"valueFormat": "string"}, pa.binary(), "decoded values are a string"),
        ({"valueFormat": "avro"}, pa.struct([("a", pa.int64())]), "needs the schema"),
        ({"valueFormat": "avro", "valueSchemaFile": "/nowhere"}, None, "cannot be read: FileNotFoundError"),
        (
            {"valueFormat": "avro", "schemaRegistryUrl": "http://u:p@h"},
            None,
            "without credentials is expected",
        ),
    ],
)
def test_a_missing_or_wrong_schema_is_named(
    given: dict[str, str], kind: pa.DataType | None, match: str
) -> None:
    with pytest.raises((SchemaError, OptionError), match=match):
        decoded([], kind, **given)


def test_the_fields_of_json_values_may_come_from_a_file_with_ddl(tmp_path: Path) -> None:
    (tmp_path / "order.ddl").write_text("id BIGINT, name STRING")
    given = {"valueFormat": "json", "valueSchemaFile": str(tmp_path / "order.ddl")}
    assert decoded([b'{"id": 1}'], **given).values.to_pylist() == [{"id": 1, "name": None}]


KINDS = descriptor_pb2.FieldDescriptorProto
INSTANT = pa.timestamp("us", "UTC")
SECONDS = 1767312000


def descriptor_set(folder: Path, file: descriptor_pb2.FileDescriptorProto) -> dict[str, str]:
    """The options of a query whose values have the message types of ``file``."""
    path = folder / "messages.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return {"valueFormat": "protobuf", "valueSchemaFile": str(path)}


UNFIT = [
    pytest.param(
        pa.struct([("at", INSTANT)]), {"at": SECONDS}, {"at": SECONDS * 10**9},
        {"at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)}, id="seconds that are nanoseconds",
    ),
    pytest.param(
        pa.struct([("data", pa.string())]), {"data": b"ok"}, {"data": b"\xff"}, {"data": "ok"},
        id="bytes that are not UTF-8",
    ),
    pytest.param(
        pa.struct([("counts", pa.map_(pa.string(), pa.int16()))]), {"counts": {"a": 1}},
        {"counts": {"a": 70_000}}, {"counts": [("a", 1)]}, id="an int32 that is no SMALLINT",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fit", "unfit", "row"), UNFIT)
@pytest.mark.parametrize("schema_from", ["file", "registry"])
def test_a_protobuf_value_that_does_not_fit_its_type_fails_alone(
    kind: pa.StructType,
    fit: dict[str, object],
    unfit: dict[str, object],
    row: dict[str, object],
    schema_from: str,
    registry: SchemaRegistryServer,
    tmp_path: Path,
) -> None:
    values = [message(**fit), message(**unfit), None, message(**fit), b"\xff", message(**unfit)]
    if schema_from == "file":
        given = descriptor_set(tmp_path, descriptors())
    else:
        number = registry.add("orders-value", descriptors(), kind="PROTOBUF")
        given = {"valueFormat": "protobuf", "schemaRegistryUrl": registry.url}
        values = [value if value is None else framed(number, b"\0" + value) for value in values]
    found = decoded(values, kind, **given)
    assert found.values.to_pylist() == [row, None, None, row, None, None]
    assert sorted(found.failures) == [1, 4, 5]
    assert "it has a value that does not fit its type: " in found.failures[1]


def test_a_string_of_proto2_that_is_not_utf_8_fails_alone(tmp_path: Path) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="two.proto", package="two", syntax="proto2")
    file.message_type.add(name="Text").field.add(
        name="text", number=1, type=KINDS.TYPE_STRING, label=KINDS.LABEL_OPTIONAL
    )
    found = decoded([b"\x0a\x01a", b"\x0a\x01\xff", b""], **descriptor_set(tmp_path, file))
    assert found.values.to_pylist() == [{"text": "a"}, None, {"text": None}]
    assert list(found.failures) == [1]


def test_a_column_of_a_type_that_no_value_has_fails_every_value(registry: SchemaRegistryServer) -> None:
    number = registry.add("orders-value", descriptors(), kind="PROTOBUF")
    given = {"valueFormat": "protobuf", "schemaRegistryUrl": registry.url}
    values = [framed(number, b"\0" + message(id=1))] * 2
    found = decoded(values, pa.struct([("id", pa.bool_())]), **given)
    assert sorted(found.failures) == [0, 1]
    assert "column id" in found.failures[0]


ID_AND_NAME = pa.struct([("id", pa.int64()), ("name", pa.string())])
SCHEMA = pa.schema(
    [pa.field("value", ID_AND_NAME), pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]
)


def test_json_values_are_structs_next_to_the_columns_that_the_schema_names(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b'{"id": 1, "name": "a"}', None, b'{"name": "b",\n"id": 2}'])
    engine = read(kafka, topic, valueFormat="json", schema=SCHEMA)
    assert engine.rows == [({"id": 1, "name": "a"}, 0, 0), (None, 0, 1), ({"id": 2, "name": "b"}, 0, 2)]
    engine.stop()


def test_a_value_that_does_not_decode_stops_the_query_with_its_record(kafka: KafkaBroker) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, [b'{"id": 1}'])
    kafka.produce(topic, [b'{"id": 2}', b'{"id": "x"}', b"broken"], partition=1)
    engine = stream(kafka, topic, valueFormat="json", schema=SCHEMA, parallelism=1)
    with pytest.raises(
        SplitReadError, match=rf"the record {topic}/1 at offset 1 cannot be decoded: its field id "
    ):
        engine.process_all_available()
    assert engine.rows == []
    again = read(kafka, topic, valueFormat="json", schema=SCHEMA, onRecordError="null")
    assert sorted(row[1:] for row in again.rows if row[0] is None) == [(1, 1), (1, 2)]
    assert len(again.rows) == 4
    again.stop()


def test_the_columns_come_from_the_schema_in_the_registry(
    kafka: KafkaBroker, registry: SchemaRegistryServer
) -> None:
    topic = kafka.topic()
    order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    number = registry.add(f"{topic}-value", order)
    kafka.produce(topic, [framed(number, avro({"id": 7}, order))])
    engine = stream(kafka, topic, valueFormat="avro", schemaRegistryUrl=registry.url)
    assert engine.schema.field("value").type == pa.struct([("id", pa.int64())])
    engine.process_all_available()
    assert [row[1] for row in engine.rows] == [{"id": 7}]
    engine.stop()


def test_a_schema_that_does_not_match_the_value_format_is_refused(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.filled_topic([b"{}"])
    flat = pa.schema([pa.field("id", pa.int64())])
    engine = stream(kafka, topic, valueFormat="json", schema=flat)
    with pytest.raises(SchemaError, match="the schema has id int64"):
        engine.process_all_available()
    with pytest.raises(SchemaError, match="the fields of the values are not known"):
        stream(kafka, topic, valueFormat="json")
