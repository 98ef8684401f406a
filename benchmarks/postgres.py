"""PostgreSQL: reading changes and rows compared with the server alone, latency, and memory of a task.

A process measures one case, or several small ones, with its own server; :mod:`.postgres_cases` starts it.
"""

from __future__ import annotations

import contextlib
import select
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import psutil
import psycopg

from tests.postgres_server import PostgresServer, postgres_server

from .server_cases import Compared

DEADLINE_S = 30.0

COLUMNS = (
    "id bigint PRIMARY KEY, customer int, product int, amount numeric(12,2), ordered_at timestamptz, "
    "is_paid boolean, country text, street text, weight double precision, note text"
)
ROW = (
    "i, i % 10007, i % 997, (i % 100000) / 100.0, timestamptz '2024-01-01Z' + i * interval '1 second', "
    "i % 3 = 0, 'country ' || i % 50, 'street ' || i, i / 7.0, 'a note of order ' || i"
)
PEEK = (
    "COPY (SELECT data FROM pg_logical_slot_peek_binary_changes('{slot}', NULL, NULL, 'proto_version', '1', "
    "'publication_names', 'p')) TO STDOUT (FORMAT binary)"
)


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure (``changes``, ``snapshot``, ``latency`` or ``memory``), and Spark's settings."""

    what: str
    conf: dict[str, str] = {}
    rows: int
    rounds: int


