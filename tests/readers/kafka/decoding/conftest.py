"""A schema registry for each test, and no client that a test before it made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flip27_source.readers.kafka.decoding import schema_registry as client
from tests.schema_registry_server import SchemaRegistryServer, schema_registry


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[SchemaRegistryServer]:
    monkeypatch.setattr(client, "_registries", {})
    with schema_registry() as server:
        yield server
