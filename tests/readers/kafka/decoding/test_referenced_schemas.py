"""Schemas of a registry that need other schemas: references, and the files that Protobuf itself has."""

from __future__ import annotations

from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)

from tests.readers.kafka.decoding.test_values import FULL, FULL_ROW, avro, decoded, descriptors
from tests.schema_registry_server import SchemaRegistryServer, framed

KINDS = descriptor_pb2.FieldDescriptorProto
OF_PROTOBUF = (
    any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2, struct_pb2,
    timestamp_pb2, type_pb2, wrappers_pb2,
)  # fmt: skip


def record(name: dict[str, str], *fields: tuple[str, Any]) -> dict[str, Any]:
    """An Avro record; ``name`` has the keys name and namespace."""
    return {"type": "record", **name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


@pytest.mark.parametrize(
    "order_name",
    [
        {"name": "Order", "namespace": "shop"},
        {"name": "shop.Order"},
        {"name": "shop.Order", "namespace": "other"},
    ],
)
@pytest.mark.parametrize("money_name", [{"name": "Money", "namespace": "shop"}, {"name": "shop.Money"}])
def test_an_avro_schema_may_reference_other_schemas(
    order_name: dict[str, str], money_name: dict[str, str], registry: SchemaRegistryServer
) -> None:
    money = record(money_name, ("cents", "long"))
    registry.add("money", money)
    order = record(order_name, ("net", "Money"), ("tax", "shop.Money"))
    number = registry.add("orders-value", order, references=(("shop.Money", "money", 1),))
    row = {"net": {"cents": 1}, "tax": {"cents": 2}}
    whole = fastavro.parse_schema(record(order_name, ("net", money), ("tax", "shop.Money")))
    found = decoded([framed(number, avro(row, whole))], valueFormat="avro", schemaRegistryUrl=registry.url)
    assert found.values.to_pylist() == [row]


def test_an_avro_type_without_a_namespace_has_that_of_the_type_around_it(
    registry: SchemaRegistryServer,
) -> None:
    money = {"name": "Money", "namespace": "shop"}
    registry.add("money", record(money, ("cents", "long")))
    # The namespace of an array is an attribute without a meaning.
    nets = {"type": "array", "namespace": "other", "items": "Money"}
    inner = record({"name": "Inner"}, ("nets", nets))
    other = record({"name": "other.Other"}, ("tax", "shop.Money"))
    order = record({"name": "shop.Order"}, ("inner", inner), ("other", other))
    number = registry.add("orders-value", order, references=(("shop.Money", "money", 1),))
    row = {"inner": {"nets": [{"cents": 1}]}, "other": {"tax": {"cents": 2}}}
    written = record({"name": "Money"}, ("cents", "long"))
    whole = record(
        {"name": "Order"},
        ("inner", record({"name": "Inner"}, ("nets", {"type": "array", "items": written}))),
        ("other", record({"name": "Other"}, ("tax", "Money"))),
    )
    found = decoded([framed(number, avro(row, whole))], valueFormat="avro", schemaRegistryUrl=registry.url)
    assert found.values.to_pylist() == [row]


def file_with(
    name: str, message: str, *fields: tuple[str, int, str], imports: tuple[str, ...] = ()
) -> descriptor_pb2.FileDescriptorProto:
    """A file with one message; a field has a name, a kind, and the name of its message type."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax="proto3")
    file.dependency.extend(imports)
    made = file.message_type.add(name=message)
    for number, (field, kind, type_name) in enumerate(fields, 1):
        made.field.add(
            name=field, number=number, type=kind, type_name=type_name or None, label=KINDS.LABEL_OPTIONAL
        )
    return file


@pytest.mark.parametrize("money_file", ["shop/money.proto", "default", "value.proto"])
def test_a_protobuf_schema_may_reference_other_schemas(
    money_file: str, registry: SchemaRegistryServer
) -> None:
    currency = file_with("currency.proto", "Currency", ("code", KINDS.TYPE_STRING, ""))
    money = file_with(
        money_file, "Money", ("cents", KINDS.TYPE_INT64, ""), ("of", KINDS.TYPE_MESSAGE, ".shop.Currency"),
        imports=("currency.proto",),
    )  # fmt: skip
    order = file_with(
        "order.proto", "Order", ("net", KINDS.TYPE_MESSAGE, ".shop.Money"),
        ("home", KINDS.TYPE_MESSAGE, ".shop.Currency"), imports=(money_file, "currency.proto"),
    )  # fmt: skip
    registry.add("currency", currency, kind="PROTOBUF")
    to_currency = ("currency.proto", "currency", 1)
    registry.add("money", money, kind="PROTOBUF", references=(to_currency,))
    number = registry.add(
        "orders-value", order, kind="PROTOBUF", references=((money_file, "money", 1), to_currency)
    )
    pool = descriptor_pool.DescriptorPool()
    for file in (currency, money, order):
        pool.AddSerializedFile(file.SerializeToString())
    row = {"net": {"cents": 5, "of": {"code": "EUR"}}, "home": {"code": "CHF"}}
    value = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(**row)
    found = decoded(
        [framed(number, b"\0" + value.SerializeToString())],
        valueFormat="protobuf", schemaRegistryUrl=registry.url,
    )  # fmt: skip
    assert found.values.to_pylist() == [row]
    assert found.failures == {}


@pytest.mark.parametrize("module", OF_PROTOBUF, ids=lambda module: module.DESCRIPTOR.name)
def test_the_files_of_protobuf_itself_need_no_reference(module: Any, registry: SchemaRegistryServer) -> None:
    order = descriptors()
    if module.DESCRIPTOR.name not in order.dependency:
        order.dependency.append(module.DESCRIPTOR.name)
    number = registry.add("orders-value", order, kind="PROTOBUF")
    value = framed(number, b"\0" + FULL)
    found = decoded([value], valueFormat="protobuf", schemaRegistryUrl=registry.url)
    assert found.values.to_pylist() == [FULL_ROW]


def test_the_error_for_an_import_without_a_reference_has_its_name(registry: SchemaRegistryServer) -> None:
    order = file_with(
        "order.proto", "Order", ("id", KINDS.TYPE_INT64, ""), imports=("google/type/date.proto",)
    )
    number = registry.add("orders-value", order, kind="PROTOBUF")
    kind = pa.struct([("id", pa.int64())])
    given = {"valueFormat": "protobuf", "schemaRegistryUrl": registry.url}
    failures = decoded([framed(number, b"\0\x08\x01")], kind, **given).failures
    assert "google/type/date.proto" in failures[0]
    assert "register each file that the schema imports as a reference" in failures[0]


@pytest.mark.parametrize("schema", ['syntax = "proto3";', 1234], ids=["not base64", "not a descriptor"])
def test_the_records_of_a_protobuf_schema_without_a_descriptor_cannot_be_decoded(
    schema: Any, registry: SchemaRegistryServer
) -> None:
    number = registry.add("orders-value", schema, kind="PROTOBUF")
    given = {"valueFormat": "protobuf", "schemaRegistryUrl": registry.url}
    failures = decoded([framed(number, b"\0\x08\x01")], pa.struct([("id", pa.int64())]), **given).failures
    assert "has no serialized descriptors" in failures[0]
