"""Which partitions a query reads, where they start, and what happens when topics change."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from flip27_source import edits
from flip27_source.enumerator_mixins import NamedPosition
from flip27_source.enumerators.kafka.client import failed
from flip27_source.enumerators.kafka.cluster import DESCRIPTIONS_UNTIL_GONE, GONE_AFTER_S, Cluster, Topic
from flip27_source.enumerators.kafka.enumerator import KafkaEnumerator
from flip27_source.enumerators.kafka.split import TopicPartition
from flip27_source.errors import AccessError, DataLossError, DiscoveryError, OptionError
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.enumerators.kafka.reading import HandClock, continued, offsets_of, read, stream, values_of
from tests.enumerators.kafka.test_batches import batch_read, committed
from tests.kafka_server import KafkaBroker, Record


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    found = HandClock()
    monkeypatch.setattr(KafkaEnumerator, "clock", found.clock)
    return found


def poll_for_a_while(engine: MicroBatchEngine, clock: HandClock) -> None:
    """Poll until a topic counts as gone: descriptions lack it for some time."""
    for _ in range(DESCRIPTIONS_UNTIL_GONE + 1):
        engine.process_all_available()
        clock.wait(GONE_AFTER_S / (DESCRIPTIONS_UNTIL_GONE - 1))


def test_latest_becomes_a_fixed_offset_before_the_first_batch_is_read(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"before"])
    engine = stream(kafka, topic, startingOffsets="latest")
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.OFFSET_LOGGED)
    kafka.produce(topic, [b"after"])
    continued(engine)
    assert values_of(engine.rows) == [b"after"]


def test_a_stream_starts_at_the_latest_offset_if_none_is_given(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"before"])
    engine = read(kafka, topic, startingOffsets=None)
    kafka.produce(topic, [b"after"])
    engine.process_all_available()
    assert values_of(engine.rows) == [b"after"]


def requests_that_fail(monkeypatch: pytest.MonkeyPatch, clock: HandClock) -> list[Iterable[str]]:
    """The requests for topics from now on; each one fails after three seconds."""
    requests: list[Iterable[str]] = []

    class Unreachable(Cluster):
        def topics(self, names: Iterable[str]) -> dict[str, Topic]:
            requests.append(names)
            clock.wait(3)
            return super().topics(names)

    monkeypatch.setattr(KafkaEnumerator, "connect", staticmethod(Unreachable))
    return requests


NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "100"}


def test_a_first_start_fails_soon_if_the_brokers_cannot_be_reached(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, clock: HandClock
) -> None:
    requests = requests_that_fail(monkeypatch, clock)
    with pytest.raises(AccessError, match=r"failed at Kafka at 127\.0\.0\.1:1") as refused:
        read(kafka, "orders", **NOWHERE)
    assert "kafka.bootstrap.servers" in str(refused.value.remedy)
    assert len(requests) == 2
    for retries in ("fetchOffset.numRetries", "discoveryRetries"):
        requests.clear()
        with pytest.raises(AccessError):
            read(kafka, "orders", **NOWHERE, **{retries: 4})
        assert len(requests) == 5, retries


@pytest.mark.parametrize(
    ("request_", "code", "tries"),
    [
        ("topics", KafkaError.LEADER_NOT_AVAILABLE, 6),
        ("offsets", KafkaError.LEADER_NOT_AVAILABLE, 6),
        ("offsets", KafkaError._TIMED_OUT, 6),
        ("topics", KafkaError.TOPIC_AUTHORIZATION_FAILED, 2),
        ("offsets", KafkaError.TOPIC_AUTHORIZATION_FAILED, 2),
        ("topics", KafkaError._ALL_BROKERS_DOWN, 2),
    ],
    ids=["no leader known", "no leader", "a leader is down", "no rights", "no right", "all brokers are down"],
)
def test_a_first_start_waits_for_leaders_if_a_broker_answers_but_not_for_brokers_or_rights(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, clock: HandClock,
    request_: str, code: int, tries: int,
) -> None:  # fmt: skip
    topic, asked = kafka.filled_topic([b"a"]), []

    class Restarting(Cluster):
        """The sixth request is the first one that does not fail after three seconds."""

        def topics(self, names: Iterable[str]) -> dict[str, Topic]:
            self.fail("topics")
            return super().topics(names)

        def offsets(self, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
            self.fail("offsets")
            return super().offsets(places)

        def fail(self, doing: str) -> None:
            if doing == request_:
                asked.append(doing)
                clock.wait(3)
                if len(asked) < 6:
                    raise failed(self._properties, doing, KafkaError(code))

    monkeypatch.setattr(KafkaEnumerator, "connect", staticmethod(Restarting))
    with pytest.raises(AccessError) if tries < 6 else nullcontext():
        assert values_of(read(kafka, topic).rows) == [b"a"]
    assert len(asked[:6]) == tries


def test_a_query_that_continues_retries_until_the_brokers_are_back(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, clock: HandClock
) -> None:
    topic = kafka.filled_topic([b"a"])
    before = read(kafka, topic)
    before.stop()
    requests = requests_that_fail(monkeypatch, clock)
    after = stream(kafka, topic, store=before.store, **NOWHERE, discoveryRetries=7)
    after.logs = before.logs
    with pytest.raises(AccessError):
        after.process_all_available()
    assert len(requests) == 8


def test_each_partition_starts_at_its_given_offset(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"a", b"b", b"c"], partitions=3)
    first, last = kafka.filled_topic([b"d"], partitions=2), kafka.filled_topic([b"e"])
    starts = json.dumps({topic: {"0": 1, "1": -1, "2": -2}, first: "earliest", last: "LATEST"})
    engine = read(kafka, f"{topic},{first},{last}", startingOffsets=starts)
    assert offsets_of(engine.rows) == {
        f"{topic}/0": [1, 2], f"{topic}/2": [0, 1, 2], f"{first}/0": [0], f"{first}/1": [0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("option", "partitions", "others", "named"),
    [
        ("startingOffsets", 2, {}, "it leaves out {}/1"),
        ("startingOffsets", 1, {}, "startingOffsets sets offset 7 for {}/0"),
        ("startingOffsets", 1, {"odrers": "latest"}, "the topics do not have odrers"),
        ("startingOffsetsByTimestamp", 2, {}, "it leaves out {}/1"),
        ("startingOffsetsByTimestamp", 1, {"odrers": {"0": 7}}, "the topics do not have odrers/0"),
    ],
    ids=["a partition left out", "an offset after the end", "an unknown topic", "no time", "a time too many"],
)
def test_positions_that_a_topic_does_not_have_are_refused(
    kafka: KafkaBroker, option: str, partitions: int, others: dict[str, Any], named: str
) -> None:
    topic = kafka.topic(partitions)
    engine = stream(kafka, topic, **{option: json.dumps({topic: {"0": 7}, **others})})
    with pytest.raises(OptionError, match=named.format(topic)):
        engine.run_batch()


@pytest.mark.parametrize("offsets", [{}, {"startingOffsets": "earliest"}], ids=["alone", "with offsets"])
def test_a_query_with_a_start_time_starts_at_the_first_record_that_is_not_older(
    kafka: KafkaBroker, offsets: dict[str, str]
) -> None:
    topic = kafka.filled_topic(
        [Record(value=b"%d" % hour, timestamp_ms=hour * 3_600_000) for hour in (1, 2, 3)]
    )
    engine = read(kafka, topic, startingTimestamp=2 * 3_600_000, **offsets)
    assert values_of(engine.rows) == [b"2", b"3"]


def test_a_time_after_the_end_is_an_error_unless_the_strategy_is_latest(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([Record(value=b"a", timestamp_ms=3_600_000)])
    times = json.dumps({topic: {"0": 7_200_000}})
    with pytest.raises(OptionError, match="has no record at timestamp 7200000 or later"):
        stream(kafka, topic, startingOffsetsByTimestamp=times).run_batch()
    engine = read(kafka, topic, startingOffsetsByTimestamp=times, startingOffsetsByTimestampStrategy="latest")
    kafka.produce(topic, [b"b"])
    engine.process_all_available()
    assert values_of(engine.rows) == [b"b"]


@pytest.mark.parametrize("choice", ["assign", "subscribe", "subscribePattern"])
@pytest.mark.parametrize(
    ("start", "first"),
    [
        ({"startingOffsets": "latest"}, []),
        ({"startingOffsets": "earLiest"}, [b"1", b"2"]),
        ({"startingOffsets": '{"TOPIC": {"0": 1}}'}, [b"2"]),
        ({"startingOffsetsByTimestamp": '{"TOPIC": {"0": 7200000}}'}, [b"2"]),
        ({"startingTimestamp": "7200000"}, [b"2"]),
    ],
    ids=["latest", "earliest", "an offset", "a time of each partition", "one time"],
)
def test_topics_chosen_in_any_way_start_at_any_kind_of_position(
    kafka: KafkaBroker, choice: str, start: dict[str, str], first: list[bytes]
) -> None:
    topic = kafka.filled_topic([Record(value=b"%d" % hour, timestamp_ms=hour * 3_600_000) for hour in (1, 2)])
    chosen = json.dumps({topic: [0]}) if choice == "assign" else topic
    options = {name: value.replace("TOPIC", topic) for name, value in start.items()}
    engine = read(kafka, **{choice: chosen}, **options)
    assert values_of(engine.rows) == first
    kafka.produce(topic, [b"3"])
    engine.stop()
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, [b"4"], partition=1)
    continued(engine)
    assert sorted(values_of(engine.rows)) == [*first, b"3", *([] if choice == "assign" else [b"4"])]


def test_assign_reads_only_the_given_partitions(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"a"], partitions=3)
    engine = read(kafka, assign=json.dumps({topic: [0, 2]}))
    assert offsets_of(engine.rows) == {f"{topic}/0": [0], f"{topic}/2": [0]}


@pytest.mark.parametrize("start", ["latest", '{"TOPIC": "latest"}'])
def test_a_pattern_finds_topics_that_are_created_later_and_reads_them_from_the_beginning(
    kafka: KafkaBroker, start: str
) -> None:
    name = f"events_{uuid.uuid4().hex[:8]}"
    first = kafka.topic(name=f"{name}.a")
    starts = start.replace("TOPIC", first)
    engine = read(kafka, subscribePattern=f"{name}\\..*", startingOffsets=starts)
    second = kafka.topic(name=f"{name}.b")
    kafka.topic(name=f"{name}_other")
    kafka.produce(second, [b"b"])
    kafka.produce(first, [b"a"])
    engine.process_all_available()
    assert offsets_of(engine.rows) == {first + "/0": [0], second + "/0": [0]}


@pytest.mark.parametrize("is_down", [False, True])
def test_a_new_partition_is_read_from_its_beginning(kafka: KafkaBroker, *, is_down: bool) -> None:
    topic = kafka.topic()
    engine = read(kafka, topic, startingOffsets="latest")
    if is_down:
        engine.stop()
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, [b"a", b"b"], partition=1)
    if is_down:
        engine.restart()
    engine.process_all_available()
    assert offsets_of(engine.rows) == {f"{topic}/1": [0, 1]}


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ({"kafka.security.protocol": "tls"}, "Invalid value"),
        ({"kafka.isolation.level": "sometimes"}, "Invalid value"),
        ({"subscribe": "nowhere"}, "names nowhere"),
        ({"subscribe": None, "subscribePattern": "no.*"}, "no partition for option subscribePattern"),
    ],
)
def test_mistakes_in_options_are_not_retried(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, mistake: dict[str, str | None], said: str
) -> None:
    requests = []

    class Counting(Cluster):
        def topics(self, names: Iterable[str]) -> dict[str, Topic]:
            requests.append(names)
            return super().topics(names)

    monkeypatch.setattr(KafkaEnumerator, "connect", staticmethod(Counting))
    with pytest.raises(OptionError, match=said):
        stream(kafka, **{"subscribe": "orders", **mistake}).run_batch()
    assert len(requests) == 1


def test_a_topic_that_does_not_exist_is_an_error(kafka: KafkaBroker) -> None:
    there = kafka.topic()
    for names in ("nowhere", f"{there},nowhere"):
        with pytest.raises(OptionError, match="names nowhere, which the cluster does not have"):
            stream(kafka, names).run_batch()
    with pytest.raises(OptionError, match=r"has no partition for option subscribePattern 'no\.\*'"):
        stream(kafka, subscribePattern="no.*").run_batch()
    engine = read(kafka, there)
    engine.restart(options={"subscribe": "nowhere"})
    with pytest.raises(DiscoveryError, match="the cluster has no partition for option subscribe 'nowhere'"):
        engine.process_all_available()


def test_records_that_expired_while_the_query_was_down_are_a_loss(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"%d" % number for number in range(5)])
    engine = stream(kafka, topic, maxOffsetsPerTrigger=2)
    engine.run_batch()
    engine.stop()
    kafka.delete_records(topic, {0: 4})
    engine.restart()
    with pytest.raises(DataLossError, match="offsets 2 to 3 have expired or were deleted") as raised:
        engine.run_batch()
    assert f"set-position --state STATE_LOCATION --split {topic}/0 --to earliest" in str(raised.value)


@pytest.mark.parametrize("reads", [read, batch_read])
def test_a_start_at_expired_offsets_names_the_option_that_helps_and_no_edit(
    reads: Callable[..., Any], kafka: KafkaBroker
) -> None:
    topic = kafka.filled_topic([b"a", b"b", b"c"])
    kafka.delete_records(topic, {0: 2})
    given = {"startingOffsets": json.dumps({topic: {"0": 1}})}
    with pytest.raises(DataLossError, match="offsets 1 to 1 have expired") as raised:
        reads(kafka, topic, **given)
    assert f"set startingOffsets to earliest, or to -2 for {topic}/0" in str(raised.value)
    assert "flip27 edit" not in str(raised.value)
    given = {"startingOffsets": json.dumps({topic: {"0": -2}})}
    assert offsets_of(read(kafka, topic, **given).rows) == {f"{topic}/0": [2]}


def test_with_fail_on_data_loss_false_the_query_continues_after_the_expired_records(
    kafka: KafkaBroker,
) -> None:
    topic = kafka.filled_topic([b"%d" % number for number in range(5)])
    engine = stream(kafka, topic, maxOffsetsPerTrigger=2, failOnDataLoss="false", inline_state=True)
    engine.run_batch()
    kafka.delete_records(topic, {0: 4})
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 4]}
    assert engine.holder.report()["dataLosses"] == 1


def test_a_topic_that_is_recreated_with_fewer_records_is_a_loss(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"a", b"b", b"c"])
    engine = read(kafka, topic)
    kafka.recreate_topic(topic, [b"d"])
    with pytest.raises(DataLossError, match="the partition ends at offset 1, and offset 3 was to be read"):
        engine.process_all_available()


def test_partitions_missing_from_a_recreated_topic_are_a_loss(clock: HandClock, kafka: KafkaBroker) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, [b"a"], partition=1)
    engine = read(kafka, topic, onDataLoss="report")
    kafka.recreate_topic(topic, [b"b"])
    poll_for_a_while(engine, clock)
    engine.process_all_available()
    assert values_of(engine.rows) == [b"a", b"b"]
    assert engine.holder.report()["dataLosses"] == 1


def test_with_report_a_topic_that_is_recreated_is_read_from_its_beginning(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"a", b"b", b"c"])
    engine = read(kafka, topic, onDataLoss="report")
    kafka.recreate_topic(topic, [b"d"])
    engine.process_all_available()
    assert values_of(engine.rows) == [b"a", b"b", b"c", b"d"]


def test_a_recreated_topic_is_recognized_by_its_id(tansu: KafkaBroker) -> None:
    topic = tansu.filled_topic([b"a"])
    engine = read(tansu, topic, onDataLoss="report")
    tansu.recreate_topic(topic, [b"b", b"c"])
    engine.process_all_available()
    assert values_of(engine.rows) == [b"a", b"b", b"c"]
    assert engine.holder.report()["dataLosses"] == 1


def test_each_topic_of_a_name_that_is_deleted_is_a_loss(clock: HandClock, tansu: KafkaBroker) -> None:
    topic, other = tansu.filled_topic([b"a"]), tansu.topic()
    engine = read(tansu, f"{topic},{other}", onDataLoss="report")
    tansu.delete_topic(topic)
    poll_for_a_while(engine, clock)
    tansu.topic(name=topic)
    tansu.produce(topic, [b"b"])
    engine.process_all_available()
    tansu.delete_topic(topic)
    poll_for_a_while(engine, clock)
    assert values_of(engine.rows) == [b"a", b"b"]
    assert engine.holder.report()["dataLosses"] == 2


@pytest.mark.parametrize("others", [0, 1])
def test_a_topic_that_is_deleted_is_a_loss(clock: HandClock, kafka: KafkaBroker, others: int) -> None:
    topic = kafka.filled_topic([b"a"])
    engine = read(kafka, ",".join([topic, *(kafka.topic() for _ in range(others))]))
    kafka.delete_topic(topic)
    with pytest.raises(
        DataLossError, match=f"topic {topic} no longer exists; its records from offset 1 on are lost"
    ):
        poll_for_a_while(engine, clock)


def test_a_run_with_one_poll_notices_a_deleted_topic_too(kafka: KafkaBroker) -> None:
    topic, other = kafka.filled_topic([b"a"]), kafka.topic()
    engine = read(kafka, f"{topic},{other}", available_now=True)
    kafka.delete_topic(topic)
    engine.restart()
    with pytest.raises(DataLossError, match=f"topic {topic} no longer exists"):
        engine.process_all_available()


@pytest.mark.parametrize("is_left", [False, True], ids=["deleted", "recreated with fewer records"])
def test_a_run_with_one_batch_notices_a_topic_that_was_deleted_while_others_have_records(
    kafka: KafkaBroker, *, is_left: bool
) -> None:
    topic, other = kafka.filled_topic([b"a", b"b"]), kafka.filled_topic([b"c"])
    engine = read(kafka, f"{topic},{other}")
    engine.stop()
    if is_left:
        kafka.recreate_topic(topic, [b"new"])
    else:
        kafka.delete_topic(topic)
    kafka.produce(other, [b"d"])
    engine.restart()
    with pytest.raises(DataLossError, match=f"{topic}.* no longer exists|the partition ends at offset 1"):
        engine.run_batch()


def test_a_run_with_one_poll_notices_a_deleted_topic_after_another_one_was_left_out(
    kafka: KafkaBroker,
) -> None:
    topic, other, left_out = (kafka.filled_topic([b"a"]) for _ in range(3))
    engine = read(kafka, f"{topic},{other},{left_out}", available_now=True, onDataLoss="report")
    kafka.delete_topic(topic)
    kafka.produce(other, [b"b"])
    engine.restart(options={"subscribe": f"{topic},{other}"})
    engine.process_all_available()
    assert values_of(engine.rows) == [b"a", b"a", b"a", b"b"]
    assert engine.holder.report()["dataLosses"] == 1


@pytest.mark.parametrize("partitions", [1, 2], ids=["with fewer partitions", "with fewer records"])
def test_a_topic_that_is_recreated_during_a_run_that_ends_is_a_loss(
    kafka: KafkaBroker, partitions: int
) -> None:
    topic = kafka.filled_topic([b"a", b"b", b"c"], partitions=2)
    engine = stream(kafka, topic, available_now=True, maxOffsetsPerTrigger=2)
    engine.run_batch()
    kafka.recreate_topic(topic, [], partitions=partitions)
    with pytest.raises(DataLossError, match=topic):
        engine.process_all_available()


def test_a_topic_that_is_missing_for_less_than_ten_seconds_does_not_count_as_deleted(
    clock: HandClock, kafka: KafkaBroker
) -> None:
    topic, other = kafka.filled_topic([b"a"]), kafka.topic()
    engine = read(kafka, f"{topic},{other}")
    kafka.delete_topic(topic)
    for _ in range(DESCRIPTIONS_UNTIL_GONE + 1):
        engine.process_all_available()
        clock.wait(GONE_AFTER_S / 100)
    kafka.topic(name=topic)
    kafka.produce(topic, [b"a", b"b"])
    engine.process_all_available()
    assert values_of(engine.rows) == [b"a", b"b"]


def test_an_unresponsive_broker_delays_the_batch(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"a"])
    engine = stream(kafka, topic)
    assert engine.trigger()
    with ThreadPoolExecutor(1) as executor:
        with kafka.suspended():
            batch = executor.submit(engine.run_batch)
            with pytest.raises(TimeoutError):
                batch.result(3)
        batch.result(60)
    assert values_of(engine.rows) == [b"a"]


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("option", ["subscribe", "subscribePattern"])
def test_with_report_a_deleted_topic_that_reappears_is_new(
    clock: HandClock, kafka: KafkaBroker, option: str, others: int
) -> None:
    topic = kafka.filled_topic([b"a"])
    names = [topic, *(kafka.topic() for _ in range(others))]
    chosen = {option: ("," if option == "subscribe" else "|").join(names)}
    engine = read(kafka, onDataLoss="report", **chosen)
    kafka.delete_topic(topic)
    engine.process_all_available()
    assert "dataLosses" not in engine.holder.report(), "brokers that restart may not know their topics"
    poll_for_a_while(engine, clock)
    assert engine.holder.report()["dataLosses"] == 1
    poll_for_a_while(engine, clock)
    kafka.topic(name=topic)
    kafka.produce(topic, [b"b", b"c"])
    engine.process_all_available()
    assert values_of(engine.rows) == [b"a", b"b", b"c"]


def test_the_lower_offsets_of_a_deleted_topic_that_reappears_are_committed(
    clock: HandClock, kafka: KafkaBroker
) -> None:
    topic, other = kafka.filled_topic([b"a", b"b", b"c"]), kafka.topic()
    given = {"onDataLoss": "report", "commitOffsets": "true", "kafka.group.id": topic}
    engine = read(kafka, f"{topic},{other}", **given)
    kafka.delete_topic(topic)
    poll_for_a_while(engine, clock)
    kafka.topic(name=topic)
    kafka.produce(topic, [b"d"])
    engine.process_all_available()
    assert committed(kafka, topic, topic, 1) == [1]


@pytest.mark.parametrize("available_now", [False, True])
@pytest.mark.parametrize(
    ("position", "named"),
    [
        ({"word": "earliest"}, "earliest"),
        ({"word": "latest"}, "latest"),
        ({"timestamp_ms": 7}, "timestamp 7"),
    ],
)
def test_a_topic_that_is_deleted_after_an_edit_to_a_word_or_a_time_is_a_loss_and_later_new(
    clock: HandClock,
    kafka: KafkaBroker,
    tmp_path: Path,
    position: dict[str, Any],
    named: str,
    *,
    available_now: bool,
) -> None:
    topic, other = kafka.filled_topic([b"a"]), kafka.filled_topic([b"other"])
    engine = read(kafka, f"{topic},{other}", stateLocation=tmp_path, available_now=available_now)
    edit = edits.plan(
        "set-position",
        state=str(tmp_path),
        why="test",
        splits=[f"{topic}/0"],
        position=NamedPosition(**position),
    )
    edits.submit(edit)
    kafka.delete_topic(topic)
    kafka.produce(other, [b"later"])
    engine.restart()
    with pytest.raises(DataLossError, match=f"its records from {named} on are lost(?s:.*)flip27 edit skip"):
        poll_for_a_while(engine, clock)
    engine.restart(options={"onDataLoss": "report"})
    poll_for_a_while(engine, clock)
    kafka.topic(name=topic)
    kafka.produce(topic, [b"new"])
    continued(engine)
    assert sorted(values_of(engine.rows)) == [b"a", b"later", b"new", b"other"]


@pytest.mark.parametrize("is_new", [False, True], ids=["an edited partition", "a new topic"])
def test_a_partition_without_a_leader_whose_start_is_not_known_does_not_stop_the_others(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_new: bool
) -> None:
    leaderless: set[str] = set()

    class WithoutSomeLeaders(Cluster):
        def _answers(self, places: Any) -> list[Any]:
            error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
            lacking = [
                SimpleNamespace(topic=name, partition=number, error=error)
                for name, number in places
                if name in leaderless
            ]
            others = {key: at for key, at in places.items() if key[0] not in leaderless}
            return [*lacking, *(super()._answers(others) if others else [])]

    monkeypatch.setattr(KafkaEnumerator, "connect", staticmethod(WithoutSomeLeaders))
    name = f"events_{uuid.uuid4().hex[:8]}"
    first, second = kafka.topic(name=f"{name}.a"), f"{name}.b"
    if not is_new:
        kafka.topic(name=second)
    engine = read(kafka, subscribePattern=f"{name}\\..*", stateLocation=tmp_path, discoveryRetries=0)
    leaderless.add(second)
    if is_new:
        kafka.topic(name=second)
    else:
        earliest = NamedPosition(word="earliest")
        edit = edits.plan(
            "set-position", state=str(tmp_path), why="test", splits=[f"{second}/0"], position=earliest
        )
        edits.submit(edit)
    kafka.produce(first, [b"a"])
    kafka.produce(second, [b"b"])
    continued(engine)
    assert values_of(engine.rows) == [b"a"]
    leaderless.clear()
    engine.process_all_available()
    assert values_of(engine.rows) == [b"a", b"b"]


@pytest.mark.parametrize("available_now", [False, True])
def test_a_topic_that_was_skipped_after_its_deletion_is_new_when_it_reappears(
    clock: HandClock, kafka: KafkaBroker, tmp_path: Path, *, available_now: bool
) -> None:
    topic, other = kafka.filled_topic([b"a"]), kafka.filled_topic([b"other"])
    engine = read(kafka, f"{topic},{other}", stateLocation=tmp_path, available_now=available_now)
    kafka.delete_topic(topic)
    engine.restart()
    with pytest.raises(DataLossError, match=f"flip27 edit skip (?s:.*)--split {topic}/0"):
        poll_for_a_while(engine, clock)
    edits.submit(edits.plan("skip", state=str(tmp_path), why="test", splits=[f"{topic}/0"]))
    engine.restart()
    poll_for_a_while(engine, clock)
    kafka.topic(name=topic)
    kafka.produce(topic, [b"b", b"c"])
    continued(engine)
    assert sorted(values_of(engine.rows)) == [b"a", b"b", b"c", b"other"]


@pytest.mark.parametrize("available_now", [False, True])
def test_a_topic_that_was_skipped_is_new_when_its_id_is_new(
    tansu: KafkaBroker, tmp_path: Path, *, available_now: bool
) -> None:
    topic = tansu.filled_topic([b"a"])
    engine = read(tansu, topic, stateLocation=tmp_path, available_now=available_now)
    edits.submit(edits.plan("skip", state=str(tmp_path), why="test", splits=[f"{topic}/0"]))
    tansu.produce(topic, [b"skipped"])
    continued(engine)
    tansu.recreate_topic(topic, [b"b", b"c"])
    continued(engine)
    assert values_of(engine.rows) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("available_now", [False, True])
def test_a_skipped_partition_stays_skipped_when_brokers_do_not_know_its_topic_for_a_while(
    clock: HandClock,
    tansu: KafkaBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    available_now: bool,
) -> None:
    unknown: set[str] = set()

    class Forgetful(Cluster):
        def topics(self, names: Iterable[str]) -> dict[str, Topic]:
            found = super().topics(names)
            return {name: topic for name, topic in found.items() if name not in unknown}

    monkeypatch.setattr(KafkaEnumerator, "connect", staticmethod(Forgetful))
    topic, other = tansu.filled_topic([b"a"]), tansu.filled_topic([b"other"])
    engine = read(tansu, f"{topic},{other}", stateLocation=tmp_path, available_now=available_now)
    edits.submit(edits.plan("skip", state=str(tmp_path), why="test", splits=[f"{topic}/0"]))
    continued(engine)
    tansu.produce(topic, [b"skipped"])
    unknown.add(topic)
    engine.restart()
    poll_for_a_while(engine, clock)
    before_s = clock.now_s
    continued(engine)
    assert clock.now_s == before_s, "a run that ends by itself does not wait for the topic again"
    unknown.clear()
    continued(engine)
    tansu.produce(other, [b"later"])
    continued(engine)
    assert sorted(values_of(engine.rows)) == [b"a", b"later", b"other"]


def test_a_query_loses_nothing_when_a_broker_restarts(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"a"])
    engine = read(kafka, topic)
    kafka.restart()
    kafka.produce(topic, [b"b"])
    engine.process_all_available()
    assert values_of(engine.rows) == [b"a", b"b"]


def test_exactly_one_option_that_chooses_topics_must_be_set(kafka: KafkaBroker) -> None:
    with pytest.raises(OptionError, match="no topic is chosen"):
        stream(kafka).run_batch()
    with pytest.raises(OptionError, match="options subscribe and subscribePattern are both set"):
        stream(kafka, "a", subscribePattern="b").run_batch()
    for option in ("assign", "subscribe", "subscribePattern"):
        with pytest.raises(OptionError, match=option):
            stream(kafka, **{option: ""}).run_batch()
