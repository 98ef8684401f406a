"""The options for decoding values."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from flip27_source.environment_variables import variable_of
from flip27_source.errors import OptionError
from flip27_source.options import Option, Options, ReadingOption, one_of, optional


def _registry_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a URL with http or https and a host is expected")
    if parts.username is not None or parts.password is not None or parts.query:
        raise ValueError("a URL without credentials is expected; use schemaRegistryAuthEnv for them")
    return value.rstrip("/")


VALUE_FORMAT: Option[str | None] = ReadingOption(
    name="valueFormat",
    parse=optional(one_of("json", "avro", "protobuf", "string")),
    default_text="value stays binary",
    doc="The format from which values are decoded. The column value is then a struct; with string, a string.",
)
VALUE_SCHEMA_FILE: Option[str | None] = ReadingOption(
    name="valueSchemaFile",
    doc="Path or URL of the schema of the values, which the driver and every executor can read: for json "
    "the columns as DDL, for avro a schema (.avsc), for protobuf a descriptor set (protoc "
    "--include_imports --descriptor_set_out).",
)
VALUE_MESSAGE: Option[str | None] = ReadingOption(
    name="valueMessage",
    default_text="the first message type of the last file",
    doc="For protobuf, the full name of the message type: package.Message. With schemaRegistryUrl each value "
    "names its type, and values of other types then cannot be decoded.",
)
REGISTRY_URL: Option[str | None] = ReadingOption(
    name="schemaRegistryUrl",
    parse=optional(_registry_url),
    doc="URL of a schema registry with Confluent's API. Values then begin with the id of their schema, which "
    "each process requests once.",
)
REGISTRY_AUTH_ENV: Option[str | None] = ReadingOption(
    name="schemaRegistryAuthEnv",
    doc="Environment variable, on the driver and on every executor, that contains user:password for the "
    "registry.",
)
REGISTRY_TOKEN_ENV: Option[str | None] = ReadingOption(
    name="schemaRegistryTokenEnv",
    doc="Environment variable, on the driver and on every executor, that contains a bearer token for the "
    "registry.",
)
ON_RECORD_ERROR: Option[str] = ReadingOption(
    name="onRecordError",
    parse=one_of("fail", "null", "quarantine"),
    doc="What to do with a record whose value cannot be decoded: fail the query, naming the record; deliver "
    "it with a null value (null); or leave it out and keep it in the state with its bytes and the error, to "
    "be read later (quarantine). quarantine needs a stateLocation; maxQuarantinedSplits limits the number.",
)

DECODING_OPTIONS: tuple[Option[Any], ...] = (
    VALUE_FORMAT, VALUE_SCHEMA_FILE, VALUE_MESSAGE, REGISTRY_URL, REGISTRY_AUTH_ENV, REGISTRY_TOKEN_ENV,
    ON_RECORD_ERROR,
)  # fmt: skip


def registry_secrets(options: Options) -> tuple[tuple[str, str] | None, str | None]:
    """Credentials and token for the registry."""
    auth, token = (_variable(options, option) for option in (REGISTRY_AUTH_ENV, REGISTRY_TOKEN_ENV))
    if auth is None:
        return None, token
    if token is not None:
        raise OptionError(
            "schemaRegistryAuthEnv and schemaRegistryTokenEnv are both set", remedy="set one of them"
        )
    user, colon, password = auth.partition(":")
    if not colon:
        raise OptionError(
            f"the environment variable {options[REGISTRY_AUTH_ENV]} has no colon",
            remedy="set it to user:password",
        )
    return (user, password), None


def _variable(options: Options, option: Option[str | None]) -> str | None:
    name = options[option]
    if name is None:
        return None
    value = variable_of(option.name, name)
    if not value:
        raise OptionError(
            f"the environment variable {name}, which option {option.name} names, is empty",
            remedy="set it on the driver and on every executor",
        )
    return value


def decodes_values(options: Options) -> bool:
    return options[VALUE_FORMAT] is not None
