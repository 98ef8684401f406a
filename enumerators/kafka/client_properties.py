"""The properties of Kafka's client, from the options ``kafka.*``: names, secrets, and what is refused.

What must not live here: connections, which are in ``cluster`` and in ``readers.kafka.consumers``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flip27_source.enumerators.kafka.options import GROUP_ID_PREFIX, KAFKA
from flip27_source.environment_variables import variable_of
from flip27_source.errors import OptionError
from flip27_source.file_systems.secrets_in_texts import Hidden
from flip27_source.options import Options

_OF_JAVA = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
"""Properties of Kafka's Java client that have another name in librdkafka."""

WITHOUT_EFFECT = frozenset({
    "auto.include.jmx.reporter", "default.api.timeout.ms", "exclude.internal.topics", "max.poll.records",
    "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "partition.assignment.strategy", "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor", "sasl.login.connect.timeout.ms",
    "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
    "socket.connection.setup.timeout.max.ms", "ssl.keymanager.algorithm", "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm", "ssl.truststore.password",
})  # fmt: skip
"""Properties of Kafka's Java client that have no effect here."""

_REFUSED = {
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "offsets are stored with the query's checkpoints",
    "enable.auto.offset.store": "offsets are stored with the query's checkpoints",
    "enable.partition.eof": "it is always set",
    "interceptor.classes": "interceptors are not supported",
    "key.deserializer": "keys are bytes; convert them with functions of Spark",
    "value.deserializer": "values are bytes; convert them with functions of Spark",
    "key.serializer": "this is a source",
    "value.serializer": "this is a source",
    "transactional.id": "this is a source",
    "plugin.library.paths": "it would load a library",
}
_SECRET = re.compile(r"password|secret|token|jaas|\.pem$|oauthbearer\.config|private|keytab")
_JAAS_VALUE = r'\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))'


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The time that enumerator and reader use; tests and the simulator have clocks of their own.

    Attributes:
        now_s: seconds since an arbitrary moment; never goes back.
        wait_s: waits for the given number of seconds.
        present_s: seconds since 1970 (UTC).
    """

    now_s: Callable[[], float] = time.monotonic
    wait_s: Callable[[float], None] = time.sleep
    present_s: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients(Clock):
    """What clients are made of.

    Attributes:
        consumer, admin: are called as confluent-kafka's classes are; None for these classes.
    """

    consumer: Callable[..., Any] | None = None
    admin: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProperties:
    """The configuration of librdkafka.

    Attributes:
        values: the properties by name, including secrets.
        hidden: masks the secrets in texts.
        clients: what clients with these properties are made of.
    """

    values: Mapping[str, str] = field(repr=False)
    hidden: Hidden = field(repr=False, compare=False)
    clients: Clients = Clients()

    @property
    def place(self) -> str:
        """The brokers, for messages."""
        return f"Kafka at {self.values['bootstrap.servers']}"


def client_properties(options: Options) -> ClientProperties:
    """The properties that the options set, and those that this source needs."""
    given: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for name, text in options.texts_under(KAFKA).items():
        prop, value, is_indirect = _resolved(name, text)
        if prop in given:
            raise OptionError(f"kafka.{prop} is set twice", remedy="set it once, by one of its names")
        if is_indirect or _SECRET.search(prop):
            secrets[f"{prop} password"] = value
        given[prop] = value
    translated = _translated(given, secrets)
    if not translated.get("bootstrap.servers", "").strip():
        raise OptionError(
            "option kafka.bootstrap.servers is not set",
            remedy='add .option("kafka.bootstrap.servers", "host1:9092,host2:9092")',
        )
    own = {
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "enable.partition.eof": "true",
        "auto.offset.reset": "error",
    }
    defaults = {
        "check.crcs": "true",
        "client.id": "flip27",
        "group.id": f"{options[GROUP_ID_PREFIX] or 'flip27'}-reader",
        "isolation.level": "read_committed",
    }
    return ClientProperties(values={**defaults, **translated, **own}, hidden=Hidden(secrets))


def given_property(options: Options, prop: str) -> str | None:
    """The value that the options set for a property, directly or by an environment variable or a file."""
    for name, text in options.texts_under(KAFKA).items():
        if name.startswith(prop):
            resolved, value, _ = _resolved(name, text)
            if resolved == prop:
                return value
    return None


def _resolved(name: str, text: str) -> tuple[str, str, bool]:
    """A property, its value, and whether the value comes from an environment variable or a file."""
    for ending in ("env", "file"):
        prop = name.removesuffix(ending)
        if prop != name and prop and not prop.endswith((".", "-", "_")):
            option = f"kafka.{prop}{ending.capitalize()}"
            if ending == "env":
                return prop, variable_of(option, text), True
            return prop, _from_file(option, text), True
    return name, text, False


def _from_file(option: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8"
        raise OptionError(
            f"the file {path}, which option {option} names, cannot be read: {said}",
            remedy="put the file on the driver and on every executor node, readable for Spark's user",
        ) from None


def _translated(given: Mapping[str, str], secrets: dict[str, str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    for name, value in given.items():
        if name in _REFUSED:
            raise OptionError(
                f"option kafka.{name} cannot be set: {_REFUSED[name]}", remedy=f"leave kafka.{name} out"
            )
        translate = _CONVERTED.get(name)
        if translate is not None:
            converted = translate(value, given)
        elif name in WITHOUT_EFFECT:
            converted = {}
        else:
            converted = {_OF_JAVA.get(name, name): value}
        for prop, text in converted.items():
            if _SECRET.search(prop):
                secrets[f"{prop} password"] = text
        properties |= converted
    return properties


def _login(value: str, _given: Mapping[str, str]) -> dict[str, str]:
    """The user and the password in a JAAS configuration for Kafka's Java client."""
    is_known = re.search(r"\b(?:Plain|Scram)LoginModule\b", value) is not None
    user, password = (re.search(rf"\b{word}{_JAAS_VALUE}", value) for word in ("username", "password"))
    if not is_known or user is None or password is None:
        raise OptionError(
            "option kafka.sasl.jaas.config (not shown) is not a PlainLoginModule or ScramLoginModule with "
            "username and password",
            remedy="set kafka.sasl.mechanism, kafka.sasl.username and kafka.sasl.passwordEnv; for Kerberos "
            "and OAuth the properties sasl.kerberos.* and sasl.oauthbearer.* of librdkafka",
        )
    return {"sasl.username": _jaas_text(user), "sasl.password": _jaas_text(password)}


