"""``--look``, and what enumerators tell of their progress, with real brokers and servers."""

from __future__ import annotations

import datetime as dt
import os
import threading
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from flip27_source import edits
from flip27_source.cli.state.rows import Place
from flip27_source.cli.watch.look import Look, looked
from flip27_source.cli.watch.view import Watcher
from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.testing import MicroBatchEngine
from tests.cli.command_line import flip27, three_batches
from tests.deadline import until
from tests.enumerators.kafka.reading import options_of as of_kafka
from tests.enumerators.mysql.reading import query as mysql_query
from tests.enumerators.postgres.reading import query as postgres_query
from tests.kafka_server import KafkaBroker
from tests.mysql_server import MysqlServer
from tests.postgres_server import PostgresServer
from tests.s3_server import S3Bucket
from tests.toy_sources import EchoReader, Item

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TABLE = "CREATE TABLE orders (id int PRIMARY KEY, v text)"


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    found = [Path(at) / name for at, _, names in os.walk(folder) for name in names]
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in found}


def given(options: dict[str, str]) -> list[str]:
    """The words that give a command these options, except those that the state tells."""
    told = ("stateLocation", "enumerator")
    return [
        word for name, text in options.items() if name not in told for word in ("--option", f"{name}={text}")
    ]


def show(state: str | Path, *words: str | Path) -> dict[str, str]:
    """The facts of ``state show``; ``watch`` has the same."""
    (shown,) = flip27("state", "show", state, "--json", *words).data
    facts = {fact["name"]: fact["said"] for fact in shown["facts"]}
    watched = " ".join(flip27("watch", state, *words).out.replace("│", " ").split())
    for name in ("in the source", "tables", "partitions", "chain", "log"):
        said = facts.get(name, "").partition(" (asked")[0]
        assert " ".join(said.split()) in watched or "/" in said
    return facts


