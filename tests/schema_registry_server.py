"""A schema registry on this machine, for tests: the part of Confluent's API that serves schemas."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.server_process import Answering, web_server


@dataclass(slots=True, kw_only=True)
class SchemaRegistryServer:
    """Schemas by id and by subject, on a server that ``schema_registry`` creates and starts.

    Attributes:
        requests: the paths that clients have requested.
        credentials: the user:password that a client needs; empty if it needs none.
        failures: how many of the next requests fail.
        failure: the status and the body of the responses to them.
    """

    url: str = ""
    requests: list[str] = field(default_factory=list)
    credentials: str = ""
    token: str = ""
    failures: int = 0
    failure: tuple[int, bytes] = (503, b'{"message": "busy"}')
    _schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    _subjects: dict[str, list[int]] = field(default_factory=dict)

    def add(
        self,
        subject: str,
        schema: Any,
        *,
        kind: str = "AVRO",
        references: tuple[tuple[str, str, int], ...] = (),
    ) -> int:
        """Register a schema and return its id. All but a FileDescriptorProto becomes JSON.

        Confluent's registry names each file of Protobuf "default", whatever the references to it are called.

        Args:
            references: name, subject and version of each reference.
        """
        if isinstance(schema, FileDescriptorProto):
            file = FileDescriptorProto()
            file.CopyFrom(schema)
            file.name = "default"
            text = base64.b64encode(file.SerializeToString()).decode()
        else:
            text = json.dumps(schema)
        stored: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            stored["schemaType"] = kind
        if references:
            stored["references"] = [
                {"name": name, "subject": needed, "version": version} for name, needed, version in references
            ]
        number = len(self._schemas) + 1
        self._schemas[number] = stored
        self._subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str, authorization: str) -> tuple[int, bytes]:
        """The status and the body of the response to a request."""
        self.requests.append(path)
        if self.failures:
            self.failures -= 1
            return self.failure
        status, found = self._found(path, authorization)
        return status, json.dumps(found).encode()

    def _found(self, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        wanted = f"Basic {base64.b64encode(self.credentials.encode()).decode()}" if self.credentials else ""
        wanted = f"Bearer {self.token}" if self.token else wanted
        if authorization != wanted:
            return 401, {"error_code": 401, "message": "unauthorized"}
        code = 404
        match unquote(urlsplit(path).path).split("/")[1:]:
            case ["schemas", "ids", number]:
                if int(number) in self._schemas:
                    return 200, self._schemas[int(number)]
                code = 40403
            case ["subjects", subject, "versions", version]:
                numbers = self._subjects.get(subject, [])
                at = len(numbers) if version == "latest" else int(version)
                if 0 < at <= len(numbers):
                    found = numbers[at - 1]
                    return 200, {"subject": subject, "id": found, **self._schemas[found]}
                code = 40402 if numbers else 40401
        return 404, {"error_code": code, "message": "not found"}


@contextmanager
def schema_registry() -> Iterator[SchemaRegistryServer]:
    """Run a registry without schemas."""
    registry = SchemaRegistryServer()

    class Handler(Answering):
        def do_GET(self) -> None:
            self.answer(*registry.answer(self.path, self.headers.get("Authorization", "")))

    with web_server(Handler) as registry.url:
        yield registry


def framed(number: int, payload: bytes) -> bytes:
    """A payload with the header of the wire format, which contains the schema's id."""
    return b"\0" + number.to_bytes(4, "big") + payload
