"""The servers that the tests run: what tests expect of them, how they differ, and what they leave behind."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka import KafkaException, TopicCollection

from tests.azurite_server import AzureContainer, Azurite, azurite_server
from tests.kafka_server import KafkaBroker, kafka_broker
from tests.postgres_server import PostgresServer
from tests.server_process import DEADLINE_S


@pytest.fixture(scope="module")
def own_broker() -> Iterator[KafkaBroker]:
    with kafka_broker() as broker:
        yield broker


@pytest.fixture(params=["kafka", "tansu"])
def either(request: pytest.FixtureRequest) -> KafkaBroker:
    broker: KafkaBroker = request.getfixturevalue(request.param)
    return broker


def values(
    broker: KafkaBroker, topic: str, *, start: int = 0, isolation: str = "read_committed"
) -> list[bytes]:
    return [m.value() for m in broker.consume(topic, start=start, isolation_level=isolation)]


def topic_id(broker: KafkaBroker, topic: str) -> str:
    described = broker.admin().describe_topics(TopicCollection([topic]))
    return str(described[topic].result(DEADLINE_S).topic_id)


def test_a_consumer_that_starts_after_an_abort_misses_what_the_same_producer_commits_later(
    kafka: KafkaBroker,
) -> None:
    topic = kafka.topic()
    producer = kafka.producer(transactional_id=f"of_{topic}")
    producer.init_transactions(DEADLINE_S)
    for value, end_of_it in ((b"a", producer.abort_transaction), (b"b", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(DEADLINE_S)
        end_of_it(DEADLINE_S)
    assert values(kafka, topic) == [b"b"]
    assert values(kafka, topic, start=2) == [], (
        "Apache Kafka would return b; noida hides it because of the abort"
    )


def test_a_recreated_topic_is_empty_and_has_a_new_id_only_with_tansu(either: KafkaBroker) -> None:
    topic = either.filled_topic([b"a"])
    before = topic_id(either, topic)
    either.delete_topic(topic)
    either.topic(2, name=topic)
    assert either.bounds(topic) == (0, 0)
    assert (topic_id(either, topic) != before) == (either.kind == "tansu")


def test_many_values_are_sent_quickly_and_the_end_offset_is_known(either: KafkaBroker) -> None:
    topic = either.topic()
    sent = [b"%d" % number for number in range(20_000)]
    either.produce_quickly(topic, sent)
    assert either.bounds(topic) == (0, 20_000)
    assert values(either, topic) == sent


def test_acknowledged_records_survive_a_kill_and_a_restart_on_the_same_port(own_broker: KafkaBroker) -> None:
    topic, port = own_broker.topic(), own_broker.port
    own_broker.produce(topic, [b"a"] * 100)
    own_broker.produce(topic, [b"b"], transaction="aborted")
    own_broker.produce(topic, [b"last"])
    own_broker.kill()
    assert not own_broker.is_running
    with pytest.raises(KafkaException):
        own_broker.admin().list_topics(timeout=0.2)
    own_broker.start()
    assert own_broker.port == port
    assert values(own_broker, topic) == [*[b"a"] * 100, b"last"]
    assert own_broker.produce(topic, [b"c"]) == [103]


def test_a_suspended_broker_answers_nothing_and_then_continues(own_broker: KafkaBroker) -> None:
    topic = own_broker.topic()
    with own_broker.suspended(), pytest.raises(KafkaException) as caught:
        own_broker.admin().list_topics(timeout=0.2)
    assert caught.value.args[0].name() in ("_TRANSPORT", "_TIMED_OUT")
    assert own_broker.produce(topic, [b"a"]) == [0]


def test_blobs_are_kept_by_container(azurite: Azurite) -> None:
    one, other = azurite.container(), azurite.container()
    one.file_system.pipe_file(f"{one.name}/landing/a", b"1")
    assert one.file_system.cat_file(f"{one.name}/landing/a") == b"1"
    assert other.file_system.find(other.name) == []


def test_the_second_of_two_creates_is_refused_by_the_server(azure_container: AzureContainer) -> None:
    name = f"{azure_container.name}/a"
    azure_container.file_system.pipe_file(name, b"first", mode="create")
    with pytest.raises(FileExistsError):
        azure_container.file_system.pipe_file(name, b"second", mode="create")
    assert azure_container.file_system.cat_file(name) == b"first"


def test_the_queue_service_answers_at_its_own_port(azurite: Azurite) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{azurite.queue_url}?comp=list")
    assert refused.value.code == 403
    assert "Azurite-Queue" in refused.value.headers["Server"]
    assert azurite.queue_url in azurite.connection_string


def test_the_server_listens_on_loopback_only_and_ends_with_its_block() -> None:
    with azurite_server() as server:
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        addresses = [found.laddr.ip for found in process.net_connections() if found.status == "LISTEN"]
        assert addresses == ["127.0.0.1"] * 3
    assert not process.is_running()
    assert not server.log.exists()


PROGRAM = """
import sys
from tests.kafka_server import kafka_broker
from tests.postgres_server import postgres_server
with postgres_server() if sys.argv[1] == "postgres" else kafka_broker(sys.argv[1]) as server:
    print(server.log.parent, server.process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["postgres", "noida", "tansu"])
def test_the_server_and_its_folder_are_gone_when_the_tests_are_killed(kind: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        folder, pid = tests.stdout.readline().split()
        server = psutil.Process(int(pid))
        keeper = next(p for p in psutil.Process(tests.pid).children() if p.pid != server.pid)
        tests.kill()
    psutil.wait_procs([server, keeper], timeout=60)
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE
    assert not Path(folder).exists()


def test_a_new_database_is_empty_and_dropped_with_its_slots_and_prepared_transactions(
    postgres: PostgresServer,
) -> None:
    with postgres.database() as name:
        with postgres.connect(name) as connection:
            connection.execute("CREATE TABLE t (a int)")
            connection.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
            connection.execute("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'")
        still_open = postgres.connect(name)
    with postgres.connect() as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchall()
        slots = connection.execute("SELECT 1 FROM pg_replication_slots").fetchall()
    assert (found, slots) == ([], [])
    with pytest.raises(psycopg.OperationalError):
        still_open.execute("SELECT 1")
    still_open.close()
