"""Kafka: records compared with a plain consumer, JSON compared with a file, requests, latency, planning.

A process measures one case, or several small ones, each with its own broker; :mod:`.kafka_cases` starts it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from tests.kafka_server import KafkaBroker, kafka_broker
from tests.postgres_server import HOST

from .server_cases import Compared

PROCESSES = 2
POLL_S = 0.1
"""The default of discoveryInterval."""

COLUMNS = (
    "id BIGINT, customer STRING, amount DOUBLE, quantity INT, is_paid BOOLEAN, currency STRING, "
    "ordered_at TIMESTAMP, country STRING, sku STRING, note STRING"
)
LIST_OFFSETS = 2
"""The kind of the requests for the ends of partitions."""

DEADLINE_S = 120.0


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure (`messages`, `json`, `idle`, `latency` or `planning`), and Spark's settings."""

    what: str
    conf: dict[str, str] = {}
    count: int
    partitions: int
    rounds: int


class Bench:
    """A broker, and a Spark session."""

    def __init__(self, broker: KafkaBroker, scratch: str, conf: Mapping[str, str]) -> None:
        from pyspark.sql import SparkSession

        self.broker, self.scratch = broker, scratch
        self.queries = 0
        self.batches_s = 0.0
        self.spark = (
            SparkSession.builder.master(f"local[{PROCESSES}]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config(map=dict(conf))
            .getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("ERROR")
        import pyspark_flip27

        self.spark.dataSource.register(pyspark_flip27.DefaultSource)

    def topic(self, topic: str, **options: str) -> Any:
        """The stream of a topic from its start."""
        return self.stream(
            {
                "enumerator": "kafka", "kafka.bootstrap.servers": self.broker.address, "subscribe": topic,
                "startingOffsets": "earliest", **options,
            }
        )  # fmt: skip

    def stream(self, options: dict[str, str], schema: str = "") -> Any:
        """The stream with these options and a state location of its own."""
        self.queries += 1
        reader = self.spark.readStream.format("flip27").options(**options)
        reader = reader.option("stateLocation", f"{self.scratch}/state{self.queries}")
        return (reader.schema(schema) if schema else reader).load()

    @property
    def checkpoint(self) -> str:
        """The checkpoint location of the newest stream."""
        return f"{self.scratch}/checkpoint{self.queries}"

    def read(self, frame: Any, rows: int) -> float:
        """Read a stream into a sink that keeps nothing; return the seconds it took."""
        began = time.perf_counter()
        query = (
            frame.writeStream.format("noop").trigger(availableNow=True)
            .option("checkpointLocation", self.checkpoint).start()
        )  # fmt: skip
        query.awaitTermination()
        took = time.perf_counter() - began
        found = sum(progress["numInputRows"] for progress in query.recentProgress)
        self.batches_s = sum(one["durationMs"]["triggerExecution"] for one in query.recentProgress) / 1000
        if found != rows:
            raise RuntimeError(f"the query has read {found} rows, not {rows}")
        return took


def messages(bench: Bench, spec: Spec) -> Compared:
    """Read all records of a topic, compared with consumers that only receive them."""
    topic = bench.broker.topic(spec.partitions)
    each = spec.count // spec.partitions
    value = b"x" * 100
    for partition in range(spec.partitions):
        bench.broker.produce_quickly(topic, (value for _ in range(each)), partition=partition)
    found = Compared(ours=[], peers={"consume": []})
    shares = [list(range(number, spec.partitions, PROCESSES)) for number in range(PROCESSES)]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        list(pool.map(_consumed, [bench.broker.address] * PROCESSES, [topic] * PROCESSES, shares, [0, 0]))
        for number in range(spec.rounds + 1):
            took = bench.read(bench.topic(topic), each * spec.partitions)
            began = time.perf_counter()
            list(pool.map(_consumed, [bench.broker.address] * PROCESSES, [topic] * PROCESSES, shares,
                          [each] * PROCESSES))  # fmt: skip
            consumed = time.perf_counter() - began
            if number:
                found.ours.append(took)
                found.batches.append(bench.batches_s)
                found.peers["consume"].append(consumed)
    return found


def _consumed(address: str, topic: str, partitions: list[int], each: int) -> None:
    """Receive the records of some partitions; runs in its own process."""
    from confluent_kafka import Consumer, TopicPartition

    properties = {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    # The same as in our reader: with librdkafka's default of a second, a consumer is mostly idle.
    consumer = Consumer({**properties, "fetch.queue.backoff.ms": 2})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    left = each * len(partitions)
    while left:
        taken = consumer.consume(10_000, 1)
        left -= len(taken)
        if any(message.error() for message in taken):
            raise RuntimeError(str(taken[-1].error()))
    consumer.close()


def json_values(bench: Bench, spec: Spec) -> Compared:
    """Decode JSON values to columns, compared with reading the same bytes from a file."""
    topic = bench.broker.topic(spec.partitions)
    each = spec.count // spec.partitions
    landing = Path(bench.scratch) / "landing"
    landing.mkdir()
    with (landing / "values.json").open("wb") as file:
        for partition in range(spec.partitions):
            values = [_value(partition * each + number) for number in range(each)]
            bench.broker.produce_quickly(topic, values, partition=partition)
            file.writelines(value + b"\n" for value in values)
    found = Compared(ours=[], peers={"file": []})
    rows = each * spec.partitions
    schema = f"value STRUCT<{COLUMNS}>"
    for number in range(spec.rounds + 1):
        options = {
            "enumerator": "kafka", "kafka.bootstrap.servers": bench.broker.address, "subscribe": topic,
            "startingOffsets": "earliest", "valueFormat": "json",
        }  # fmt: skip
        took = bench.read(bench.stream(options, schema).select("value.*"), rows)
        batches_s = bench.batches_s
        options = {"enumerator": "files", "reader": "json", "path": str(landing)}
        file_took = bench.read(bench.stream(options, COLUMNS), rows)
        if number:
            found.ours.append(took)
            found.batches.append(batches_s)
            found.peers["file"].append(file_took)
    return found


def _value(number: int) -> bytes:
    """A JSON value of about 300 bytes."""
    day, hour, second, thousandth = number % 28 + 1, number % 24, number % 60, number % 1000
    return json.dumps(
        {
            "id": number, "customer": f"customer {number * 7919 % 1_000_003}", "amount": number % 100_000 / 7,
            "quantity": number % 50, "is_paid": number % 3 == 0, "currency": "EUR",
            "ordered_at": f"2026-01-{day:02}T{hour:02}:00:{second:02}.{thousandth:03}Z",
            "country": f"country {number % 50}", "sku": f"sku-{number % 9973:06}", "note": "a note " * 10,
        }
    ).encode()  # fmt: skip


def idle(bench: Bench, spec: Spec) -> Compared:
    """Count the requests per poll for new records, and the batches, while a topic gets no records."""
    with counted_broker() as (broker, requests):
        topic = broker.topic(spec.partitions)
        address = f"{HOST}:{broker.advertised_port}"
        query = (
            bench.topic(topic, **{"kafka.bootstrap.servers": address}).writeStream.format("noop")
            .trigger(processingTime="0 seconds").option("checkpointLocation", bench.checkpoint).start()
        )  # fmt: skip
        try:
            _wait_until(query, lambda: query.lastProgress is not None and requests[LIST_OFFSETS] > 10)
            batch = query.lastProgress["batchId"]
            requests.clear()
            began = time.perf_counter()
            time.sleep(spec.count)
            polls = (time.perf_counter() - began) / POLL_S
            counted = sum(requests.values())
            batches = query.lastProgress["batchId"] - batch
        finally:
            query.stop()
    return Compared(ours=[counted / polls], peers={"batches": [float(batches)]})


def latency(bench: Bench, spec: Spec) -> Compared:
    """Measure the time from sending a record to its arrival in the sink."""
    topic = bench.broker.topic(spec.partitions)
    arrived: dict[bytes, float] = {}

    def sink(frame: Any, _batch: int) -> None:
        found = [bytes(row.value) for row in frame.select("value").collect()]
        arrived.update(dict.fromkeys(found, time.perf_counter()))

    producer = bench.broker.producer(linger_ms=0)
    query = (
        bench.topic(topic).writeStream.foreachBatch(sink).trigger(processingTime="0 seconds")
        .option("checkpointLocation", bench.checkpoint).start()
    )  # fmt: skip
    found: list[float] = []
    try:
        for number in range(spec.count + 5):
            value = b"%d" % number
            sent = time.perf_counter()
            producer.produce(topic, value, partition=0)
            producer.flush(DEADLINE_S)
            _wait_until(query, lambda value=value: value in arrived)
            if number >= 5:
                found.append(arrived[value] - sent)
    finally:
        query.stop()
    return Compared(ours=found)


def planning(bench: Bench, spec: Spec) -> Compared:
    """Measure the milliseconds that planning a batch of all partitions takes, and the bytes of its offset."""
    topic = bench.broker.topic(spec.partitions)
    query = (
        bench.topic(topic).writeStream.format("noop").trigger(processingTime="0 seconds")
        .option("checkpointLocation", bench.checkpoint).start()
    )  # fmt: skip
    found = Compared(ours=[], peers={"offset": []})
    producer = bench.broker.producer(linger_ms=0)
    rows = 0
    try:
        _wait_until(query, lambda: query.lastProgress is not None)
        for number in range(spec.rounds + 1):
            before = query.lastProgress["batchId"]
            for partition in range(spec.partitions):
                producer.produce(topic, b"x", partition=partition)
                producer.poll(0)
            producer.flush(DEADLINE_S)
            rows += spec.partitions
            _wait_until(query, lambda rows=rows: _rows(query) >= rows)
            if number:
                batches = [one for one in query.recentProgress if one["batchId"] > before]
                largest = max(batches, key=lambda one: one["numInputRows"])
                found.ours.append(float(largest["durationMs"]["latestOffset"]))
                end = json.loads(largest.json)["sources"][0]["endOffset"]
                offset = json.dumps(end, separators=(",", ":"))
                found.peers["offset"].append(float(len(offset)))
    finally:
        query.stop()
    return found


def _rows(query: Any) -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def _wait_until(query: Any, condition: Any) -> None:
    deadline = time.perf_counter() + DEADLINE_S
    while not condition():
        if not query.isActive or time.perf_counter() > deadline:
            raise RuntimeError(f"the query makes no progress: {query.exception()}")
        time.sleep(0.001)


@contextlib.contextmanager
def counted_broker() -> Iterator[tuple[KafkaBroker, Counter[int]]]:
    """A broker whose advertised port is that of a proxy, which counts the requests by their kind."""
    requests: Counter[int] = Counter()
    with (
        socket.create_server((HOST, 0)) as server,
        kafka_broker("tansu", advertised_port=server.getsockname()[1]) as broker,
    ):
        threading.Thread(target=_accept, args=(server, broker.port, requests), daemon=True).start()
        yield broker, requests


def _accept(server: socket.socket, port: int, requests: Counter[int]) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = server.accept()
            broker = socket.create_connection((HOST, port))
            threading.Thread(target=_count, args=(client, broker, requests), daemon=True).start()
            threading.Thread(target=_copy, args=(broker, client), daemon=True).start()


def _count(client: socket.socket, broker: socket.socket, requests: Counter[int]) -> None:
    """Forward requests and count them. A request begins with its size, followed by its kind."""
    with contextlib.suppress(OSError), client, broker, client.makefile("rb") as stream:
        while len(head := stream.read(4)) == 4:
            body = stream.read(struct.unpack(">i", head)[0])
            requests[struct.unpack(">h", body[:2])[0]] += 1
            broker.sendall(head + body)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)


MEASURES = {
    "messages": messages, "json": json_values, "idle": idle, "latency": latency, "planning": planning,
}  # fmt: skip


def main() -> None:
    """Measure what each argument specifies, each with a new broker, and print each result as a line."""
    specs = [msgspec.json.decode(argument, type=Spec) for argument in sys.argv[1:]]
    for number, spec in enumerate(specs, start=1):
        with kafka_broker("tansu") as broker, tempfile.TemporaryDirectory(prefix="flip27-bench-") as scratch:
            bench = Bench(broker, scratch, spec.conf)
            found = MEASURES[spec.what](bench, spec)
            if number == len(specs):
                bench.spark.stop()
        print(msgspec.json.encode(found).decode(), flush=True)


if __name__ == "__main__":
    main()
