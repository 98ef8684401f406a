"""Properties of the client: Kafka's names, secrets that are never shown, and properties that are refused."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import pytest

from flip27_source.enumerators.kafka.client import SHOWN_EVERY_S, KafkaError, RepeatedLines, new_consumer
from flip27_source.enumerators.kafka.client_properties import (
    WITHOUT_EFFECT,
    ClientProperties,
    client_properties,
)
from flip27_source.enumerators.kafka.cluster import Cluster
from flip27_source.errors import Flip27Error, OptionError
from flip27_source.source import Source
from tests.enumerators.kafka.reading import stream
from tests.kafka_server import KafkaBroker
from tests.postgres_server import free_port

SECRET = "correct-horse-7"


def properties(**given: str) -> ClientProperties:
    options = {
        "enumerator": "kafka",
        "subscribe": "orders",
        "kafka.bootstrap.servers": "localhost:9092",
        **{f"kafka.{name.replace('__', '.')}": value for name, value in given.items()},
    }
    return client_properties(Source.resolve(options).options)


def test_only_committed_records_are_read_unless_the_user_sets_otherwise() -> None:
    assert properties().values["isolation.level"] == "read_committed"
    found = properties(isolation__level="read_uncommitted")
    assert found.values["isolation.level"] == "read_uncommitted"


def test_the_group_of_the_clients_has_the_prefix_or_the_name_that_the_user_sets() -> None:
    options = {"enumerator": "kafka", "subscribe": "orders", "kafka.bootstrap.servers": "localhost:9092"}
    prefixed = client_properties(Source.resolve({**options, "groupIdPrefix": "shop"}).options)
    assert prefixed.values["group.id"].startswith("shop-")
    assert properties(group__id="shop").values["group.id"] == "shop"


def test_names_are_matched_without_regard_to_case_as_spark_passes_them() -> None:
    assert properties(Security__Protocol="SSL").values["security.protocol"] == "SSL"


def test_java_property_names_become_librdkafka_names() -> None:
    strategy = "org.apache.kafka.clients.consumer.RangeAssignor"
    without_effect = {"max__poll__records": "10", "partition__assignment__strategy": strategy}
    found = properties(fetch__max__wait__ms="50", request__timeout__ms="9000", **without_effect)
    assert (found.values["fetch.wait.max.ms"], found.values["socket.timeout.ms"]) == ("50", "9000")
    new_consumer(found).close()


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_java_properties_without_effect_are_left_out(name: str) -> None:
    found = properties(**{name: "10"})
    assert found.values == properties().values
    new_consumer(found).close()


@pytest.mark.parametrize("mechanism", ["plain.PlainLoginModule", "scram.ScramLoginModule"])
def test_the_login_of_the_java_client_is_understood(mechanism: str) -> None:
    jaas = f'org.apache.kafka.common.security.{mechanism} required username="ann" password="{SECRET}";'
    found = properties(sasl__jaas__config=jaas).values
    assert (found["sasl.username"], found["sasl.password"]) == ("ann", SECRET)
    assert "sasl.jaas.config" not in found


def test_an_unparsable_login_is_refused_without_showing_it() -> None:
    with pytest.raises(OptionError, match=r"kafka\.sasl\.jaas\.config \(not shown\)") as raised:
        properties(sasl__jaas__config=f'com.example.Login required password="{SECRET}";')
    assert SECRET not in str(raised.value)


def test_a_secret_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    assert properties(sasl__passwordEnv="KAFKA_PASSWORD").values["sasl.password"] == SECRET


def test_a_secret_comes_from_a_file_without_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(SECRET + "\n")
    found = properties(sasl__passwordFile=str(tmp_path / "password"))
    assert found.values["sasl.password"] == SECRET


def test_a_missing_variable_or_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="environment variable KAFKA_PASSWORD, which option"):
        properties(sasl__passwordEnv="KAFKA_PASSWORD")
    with pytest.raises(OptionError, match=r"the file .*nowhere, which option .* cannot be read"):
        properties(sasl__passwordFile=str(tmp_path / "nowhere"))


def test_a_secret_that_is_given_twice_is_refused() -> None:
    with pytest.raises(OptionError, match=r"kafka\.sasl\.password is set twice"):
        properties(sasl__password=SECRET, sasl__passwordEnv="PATH")


@pytest.mark.parametrize(
    "name", ["auto__offset__reset", "enable__auto__commit", "key__deserializer", "interceptor__classes"]
)
def test_properties_that_the_source_sets_itself_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="cannot be set"):
        properties(**{name: "x"})


def test_a_java_keystore_is_refused_with_a_remedy() -> None:
    with pytest.raises(OptionError, match=r"kafka\.ssl\.ca\.location"):
        properties(ssl__truststore__location="/etc/trust.jks")
    pem = properties(ssl__truststore__location="/etc/ca.pem", ssl__truststore__type="PEM").values
    assert pem["ssl.ca.location"] == "/etc/ca.pem"


def test_bootstrap_servers_are_required() -> None:
    options = Source.resolve({"enumerator": "kafka", "subscribe": "orders"}).options
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is not set"):
        client_properties(options)


def test_a_value_that_librdkafka_refuses_is_shown_without_secrets() -> None:
    with pytest.raises(OptionError, match="the options kafka\\.\\* are invalid") as raised:
        new_consumer(properties(sasl__password=SECRET, security__protocol=SECRET))
    assert SECRET not in str(raised.value)
    assert "***" in str(raised.value)


def test_properties_do_not_show_their_values() -> None:
    assert SECRET not in repr(properties(sasl__password=SECRET))


def test_a_secret_is_in_no_log_error_offset_or_state(
    kafka: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka.filled_topic([b"a"])
    more = {"kafka.sasl.password": SECRET, "kafka.ssl.key.password": SECRET, "kafka.log_level": "7"}
    engine = stream(kafka, topic, stateLocation=tmp_path, **more, **{"kafka.debug": "conf,security,broker"})
    with caplog.at_level(logging.DEBUG):
        engine.process_all_available()
        refused = stream(kafka, topic, **more, **{
            "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "ann", "kafka.socket.timeout.ms": "1000", "discoveryRetries": "0",
        })  # fmt: skip
        with pytest.raises(Flip27Error) as raised:
            refused.run_batch()
    assert engine.rows
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    texts = [caplog.text, str(raised.value), str(engine.batches[0].end), *map(repr, stored)]
    assert [text for text in texts if SECRET in text] == []
    assert "rdkafka" in caplog.text, "librdkafka's log is captured"


def test_of_lines_that_are_repeated_one_a_minute_is_shown_with_the_number_of_the_others() -> None:
    refused = "[flip27#consumer-{}] kafka{}:9092: Connection refused (after {}ms in state CONNECT)"
    lines = RepeatedLines()
    assert lines.since_shown(refused.format(1, 1, 0), 0.0) == 0
    assert lines.since_shown(refused.format(2, 1, 17), 1.0) is None
    assert lines.since_shown(refused.format(2, 2, 17), 1.0) == 0, "another broker"
    assert lines.since_shown(refused.format(1, 1, 0), SHOWN_EVERY_S - 1) is None
    assert lines.since_shown(refused.format(1, 1, 0), SHOWN_EVERY_S) == 2
    assert lines.since_shown(refused.format(1, 1, 0), SHOWN_EVERY_S + 1) is None


def test_brokers_that_refuse_connections_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    refusing = properties(bootstrap__servers=f"127.0.0.1:{free_port()}", request__timeout__ms="1000")
    with closing(Cluster(refusing)) as cluster:
        for _ in range(2):
            with pytest.raises(KafkaError):
                cluster.topics(["orders"])
    assert caplog.text.count("Connection refused") == 1
    of_kafka = [record for record in caplog.records if record.name == "flip27_source.kafka"]
    assert all(hasattr(record, "flip27_ids") for record in of_kafka), "with the ids of the source"
