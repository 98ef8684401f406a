"""Unions of Avro whose branches change from one schema of a registry to the next."""

from __future__ import annotations

from typing import Any

import pytest

from flip27_source.readers.kafka.decoding.value_schemas import value_type
from tests.readers.kafka.decoding.test_values import avro, decoded, options
from tests.schema_registry_server import SchemaRegistryServer, framed

CREATED: Any = {"type": "record", "name": "Created", "fields": [{"name": "amount", "type": "long"}]}
CANCELLED: Any = {"type": "record", "name": "Cancelled", "fields": [{"name": "reason", "type": "string"}]}
CREATED_ROW = ("Created", {"amount": 5})


def union(*branches: Any) -> Any:
    return {"type": "record", "name": "Event", "fields": [{"name": "what", "type": ["null", *branches]}]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([CREATED], [CREATED, CANCELLED], id="one branch becomes two"),
        pytest.param([CREATED, CANCELLED], [CREATED], id="two branches become one"),
        pytest.param([CREATED, CANCELLED], [CANCELLED, CREATED], id="another order"),
    ],
)
def test_a_union_whose_branches_do_not_match_those_of_the_query_is_a_failure_and_not_null(
    before: list[Any], after: list[Any], registry: SchemaRegistryServer
) -> None:
    registry.add("orders-value", union(*before))
    given = {"valueFormat": "avro", "schemaRegistryUrl": registry.url}
    kind = value_type(options(**given), ("orders",))
    second = registry.add("orders-value", union(*after))
    found = decoded([framed(second, avro({"what": CREATED_ROW}, union(*after)))], kind, **given)
    assert found.values.to_pylist() == [None]
    assert "column what: it is a union with other branches: " in found.failures[0]


def test_a_union_may_get_a_branch_at_its_end(registry: SchemaRegistryServer) -> None:
    registry.add("orders-value", union(CREATED, "string"))
    given = {"valueFormat": "avro", "schemaRegistryUrl": registry.url}
    kind = value_type(options(**given), ("orders",))
    wider = union(CREATED, "string", CANCELLED)
    second = registry.add("orders-value", wider)
    found = decoded([framed(second, avro({"what": CREATED_ROW}, wider))], kind, **given)
    assert found.values.to_pylist() == [{"what": {"member0": {"amount": 5}, "member1": None}}]
