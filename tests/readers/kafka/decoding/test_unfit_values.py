"""Protobuf values that do not fit the type of their column fail alone, without the rest of their block."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from tests.readers.kafka.decoding.test_values import decoded, descriptors, message
from tests.schema_registry_server import SchemaRegistryServer, framed

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
