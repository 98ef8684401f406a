"""A client of schema registries with Confluent's API: schemas by id, and the latest schema of a subject.

A process requests the schema of an id, or of a numbered version, only once, because it never changes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from flip27_source.errors import AccessError, OptionError
from flip27_source.file_systems.paths import redacted
from flip27_source.optional_packages import needed

_LATEST = "latest"
_TIMEOUT_S = 10.0
_RETRIES = 5
_BUSY = (429, 500, 502, 503, 504)
_NOT_FOUND = 404
_UNKNOWN = (40401, 40402, 40403)
"""The codes in the bodies of a registry: no such subject, version or schema."""
_REFUSED = (401, 403)
_MOST_SCHEMA_BYTES = 16 << 20
_PIECE_BYTES = 1 << 16


class UnknownSchemaError(Exception):
    """The registry has no such schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema.

    Attributes:
        kind: ``AVRO``, ``PROTOBUF`` or ``JSON``.
        text: the schema; for Protobuf a FileDescriptorProto in base64.
        references: the schemas that it needs, by the names that it uses for them; each comes after those
            that it needs itself.
    """

    kind: str
    text: str
    references: Mapping[str, RegisteredSchema]


def imported_requests() -> Any:
    with needed("requests", by="schemaRegistryUrl", extra="kafka,http"):
        import requests
    return requests


class SchemaRegistry:
    """Requests schemas from a registry and keeps them. ``registry_at`` returns the instance of the process.

    Args:
        credentials: user and password.
        token: a bearer token, used instead if there are no credentials.
    """

    def __init__(
        self, url: str, *, credentials: tuple[str, str] | None = None, token: str | None = None
    ) -> None:
        requests = imported_requests()
        from requests.adapters import HTTPAdapter
        from urllib3 import Retry

        self.place = redacted(url)
        self._url = url.rstrip("/")
        self._session: Any = requests.Session()
        # Do not use the credentials of a netrc file.
        self._session.trust_env = False
        self._session.headers["Accept"] = "application/vnd.schemaregistry.v1+json"
        if credentials is not None:
            self._session.auth = credentials
        elif token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"
        retry = Retry(
            total=_RETRIES, backoff_factor=0.2, status_forcelist=_BUSY, allowed_methods=("GET",),
            raise_on_status=False, respect_retry_after_header=False,
        )  # fmt: skip
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retry))
        self._error: Any = requests.RequestException
        self._known: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def schema(self, number: int) -> RegisteredSchema:
        """The schema with this id.

        Raises:
            UnknownSchemaError: the registry has no such schema.
            OptionError: the registry refuses the credentials.
            AccessError: the registry does not answer, or its answer is not a schema.
        """
        return self._schema(f"/schemas/ids/{number}")

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject; raises the same errors as ``schema``."""
        return self._schema(f"/subjects/{quote(subject, safe='')}/versions/{_LATEST}")

    def _schema(self, path: str) -> RegisteredSchema:
        schema = self._answer(path)
        kind = schema.get("schemaType", "AVRO")
        if kind == "PROTOBUF":
            schema = self._answer(f"{path}?format=serialized")
        references: dict[str, RegisteredSchema] = {}
        for reference in schema.get("references") or ():
            subject, version = quote(str(reference["subject"]), safe=""), int(reference["version"])
            needed = self._schema(f"/subjects/{subject}/versions/{version}")
            references.update(needed.references)
            references[str(reference["name"])] = needed
        return RegisteredSchema(kind=str(kind), text=str(schema["schema"]), references=references)

    def _answer(self, path: str) -> dict[str, Any]:
        with self._lock:
            if path not in self._known or f"/versions/{_LATEST}" in path:
                self._known[path] = self._requested(path)
            return self._known[path]

    def _requested(self, path: str) -> dict[str, Any]:
        request = {"timeout": _TIMEOUT_S, "allow_redirects": False, "stream": True}
        body = bytearray()
        try:
            with self._session.get(self._url + path, **request) as answer:
                for piece in answer.iter_content(_PIECE_BYTES):
                    body += piece
                    if len(body) > _MOST_SCHEMA_BYTES:
                        raise self._failed(path, f"its response is larger than {_MOST_SCHEMA_BYTES:,} bytes")
        except self._error as error:
            raise self._failed(path, type(error).__name__) from None
        if answer.status_code == _NOT_FOUND:
            # A proxy also answers 404, for example while the registry restarts.
            if _error_code(body) not in _UNKNOWN:
                raise self._failed(path, f"HTTP {_NOT_FOUND}")
            raise UnknownSchemaError(f"{self.place} has nothing at {path}")
        if answer.status_code in _REFUSED:
            raise OptionError(
                f"the schema registry {self.place} refuses the credentials: HTTP {answer.status_code}",
                remedy="set schemaRegistryAuthEnv or schemaRegistryTokenEnv to the name of an environment "
                "variable with credentials that may read schemas",
            )
        try:
            schema: dict[str, Any] = json.loads(body)
            schema["schema"].encode()
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self._failed(path, f"HTTP {answer.status_code} without a schema") from None
        return schema

    def _failed(self, path: str, why: str) -> AccessError:
        return AccessError(
            f"the schema registry {self.place} returned no schema for {path}: {why}",
            remedy="check schemaRegistryUrl and the registry, and restart the query: the batch is then read "
            "again",
        )


def _error_code(body: bytes | bytearray) -> Any:
    try:
        return json.loads(body)["error_code"]
    except (ValueError, TypeError, KeyError):
        return None


_lock = threading.Lock()
_registries: dict[tuple[str, tuple[str, str] | None, str | None], SchemaRegistry] = {}


def registry_at(url: str, credentials: tuple[str, str] | None, token: str | None) -> SchemaRegistry:
    """The client that this process uses for a registry."""
    with _lock:
        key = (url, credentials, token)
        if key not in _registries:
            _registries[key] = SchemaRegistry(url, credentials=credentials, token=token)
        return _registries[key]