def _jaas_text(match: re.Match[str]) -> str:
    return match[2] if match[1] is None else re.sub(r"\\(.)", r"\1", match[1])


def _truststore(value: str, given: Mapping[str, str]) -> dict[str, str]:
    if given.get("ssl.truststore.type", "").upper() == "PEM":
        return {"ssl.ca.location": value}
    raise OptionError(
        f"option kafka.ssl.truststore.location has {value!r}: Java keystores are not supported",
        remedy="export the certificates as PEM (keytool -exportcert -rfc) and set kafka.ssl.ca.location",
    )


def _keystore_type(value: str, _given: Mapping[str, str]) -> dict[str, str]:
    if value.upper() == "PKCS12":
        return {}
    raise OptionError(
        f"option kafka.ssl.keystore.type has {value!r}: only PKCS12 keystores are supported",
        remedy="convert it (keytool -importkeystore -deststoretype PKCS12), or set "
        "kafka.ssl.certificate.location and kafka.ssl.key.location",
    )


_CONVERTED: Mapping[str, Callable[[str, Mapping[str, str]], dict[str, str]]] = {
    "sasl.jaas.config": _login,
    "ssl.truststore.location": _truststore,
    "ssl.truststore.type": lambda _value, _given: {},
    "ssl.keystore.type": _keystore_type,
    "ssl.endpoint.identification.algorithm": lambda value, _given: {
        "ssl.endpoint.identification.algorithm": value or "none"
    },
}