class Bench:
    """A server with one database, and a Spark session."""

    def __init__(self, server: PostgresServer, database: str, scratch: str, conf: Mapping[str, str]) -> None:
        from pyspark.sql import SparkSession

        self.server, self.database, self.scratch = server, database, scratch
        self.control = server.connect(database)
        self.control.execute(f"CREATE TABLE orders ({COLUMNS})")
        self.control.execute("CREATE PUBLICATION p FOR TABLE orders")
        self._queries = 0
        self.batches_s = 0.0
        self.spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config(map=dict(conf))
            .getOrCreate()
        )
        import pyspark_flip27

        self.spark.dataSource.register(pyspark_flip27.DefaultSource)

    def insert(self, first: int, rows: int, *, per_transaction: int) -> None:
        """Insert rows, with ids from ``first`` on."""
        for start in range(first, first + rows, per_transaction):
            end = min(first + rows, start + per_transaction) - 1
            self.control.execute(f"INSERT INTO orders SELECT {ROW} FROM generate_series({start}, {end}) i")

    def slot(self, name: str) -> None:
        self.control.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])

    def copy_of(self, slot: str) -> str:
        """Create another slot at the same position; return its name."""
        name = f"{slot}_{time.monotonic_ns()}"
        self.control.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", [slot, name])
        return name

    def drop(self, slot: str) -> None:
        """Drop a slot, once the session that read it has ended."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                self.control.execute("SELECT pg_drop_replication_slot(%s)", [slot])
                return
            except psycopg.errors.ObjectInUse:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def stream(self, **options: str) -> Any:
        """The stream of the table with these options."""
        self._queries += 1
        given = {
            "enumerator": "postgres", "host": "127.0.0.1", "port": str(self.server.port),
            "database": self.database, "user": "postgres", "tables": "orders",
            "stateLocation": f"{self.scratch}/state{self._queries}", **options,
        }  # fmt: skip
        return self.spark.readStream.format("flip27").options(**given).load()

    def read(self, **options: str) -> float:
        """Read the table into a sink that keeps nothing; return the seconds it took."""
        frame = self.stream(**options)
        began = time.perf_counter()
        query = (
            frame.writeStream.format("noop").trigger(availableNow=True)
            .option("checkpointLocation", f"{self.scratch}/checkpoint{self._queries}").start()
        )  # fmt: skip
        query.awaitTermination()
        took = time.perf_counter() - began
        rows = sum(progress["numInputRows"] for progress in query.recentProgress)
        self.batches_s = sum(one["durationMs"]["triggerExecution"] for one in query.recentProgress) / 1000
        if not rows:
            raise RuntimeError("the query has read no row")
        return took


def changes(bench: Bench, spec: Spec) -> Compared:
    """Read all changes of a slot, compared with COPY of the same bytes and with the replication stream."""
    bench.slot("base")
    bench.insert(0, spec.rows, per_transaction=1000)
    found = Compared(ours=[], peers={"COPY": [], "stream": []})
    for number in range(spec.rounds + 1):
        slot = bench.copy_of("base")
        took = bench.read(snapshot="never", startingLsn="earliest", slotName=slot, publication="p")
        batches_s = bench.batches_s
        bench.drop(slot)
        copied, streamed = _copied(bench.control, PEEK.format(slot="base")), _streamed(bench, spec.rows)
        if number:
            found.ours.append(took)
            found.batches.append(batches_s)
            found.peers["COPY"].append(copied)
            found.peers["stream"].append(streamed)
    return found


def snapshot(bench: Bench, spec: Spec) -> Compared:
    """Read all rows of a table, compared with COPY of two ranges at the same time."""
    bench.insert(0, spec.rows, per_transaction=100_000)
    bench.control.execute("VACUUM ANALYZE orders")
    half = spec.rows // 2
    ranges = (f"id < {half}", f"id >= {half}")
    found = Compared(ours=[], peers={"COPY": []})

    def both() -> float:
        began = time.perf_counter()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, ranges))
        return time.perf_counter() - began

    def one(condition: str) -> float:
        with bench.server.connect(bench.database) as session:
            return _copied(session, f"COPY (SELECT * FROM orders WHERE {condition}) TO STDOUT (FORMAT csv)")

    for number in range(spec.rounds + 1):
        took, copied = bench.read(snapshot="only"), both()
        if number:
            found.ours.append(took)
            found.batches.append(bench.batches_s)
            found.peers["COPY"].append(copied)
    return found


def latency(bench: Bench, spec: Spec) -> Compared:
    """Measure the time from the commit of a row to its arrival in the sink."""
    arrived: dict[int, float] = {}

    def sink(frame: Any, _batch: int) -> None:
        ids = [row.id for row in frame.select("id").collect()]
        arrived.update(dict.fromkeys(ids, time.perf_counter()))

    query = (
        bench.stream().writeStream.foreachBatch(sink).trigger(processingTime="0 seconds")
        .option("checkpointLocation", f"{bench.scratch}/checkpoint").start()
    )  # fmt: skip
    found: list[float] = []
    try:
        for number in range(spec.rows + 5):
            bench.insert(number, 1, per_transaction=1)
            committed = time.perf_counter()
            while number not in arrived:
                if not query.isActive or time.perf_counter() - committed > 120:
                    raise RuntimeError(f"row {number} does not arrive: {query.exception()}")
                time.sleep(0.001)
            if number >= 5:
                found.append(arrived[number] - committed)
    finally:
        query.stop()
    return Compared(ours=found)


def memory(bench: Bench, spec: Spec) -> Compared:
    """Measure the memory, in MB, of the largest Python process that reads a large transaction."""
    bench.slot("base")
    bench.insert(0, spec.rows, per_transaction=spec.rows)
    found: list[float] = []
    for _ in range(spec.rounds):
        slot = bench.copy_of("base")
        with _largest_worker() as largest:
            bench.read(snapshot="never", startingLsn="earliest", slotName=slot, publication="p")
        bench.drop(slot)
        found.append(largest() / 1e6)
    return Compared(ours=found)


def _copied(session: psycopg.Connection, sql: str) -> float:
    began = time.perf_counter()
    with session.cursor() as cursor, cursor.copy(sql) as copy:
        for _ in copy:
            pass
    return time.perf_counter() - began


def _streamed(bench: Bench, rows: int) -> float:
    """Count the messages of the replication stream; return the seconds it took."""
    import psycopg2
    from psycopg2.extras import LogicalReplicationConnection

    slot = bench.copy_of("base")
    session = psycopg2.connect(
        host="127.0.0.1", port=bench.server.port, dbname=bench.database, user="postgres",
        connection_factory=LogicalReplicationConnection,
    )  # fmt: skip
    cursor = session.cursor()
    began = time.perf_counter()
    cursor.start_replication(
        slot_name=slot, decode=False, options={"proto_version": "1", "publication_names": "p"}
    )
    count = 0
    while count < rows:
        message = cursor.read_message()
        if message is None:
            select.select([cursor], [], [], 10)
        elif message.payload[:1] == b"I":
            count += 1
    took = time.perf_counter() - began
    session.close()
    bench.drop(slot)
    return took


@contextlib.contextmanager
def _largest_worker() -> Iterator[Callable[[], float]]:
    """Watch the resident memory of the Python processes below this one; yields a function for the largest."""
    largest = 0.0
    ended = threading.Event()

    def watch() -> None:
        nonlocal largest
        while not ended.wait(0.02):
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if "python" in process.name():
                        largest = max(largest, process.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: largest
    finally:
        ended.set()
        thread.join()


MEASURES = {"changes": changes, "snapshot": snapshot, "latency": latency, "memory": memory}


def main() -> None:
    """Measure what each argument specifies, each in a new database, and print each result as a line."""
    specs = [msgspec.json.decode(argument, type=Spec) for argument in sys.argv[1:]]
    with postgres_server(max_wal_size="8GB") as server:
        for number, spec in enumerate(specs, start=1):
            with (
                server.database() as database,
                tempfile.TemporaryDirectory(prefix="flip27-bench-") as scratch,
            ):
                bench = Bench(server, database, scratch, spec.conf)
                found = MEASURES[spec.what](bench, spec)
                if number == len(specs):
                    bench.spark.stop()
                bench.control.close()
            print(msgspec.json.encode(found).decode(), flush=True)


if __name__ == "__main__":
    main()