def test_a_look_finds_files_that_the_state_does_not_have_and_writes_nothing(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    query.land("new.txt", "newer.txt")
    before = contents(tmp_path)
    facts = show(query.checkpoint, "--look", "--path", tmp_path / "landing")
    assert facts["in the source"].startswith("2 splits that the state does not have, ")
    assert contents(tmp_path) == before
    (shown,) = flip27(
        "state", "show", query.checkpoint, "--json", "--look", "--path", tmp_path / "landing"
    ).data
    (table,) = shown["tables"]
    assert [Path(row[0]).name for row in table["rows"]] == ["new.txt", "newer.txt"]


def test_a_look_at_a_source_with_a_queue_lists_and_asks_no_queue(s3_bucket: S3Bucket, tmp_path: Path) -> None:
    options = {
        "enumerator": "files", "reader": "text", "path": f"{s3_bucket.url}/landing",
        "stateLocation": str(tmp_path), **s3_bucket.options,
    }  # fmt: skip
    s3_bucket.file_system.pipe(f"{s3_bucket.name}/landing/a", b"1")
    engine = MicroBatchEngine(options)
    engine.process_all_available()
    engine.stop()
    s3_bucket.file_system.pipe(f"{s3_bucket.name}/landing/b", b"2")
    queue = {"discovery": "notifications", "notificationQueues": "https://sqs.eu-west-1.amazonaws.com/1/none"}
    facts = show(tmp_path, "--look", *given(options | queue))
    assert facts["in the source"].startswith("1 splits that the state does not have")


def test_a_look_that_fails_says_why_and_hides_nothing(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    said = flip27("watch", query.checkpoint, "--look", "--json")
    assert said.code == 0
    (frame,) = said.data
    assert "option path is not set" in frame["looked"]["error"]
    assert (frame["checkpoint_id"], frame["looked"]["tables"]) == (3, [])


def test_options_of_a_look_need_one(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    for words in (("watch", query.checkpoint), ("state", "show", query.checkpoint)):
        said = flip27(*words, "--option", "a=b")
        assert said.code == 1
        assert "add --look" in said.err


@pytest.mark.parametrize("command", [("state", "show"), ("watch",), ("watch", "--once"), ("watch", "--json")])
def test_a_secret_is_not_shown_whatever_shows_it(command: tuple[str, ...], tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    state = str(query.checkpoint / "flip27")
    edits.submit(edits.plan("forget", state=state, why="s3://me:kennwort@shop/a", who="me", glob="*"))
    said = flip27(*command, query.checkpoint, "--look", "--option", "storage.password=geheim",
                  "--option", "path=/nowhere/geheim")  # fmt: skip
    assert "nowhere" in said.out
    assert "s3://" in said.out
    assert "geheim" not in said.out + said.err
    assert "kennwort" not in said.out + said.err


class Waits(DiscoveringEnumerator[Item]):
    """Finds nothing, and waits in every further discovery until a test ends it."""

    may_end: ClassVar[threading.Event] = threading.Event()
    position_type: ClassVar[Any] = int

    def discover(self, position: int | None) -> Discovery[Item, int]:
        if position is not None:
            assert self.may_end.wait(60)
        return Discovery([Item(split_id="a")] if position is None else [], 1)


def test_a_look_ends_in_time_whatever_the_source_does(tmp_path: Path) -> None:
    name = f"{__name__}:Waits"
    reader = f"{EchoReader.__module__}:EchoReader"
    options = {"enumerator": name, "reader": reader, "stateLocation": str(tmp_path)}
    engine = MicroBatchEngine(options, schema=pa.schema([("value", pa.string())]))
    engine.run_batch()
    try:
        (history,) = Place(location=str(tmp_path)).histories()
        found = looked(history, {}, NOW, limit_s=0.05)
    finally:
        Waits.may_end.set()
        engine.stop()
    assert found.error == "the source has not answered in 0.05 s"


def test_partitions_of_kafka_have_their_end_lag_and_time(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.filled_topic([b"a", b"b", b"c"], partitions=2)
    options = {**of_kafka(kafka, topic, partitionLag="true"), "stateLocation": str(tmp_path)}
    engine = MicroBatchEngine(options)
    engine.process_all_available()
    engine.stop()
    kafka.produce(topic, [b"d", b"e"], partition=1)
    groups = kafka.admin().list_consumer_groups().result().valid
    facts = show(tmp_path)
    assert facts["partitions"] == "2 in 1 topics; 0 records waited at the driver's last poll"
    without = {name: text for name, text in options.items() if name != "partitionLag"}
    other = MicroBatchEngine(without | {"stateLocation": str(tmp_path / "other")})
    other.process_all_available()
    other.stop()
    assert show(tmp_path / "other")["partitions"].endswith("known with partitionLag=true, and by --look")
    (shown,) = flip27("state", "show", tmp_path, "--json", "--look", *given(options)).data
    facts = {fact["name"]: fact["said"] for fact in shown["facts"]}
    assert facts["in the source"].startswith(
        f"2 records wait in 1 of 2 partitions; {topic}/1 is the last in event time: its next record is of 20"
    )
    table = shown["tables"][-1]
    assert table["columns"] == ["partition", "position", "end", "lag", "begins at", "time of its next record"]
    assert [row[:5] for row in table["rows"]] == [[f"{topic}/1", 3, 5, 2, 0], [f"{topic}/0", 3, 3, 0, 0]]
    assert kafka.admin().list_consumer_groups().result().valid == groups


def test_tables_of_postgresql_have_chunks_and_the_slot_its_kept_log(postgres: PostgresServer) -> None:
    rows = "INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 10) n"
    with postgres_query(postgres, TABLE, rows) as query:
        query.until_rows(6)
        state = str(query.engine.source.options["stateLocation"])
        options = postgres.options(query.name, tables="orders")
        facts = show(state)
        assert facts["tables"].startswith("0 of 1 need no more of their rows; ")
        assert "chunks of the others" in facts["tables"]
        assert f"slot {query.slot}" in facts["log"]
        query.batches()
        query.execute("INSERT INTO orders VALUES (11, 'y')")

        def all_read() -> bool:
            query.batches()
            read = "of 4 chunks of the others 4 are known to be read, and 0 are planned"
            return show(state)["tables"].endswith(read)

        until(all_read, lambda: show(state))
        query.execute("INSERT INTO orders VALUES (12, 'z')")
        facts = show(state, "--look", *given(options))
        assert f"slot {query.slot} keeps" in facts["in the source"]
        assert "bytes of WAL (reserved)" in facts["in the source"]
        query.batches()
        assert query.ops("id")[-1] == ("c", "12")  # the look has taken nothing


def test_the_log_of_mariadb_has_its_end(mysql: MysqlServer) -> None:
    with mysql_query(mysql, TABLE, "INSERT INTO orders VALUES (1, 'x')") as query:
        query.batches()
        state, options = str(query.options["stateLocation"]), dict(query.options)
        assert show(state, "--look", *given(options))["in the source"].startswith("nothing waits: ")
        query.execute("INSERT INTO orders VALUES (2, 'y')")
        facts = show(state, "--look", *given(options))
        assert facts["in the source"].startswith("changes wait: the log is read up to ")
        query.batches()
        query.execute("INSERT INTO orders VALUES (3, 'z')")
        query.batches()
        assert show(state)["tables"] == "1 of 1 need no more of their rows"


def test_a_chain_says_which_source_is_read_and_where_it_began(tmp_path: Path) -> None:
    for folder, names in (("old", "ab"), ("new", "c")):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_text("1\n")
    parts = {1: "old", 2: "new"}
    options = {"enumerator": "hybrid", "stateLocation": str(tmp_path / "state")}
    for number, folder in parts.items():
        options |= {
            f"hybrid.{number}.enumerator": "files", f"hybrid.{number}.reader": "text",
            f"hybrid.{number}.path": str(tmp_path / folder),
        }  # fmt: skip
    engine = MicroBatchEngine(options)
    engine.process_all_available()
    engine.stop()
    (tmp_path / "new" / "d").write_text("1\n")
    facts = show(tmp_path / "state", "--look", *given(options))
    assert facts["chain"].startswith("source 2 of 2 is read: hybrid.2 (files)")
    assert facts["in the source"].startswith("1 splits that the state does not have")


def test_later_frames_show_the_look_again(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    watcher = Watcher(place=Place(location=str(query.checkpoint)))
    watcher.look_into_sources({"path": str(tmp_path / "landing")}, NOW)
    for _ in range(2):
        (frame,) = watcher.frames(NOW)
        assert isinstance(frame.looked, Look)
        assert frame.looked.at == NOW
