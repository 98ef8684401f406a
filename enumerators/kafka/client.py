"""Creates Kafka clients from the properties; their errors and log lines show no secrets.

confluent-kafka is imported here, when the first client is created; other modules get it from
:func:`imported`.
"""

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from flip27_source.enumerators.kafka.client_properties import ClientProperties
from flip27_source.errors import AccessError, OptionError
from flip27_source.log import LOG
from flip27_source.optional_packages import needed

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka.admin import AdminClient

Consumer: TypeAlias = "confluent_kafka.Consumer"
Message: TypeAlias = "confluent_kafka.Message"

SHOWN_EVERY_S = 60.0
_MOST_KINDS = 1000
_VARYING = re.compile(r"\d+(?=ms\b|\]| identical)")
"""Durations, the number of a client, and how many lines librdkafka itself has left out."""

_OF_CONSUMERS = {
    # A consumer whose queue is full checks it again after this time. librdkafka's default is a second, and a
    # task empties the queue much sooner.
    "fetch.queue.backoff.ms": "2",
    # Only records that exist are fetched; a request that waits for more would delay the next range.
    "fetch.wait.max.ms": "10",
}


class KafkaError(AccessError):
    """The brokers cannot be reached, or refused a request.

    Attributes:
        code: librdkafka's code of the error; None if there is none.
        may_pass: for the answer of a broker: whether it is not that the user lacks a right; otherwise None.
    """

    def __init__(
        self, what: str, *, remedy: str | None = None, code: int | None = None, may_pass: bool | None = None
    ) -> None:
        super().__init__(what, remedy=remedy)
        self.code = code
        self.may_pass = may_pass


def imported() -> Any:
    """The module confluent_kafka."""
    with needed("confluent-kafka", by="the kafka source", extra="kafka", error_type=OptionError):
        import confluent_kafka
    return confluent_kafka


def new_consumer(
    properties: ClientProperties, on_error: Callable[[Any], None] = lambda _error: None
) -> Consumer:
    """A consumer that does not join a group.

    Args:
        on_error: takes errors of connections, which librdkafka retries.
    """
    values = {**_OF_CONSUMERS, **properties.values, "error_cb": on_error}
    consumer: Consumer = _made(properties.clients.consumer or imported().Consumer, properties, values)
    return consumer


def new_admin(properties: ClientProperties) -> AdminClient:
    imported()
    from confluent_kafka.admin import AdminClient

    own = {"isolation.level", "group.id", "auto.offset.reset", "enable.partition.eof"}
    own |= {"enable.auto.commit", "enable.auto.offset.store", "check.crcs"}
    values = {name: value for name, value in properties.values.items() if name not in own}
    admin: AdminClient = _made(properties.clients.admin or AdminClient, properties, values)
    return admin


def failed(properties: ClientProperties, doing: str, error: Any) -> KafkaError:
    """The error for a request that failed while ``doing`` something.

    Args:
        error: a KafkaException, or the KafkaError in it or in a partition.
    """
    if isinstance(error, BaseException) and error.args:
        error = error.args[0]
    code = error.code() if hasattr(error, "code") else None
    name = error.name() if hasattr(error, "name") else type(error).__name__
    said = error.str() if hasattr(error, "str") else str(error)
    return KafkaError(
        properties.hidden.in_text(f"{doing} failed at {properties.place}: {said} [{name}]"),
        remedy=_REMEDIES.get(name, _DEFAULT_REMEDY),
        code=code,
        may_pass=None if code is None or code < _SMALLEST_OF_BROKERS else "AUTH" not in name,
    )


def _made(kind: Any, properties: ClientProperties, values: Any) -> Any:
    kafka = imported()
    try:
        return kind(dict(values), logger=_MaskedLogger(properties))
    except (kafka.KafkaException, ValueError, TypeError) as error:
        said = error.args[0].str() if error.args and hasattr(error.args[0], "str") else str(error)
        raise OptionError(
            properties.hidden.in_text(f"the options kafka.* are invalid: {said}"),
            remedy="use the names and values of librdkafka's properties, with the prefix kafka.",
        ) from None


class _MaskedLogger(logging.Logger):
    """The logger of one client, which masks secrets in librdkafka's messages."""

    def __init__(self, properties: ClientProperties) -> None:
        super().__init__(f"{LOG.name}.kafka")
        self.parent = LOG
        self._properties = properties

    def handle(self, record: logging.LogRecord) -> None:
        said = self._properties.hidden.in_text(record.getMessage())
        if record.levelno >= logging.WARNING:
            more = _repeated.since_shown(said, self._properties.clients.now_s())
            if more is None:
                return
            said += f" (and {more} more such lines since the last one)" if more else ""
        record.msg = said
        record.args = ()
        LOG.handle(record)  # with the ids that it adds


class RepeatedLines:
    """Log lines that are equal, whichever client and however long: one is shown, and then one a minute.

    librdkafka logs each attempt to connect to a broker, about 20 a second.
    """

    def __init__(self) -> None:
        self._shown: dict[str, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def since_shown(self, line: str, now_s: float) -> int | None:
        """How many such lines were not shown since the last one; None if this one is not shown either."""
        kind = _VARYING.sub("", line)
        with self._lock:
            shown_s, hidden = self._shown.get(kind, (-math.inf, 0))
            if now_s - shown_s < SHOWN_EVERY_S:
                self._shown[kind] = shown_s, hidden + 1
                return None
            if len(self._shown) >= _MOST_KINDS:
                self._shown.clear()
            self._shown[kind] = now_s, 0
            return hidden


_repeated = RepeatedLines()


_SMALLEST_OF_BROKERS = -1
"""The smallest code that brokers send; librdkafka's own ones are -100 and less."""

_DEFAULT_REMEDY = "check kafka.bootstrap.servers and that this machine reaches the brokers"
_REMEDIES = {
    "_AUTHENTICATION": "check kafka.security.protocol, kafka.sasl.mechanism and the user and password",
    "_BAD_MSG": "if a response is too large, raise kafka.receive.message.max.bytes",
    "_SSL": "check kafka.security.protocol and kafka.ssl.ca.location",
    "TOPIC_AUTHORIZATION_FAILED": "grant the user READ and DESCRIBE on the topic",
    "GROUP_AUTHORIZATION_FAILED": "grant the user READ on the group, or set groupIdPrefix or kafka.group.id",
    "CLUSTER_AUTHORIZATION_FAILED": "grant the user DESCRIBE on the topics",
    "UNKNOWN_TOPIC_OR_PART": "check the name of the topic, and that the user may DESCRIBE it",
    "_UNKNOWN_TOPIC": "check the name of the topic, and that the user may DESCRIBE it",
}
