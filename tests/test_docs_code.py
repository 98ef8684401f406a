"""The code in the documentation runs, page by page and unchanged: Python, SQL and the command line.

Before a page runs, its files and servers are prepared; afterwards the results of its code are checked.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import shutil
import sqlite3
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from flip27_source import edits, savepoints
from flip27_source.readers.kafka.arrow_records import record_schema
from flip27_source.readers.sequence import SequenceReader
from flip27_source.snapshots.request_mailbox import Mailbox, SavepointRequest
from flip27_source.snapshots.store import LocalStore
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.kafka.reading import stream
from tests.http_api import http_api
from tests.kafka_server import Record, kafka_broker
from tests.mysql_server import HOST, mysql_server
from tests.pages.places import SCHEMA, Orders, ids_query, land, order, savepoint_named_as_on_the_page
from tests.pages.running import LANGUAGES, NOT_RUN, REPOSITORY, PageRun, blocks_of, reason_not_to_run
from tests.pages.shop import changes_are_those_of_the_page, recipes_follow_the_table
from tests.postgres_server import free_port, postgres_server
from tests.spark.streams import UNTIL_END, run_to_end, running, wait_for

ALL_PAGES = ["README.md", *(f"docs/{file.name}" for file in sorted((REPOSITORY / "docs").glob("*.md")))]
PAGES = [page for page in ALL_PAGES if any(block.is_code for block in blocks_of(page))]


def delivered(stream: DataFrame, name: str, mode: str = "append") -> list[Any]:
    """The rows of a stream up to its present end."""
    spark = stream.sparkSession
    writer = stream.writeStream.format("memory").queryName(name).outputMode(mode)
    query = writer.trigger(**UNTIL_END).start()
    run_to_end(query)
    rows = spark.table(name).collect()
    spark.catalog.dropTempView(name)
    return rows


def ids(stream: DataFrame, name: str) -> list[int]:
    return sorted(row.id for row in delivered(stream, name))


def readme(page: PageRun) -> None:
    land(page.place("/landing/orders/1.json"), order(1) + order(2))
    page.run()
    (query,) = page.names["spark"].streams.active
    query.processAllAvailable()
    lake = page.names["spark"].read.parquet(str(page.place("/lake/orders")))
    assert sorted(row.id for row in lake.collect()) == [1, 2]
    assert page.names["days"].columns == ["id", "amount"]


def quickstart(page: PageRun) -> None:
    page.run()
    assert sorted(page.names["amounts"]) == [1.0, 2.0, 3.2, 7.5, 9.9]


def sequence(page: PageRun) -> None:
    page.run()
    assert len(delivered(page.names["numbers"].where("id % 100000 = 0"), "sequence")) == 10


def files(page: PageRun) -> None:
    land(page.place("/landing/orders/1.json"), order(1))
    land(page.place("/landing/orders/2.json"), order(2))
    page.run()
    assert ids(page.names["df"], "files") == [1, 2]


def batch_size(page: PageRun) -> None:
    land(page.place("/landing/orders/1.json"), order(1))
    page.run()
    page.names["query"].processAllAvailable()
    (batch,) = (batch for batch in page.names["query"].recentProgress if batch["numInputRows"])
    sized = json.loads(batch.json)["sources"][0]["endOffset"]["summary"]["sized"]
    assert (sized["target_ms"], sized["files"], sized["reason"]) == (30_000, 100, "first batch")
    page.names["query"].stop()


def event_time(page: PageRun) -> None:
    for hour in (3, 1, 2):
        row = json.dumps({"at": f"2024-01-01T0{hour}:30:00Z", "id": hour})
        land(page.place(f"/landing/orders/dt=2024-01-01/hour=0{hour}/{hour}.json"), f"{row}\n")
    with kafka_broker() as broker:
        broker.topic(2, name="orders")
        for partition, hours in enumerate((range(1, 7), (1, 6))):
            records = [Record(value=b"v", timestamp_ms=hour * 3_600_000) for hour in hours]
            broker.produce("orders", records, partition=partition)
        page.places |= {"kafka1:9092": broker.address}
        page.run()
        windows = delivered(page.names["counts"], "event_time", mode="complete")
        assert sorted(row["count"] for row in windows) == [1, 1, 1]
        windows = delivered(page.names["by_hour"], "by_hour", mode="complete")
        assert sorted(row["count"] for row in windows) == [1, 1, 1, 1, 2, 2]


def alignment(page: PageRun) -> None:
    for hour in (1, 2, 3):
        order = {"at": f"2024-01-01T0{hour}:10:00Z", "id": hour}
        payment = {"paid_at": f"2024-01-01T0{hour}:30:00Z", "of": hour}
        for folder, row in (("orders", order), ("payments", payment)):
            land(page.place(f"/landing/{folder}/hour=2024-01-01-0{hour}/1.json"), f"{json.dumps(row)}\n")
    page.run()
    assert ids(page.names["joined"], "alignment") == [1, 2, 3]


def replay(page: PageRun) -> None:
    for second in (0, 3, 6):
        row = json.dumps({"at": f"2024-01-01T00:00:0{second}.5Z", "id": second})
        land(page.place(f"/archive/orders/2024-01-01T00-00-0{second}.json"), f"{row}\n")
    page.run()
    query = page.names["query"]
    with running(query):
        wait_for(lambda: sum(batch["numInputRows"] for batch in query.recentProgress) == 3, query)
        summary = json.loads(query.lastProgress.json)["sources"][0]["endOffset"]["summary"]
        assert summary["alignmentSlowest"] == "replaySpeed"


def hybrid(page: PageRun) -> None:
    page.place("/archive/orders").mkdir(parents=True)
    begin = dt.datetime(2026, 1, 3, 13, tzinfo=dt.UTC)
    records = [
        {"topic": "orders", "partition": 0, "offset": n, "timestamp": begin + n * dt.timedelta(minutes=4)}
        for n in range(8)
    ]
    archived = pa.Table.from_pylist(records[:5], record_schema(include_headers=False))
    pq.write_table(archived, page.place("/archive/orders/1.parquet"))
    with kafka_broker() as broker:
        broker.topic(name="orders")
        for record in records:
            sent_ms = round(record["timestamp"].timestamp() * 1000)
            broker.produce("orders", [Record(value=None, timestamp_ms=sent_ms)])
        page.places |= {"kafka1:9092": broker.address}
        page.run()
        both = [row.offset for row in delivered(page.names["records"], "hybrid")]
        once = [row.offset for row in delivered(page.names["orders"], "hybrid_once")]
    # The largest time is that of offset 4, and ten minutes before it was that of offset 1.5.
    assert sorted(both) == [0, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7]
    assert sorted(once) == list(range(8))


def native(page: PageRun) -> None:
    land(page.place("/landing/orders/1.json"), order(1) + order(4))
    page.run()
    lake = page.names["spark"].read.parquet(str(page.place("/lake/amounts")))
    assert [tuple(row) for row in lake.collect()] == [(4, 2.0)]


def readers(page: PageRun) -> None:
    lines = ["id;customer;amount;ordered_at\n", "1;Ada;2.345,50;29. März 2026 12:30 MESZ\n"]
    land(page.place("/landing/orders/1.csv"), "".join(lines))
    page.run()
    [order] = delivered(page.names["orders"].selectExpr("*", "_metadata.file_name as file"), "readers")
    assert (order.id, str(order.amount), order.file) == (1, "2345.50", "1.csv")
    assert order.ordered_at.isoformat() == "2026-03-29T10:30:00"
    assert page.names["days"].columns == ["customer", "count"]


def http(page: PageRun) -> None:
    with http_api() as api:
        api.records = [{"id": number} for number in range(6)]
        api.token = "Bearer token-of-the-shop"
        page.places["https://api.example.com/v1"] = f"{api.url}/cursor"
        page.run()
        assert ids(page.names["df"], "http") == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def kafka(page: PageRun) -> None:
    with kafka_broker() as broker:
        broker.topic(2, name="orders")
        broker.produce("orders", [b'{"id": 1, "customer": "Ada"}', b'{"id": 2}'], partition=1)
        broker.produce(broker.topic(name="notes"), [b"a", b"\xff"])
        page.places |= {"kafka1:9092": broker.address, "9092": str(free_port())}
        state = page.place("/ckpt/orders/flip27")
        options = {"valueFormat": "string", "onRecordError": "quarantine", "stateLocation": state}
        text = pa.schema([pa.field("value", pa.string())])
        stream(broker, "notes", schema=text, **options).process_all_available()
        page.run(until="noida_db")
        page.run_block()
        page.names["broker"].kill()
        page.names["broker"].wait()
        page.run()
        (note,) = page.names["broken"].collect()
        assert (note.topic, note.partition, note.offset, note.key) == ("notes", 0, 1, None)
        assert bytes(note.value) == b"\xff"
        assert "it is not UTF-8" in note.error
        assert [row.offset for row in delivered(page.names["orders"], "kafka")] == [0, 1]
        decoded = delivered(page.names["decoded"], "kafka_decoded")
        assert sorted(map(tuple, decoded)) == [(1, "Ada", 1, 0), (2, None, 1, 1)]


def sql(page: PageRun) -> None:
    with postgres_server() as server, server.database() as name:
        with server.connect(name) as shop:
            shop.execute("CREATE TABLE orders AS SELECT 1 AS id, now() - interval '1 hour' AS updated_at")
        address = f"postgresql://postgres@127.0.0.1:{server.port}/{name}"
        page.places["postgresql://flip27@db.internal:5432/shop"] = address
        page.run()
        assert ids(page.names["orders"], "sql") == [1]


def write_an_enumerator(page: PageRun) -> None:
    page.run(until="format(")
    (page.names["installed"] / "shop.py").write_text(shop_module())
    page.place("/srv").mkdir()
    shutil.copy("shop.db", page.place("/srv"))
    page.run()
    assert len(delivered(page.names["stream"], "write_an_enumerator")) >= 2500


def deployment(page: PageRun) -> None:
    Path("shop.py").write_text(shop_module())
    with sqlite3.connect("shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER, amount REAL)")
        shop.execute("INSERT INTO orders VALUES (1, 2.5)")
    land(page.place("/landing/orders/1.txt"), "1\n2\n")
    sys.path.insert(0, str(Path.cwd()))
    page.run()
    sys.path.remove(str(Path.cwd()))
    del sys.modules["shop"]
    assert not page.names["query"].isActive
    lake = page.names["spark"].read.parquet(str(page.place("/lake/orders")))
    assert sorted(row.value for row in lake.collect()) == ["1", "2"]
    orders = page.names["spark"].read.format("orders").option("database", str(Path("shop.db").resolve()))
    assert [tuple(row) for row in orders.load().collect()] == [(1, 2.5)]


def shop_module() -> str:
    """The source of a module with the enumerator and the reader of docs/write_an_enumerator.md."""
    enumerator, reader, *_ = blocks_of("docs/write_an_enumerator.md")
    return f"{enumerator.text}\n\n\n{reader.text}\n"


def monitoring(page: PageRun) -> None:
    page.places["9108"] = "0"
    page.run(until="export_to_prometheus")
    page.run_block()
    spark = page.names["spark"]
    numbers = spark.readStream.format("flip27").option("enumerator", "sequence").option("end", 10).load()
    query = numbers.writeStream.format("noop").queryName("numbers").trigger(**UNTIL_END).start()
    run_to_end(query)
    page.names["query"] = query
    page.run()
    spark.streams.removeListener(page.names["listener"])
    assert page.names["batch"].sources[0].uid == "sequence"


def state(page: PageRun) -> None:
    """Run the page on a query with two sources: files whose archive is unreachable, and an API."""
    page.place("/archive").write_text("not a directory")
    archive = {"cleanSource": "archive", "sourceArchiveDir": str(page.place("/archive"))}
    orders = Orders(page, onActionError="keep", **archive)
    with http_api() as api:
        api.records = [{"id": number} for number in range(6)]
        shop = {"enumerator": "http", "path": f"{api.url}/link", "pagination": "link"}
        place = {"stateLocation": orders.options["stateLocation"]}
        orders.others.append(MicroBatchEngine(shop | place, schema=SCHEMA))
        orders.others[0].run_batch()
    orders.run()
    page.run()
    assert page.names["state"].count() == 20


def edits_page(page: PageRun) -> None:
    orders = Orders(page)
    orders.run()
    ids_query(page)
    page.run(until="SELECT")
    orders.engine.restart()
    orders.batch()
    orders.log()
    view = page.names["spark"].read.format("flip27_state").load(str(orders.checkpoint))
    view.createOrReplaceTempView("state_checkpoints")
    page.run(until="edit list")
    wait_to_be_withdrawn(orders)
    page.run()


def wait_to_be_withdrawn(orders: Orders) -> None:
    """Submit an edit that stays waiting, with the id that the pages give it."""
    place = orders.options["stateLocation"]
    asked = edits.submit(edits.plan("replay", state=place, glob="*/orders/a.json", why="a test"))
    (request,) = Path(place).glob(f"*/requests/{asked}.json")
    request.rename(request.with_stem("0f3a5c1e" + asked[8:]))


def request_to_be_withdrawn(orders: Orders) -> None:
    """Submit a request for a savepoint, with the id that the page gives it."""
    store = LocalStore(orders.options["stateLocation"])
    (lineage,) = store.list("")
    asked = SavepointRequest(
        request_id="0f3a5c1e-0000-0000-0000-000000000000", lineage=lineage, target="/nowhere", requested_ms=0
    )
    Mailbox(store, lineage).submit(asked)


def savepoints_page(page: PageRun) -> None:
    orders = Orders(page)
    orders.run()
    saved = savepoint_named_as_on_the_page(page, orders)
    shutil.copytree(orders.landing, page.place("/new/in"))
    shutil.copytree(saved, page.place("/new/savepoints") / saved.name)
    page.places |= {"s3://old-bucket/in": "/landing", "s3://new-bucket/": "/new/"}
    page.run(until="savepoint_stream")
    add_to_a_savepoint(page)
    page.run(until="savepoint list")
    waiting = [20, 21, 22, 23, 100, 100]
    assert ids(page.names["orders"], "orders") == ids(page.names["moved"], "moved") == waiting
    page.run()


def add_to_a_savepoint(page: PageRun) -> None:
    """Run the next block in a reader whose context announces a savepoint."""

    class Indexing(SequenceReader):
        def read(self, split: Any) -> Iterator[Any]:
            if self.context.is_savepoint:
                page.run_block({"context": self.context, "data": b"an index"})
            return super().read(split)

    engine = ids_query(page, reader=Indexing)
    saved = page.place("/savepoints-of-ids")
    savepoints.request(state=str(page.place("/ckpt/ids/flip27")), to=str(saved))
    engine.restart()
    engine.run_batch()
    engine.run_batch()
    (index,) = saved.rglob("index.bin")
    assert index.read_bytes() == b"an index"


def upgrading(page: PageRun) -> None:
    Orders(page).run()
    page.run()


def mysql(page: PageRun) -> None:
    statements = [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, customer VARCHAR(20), amount DECIMAL(8, 2))",
        "INSERT INTO shop.orders VALUES (1, 'Ada', 9.50), (2, 'Grace', 3.00)",
        *(block.text for block in blocks_of("docs/mysql.md") if block.text.startswith("CREATE USER")),
    ]
    with mysql_server() as server:
        with server.connect() as connection, connection.cursor() as cursor:
            for statement in ";".join(statements).split(";"):
                if statement.strip():
                    cursor.execute(statement)
        page.places |= {"db.internal": HOST, "3306": str(server.port)}
        page.run()
        rows = delivered(page.names["orders"], "mysql")
        assert sorted((row.id, row.customer, row["_op"]) for row in rows) == [
            (1, "Ada", "r"),
            (2, "Grace", "r"),
        ]


def cli(page: PageRun) -> None:
    library = page.place("/opt/spark/python/lib")
    library.mkdir(parents=True)
    with zipfile.ZipFile(library / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
    orders = Orders(page)
    orders.run()
    ids_query(page)
    savepoint_named_as_on_the_page(page, orders)
    page.run(until="savepoint withdraw")
    request_to_be_withdrawn(orders)
    page.run(until="edit withdraw")
    wait_to_be_withdrawn(orders)
    page.run()


SCENARIOS: dict[str, Callable[[PageRun], None]] = {
    "README.md": readme,
    "docs/alignment.md": alignment,
    "docs/batch_size.md": batch_size,
    "docs/cli.md": cli,
    "docs/deployment.md": deployment,
    "docs/edits.md": edits_page,
    "docs/event_time.md": event_time,
    "docs/files.md": files,
    "docs/hybrid.md": hybrid,
    "docs/native.md": native,
    "docs/http.md": http,
    "docs/kafka.md": kafka,
    "docs/monitoring.md": monitoring,
    "docs/mysql.md": mysql,
    "docs/postgres.md": changes_are_those_of_the_page,
    "docs/postgres_recipes.md": recipes_follow_the_table,
    "docs/quickstart.md": quickstart,
    "docs/readers.md": readers,
    "docs/replay.md": replay,
    "docs/savepoints.md": savepoints_page,
    "docs/sequence.md": sequence,
    "docs/sql.md": sql,
    "docs/state.md": state,
    "docs/upgrading.md": upgrading,
    "docs/write_an_enumerator.md": write_an_enumerator,
}
"""For each page the function that prepares, runs and checks it; other pages only run."""

READ_FIRST = ("README.md", "docs/quickstart.md", "docs/write_an_enumerator.md")
"""Pages whose code `make test` runs; `make test-slow` runs the code of the others."""


@pytest.fixture
def streaming(spark: SparkSession) -> Iterator[SparkSession]:
    """The session; streams that a page leaves running are stopped at the end."""
    yield spark
    for query in spark.streams.active:
        query.stop()


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[] if page in READ_FIRST else pytest.mark.slow) for page in PAGES]
)
def test_the_code_of_a_page_runs_and_does_what_the_page_says(
    page: str, streaming: SparkSession, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    run = PageRun(page, below=tmp_path, spark=streaming, installed=installed)
    SCENARIOS.get(page, PageRun.run)(run)
    assert run.rest == []


def test_the_test_on_the_testing_page_passes(pytester: pytest.Pytester) -> None:
    blocks = [block.text for block in blocks_of("docs/testing.md") if block.language == "python"]
    pytester.makepyfile("\n\n".join(blocks))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_every_block_names_its_language_and_every_reason_not_to_run_is_used() -> None:
    blocks = [block for page in ALL_PAGES for block in blocks_of(page)]
    assert [str(block) for block in blocks if block.language not in LANGUAGES] == []
    lines = [line for block in blocks if block.is_code for line in block.text.split("\n")]
    assert set(map(reason_not_to_run, lines)) == {None, *NOT_RUN}
