"""The assigner decides from the results of polls alone, without brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain, repeat

import msgspec
import pytest

from flip27_source.enumerators.kafka.assigner import Assigner, KafkaState, Loss, as_ranges, of_ranges
from flip27_source.enumerators.kafka.client import KafkaError
from flip27_source.enumerators.kafka.cluster import Absence, Cluster, Topic
from flip27_source.enumerators.kafka.options import KAFKA_OPTIONS
from flip27_source.enumerators.kafka.poller import ClusterPoller, PollRequest, PollResult
from flip27_source.enumerators.kafka.split import (
    AT_TIMESTAMP,
    EARLIEST,
    LATEST,
    KafkaSplit,
    TopicPartition,
    divided,
)
from flip27_source.enumerators.kafka.start_positions import starting
from flip27_source.enumerators.kafka.topic_choice import TopicChoice
from flip27_source.options import Options
from tests.enumerators.kafka.reading import HandClock

ORDERS = Topic(topic_id="a", partitions=(0, 1))
TEN_SECONDS = (1.0, 6.0, 11.0)


def poll(
    topics: Mapping[str, Topic] | None = None,
    ends: tuple[int, ...] = (),
    starts: tuple[int, ...] = (),
    resolved: tuple[int, ...] = (),
    at_s: float = 0.0,
) -> PollResult:
    """Return the result of a poll of the partitions of orders, numbered from 0."""

    def of(offsets: tuple[int, ...]) -> dict[tuple[str, int], int]:
        return {("orders", number): offset for number, offset in enumerate(offsets)}

    seen = Absence(since_s=at_s, until_s=at_s)
    return PollResult(topics=topics, described=seen, ends=of(ends), starts=of(starts), resolved=of(resolved))


def assigner_at(*results: PollResult, chosen: bool = True) -> Assigner:
    """Return an assigner that has taken these results."""
    assigner = Assigner(None, lambda _: chosen)
    for seen in results:
        assigner.take(seen)
    return assigner


FIRST = poll({"orders": ORDERS}, ends=(10, 20), starts=(0, 0), resolved=(10, 5))


def test_a_partition_starts_at_the_offset_that_the_first_poll_resolved() -> None:
    assigner = assigner_at(FIRST)
    assert assigner.next_split() == KafkaSplit(split_id="orders/0", next=10, topic_id="a")
    assert assigner.next_split() == KafkaSplit(split_id="orders/1", next=5, topic_id="a")
    assert assigner.next_split() is None


def test_a_repeated_first_poll_does_not_change_the_start_offsets() -> None:
    again = poll({"orders": ORDERS}, ends=(11, 21), resolved=(11, 21))
    assert [split.next for split in assigner_at(FIRST, again).held] == [10, 5]


def test_the_state_restores_the_same_assigner() -> None:
    assigner = assigner_at(FIRST)
    assigner.next_split()
    restored = Assigner(assigner.state(), lambda _: True)
    assert restored.known == assigner.known
    assert restored.held == assigner.held


@pytest.mark.parametrize(
    "seconds", [(1.0, 1.1, 1.2, 1.3, 1.4), (1.0, 5.0, 10.9), (1.0, 1000.0)], ids=["many", "brief", "two"]
)
def test_the_position_is_kept_while_a_topic_is_missing_briefly_or_in_two_polls(
    seconds: tuple[float, ...],
) -> None:
    split = KafkaSplit(split_id="orders/0", next=4, topic_id="a")
    assigner = assigner_at(FIRST, *[poll({"customers": ORDERS}, at_s=at_s) for at_s in seconds])
    assert assigner.located(split) is None
    assigner.take(poll({"orders": ORDERS}, ends=(12, 20)))
    assert assigner.located(split) == split


def test_a_topic_that_stays_missing_is_a_loss_unless_the_options_no_longer_select_it() -> None:
    split = KafkaSplit(split_id="orders/0", next=4, topic_id="a")
    results = [FIRST, *[poll({"customers": ORDERS}, at_s=at_s) for at_s in TEN_SECONDS]]
    lost = assigner_at(*results).located(split)
    assert isinstance(lost, Loss)
    assert lost.begins is None
    assert assigner_at(*results, chosen=False).located(split) is None


@pytest.mark.parametrize(
    ("before", "topic_id", "starts"),
    [("a", "a", [4]), ("a", "b", [0]), ("a", None, [0]), (None, "a", [0]), (None, None, [0])],
)
def test_a_lost_partition_that_comes_back_continues_if_its_topic_has_the_same_id(
    before: str | None, topic_id: str | None, starts: list[int]
) -> None:
    orders = {"orders": Topic(topic_id=topic_id, partitions=(0,))}
    first = poll({"orders": Topic(topic_id=before, partitions=(0,))}, resolved=(4,))
    assigner = assigner_at(first, *[poll({}, at_s=at_s) for at_s in TEN_SECONDS])
    split = assigner.next_split()
    assert split is not None
    lost = assigner.located(split)
    assert isinstance(lost, Loss)
    assert assigner.after_loss(split, lost) is None
    restarted = Assigner(assigner.state(), lambda _: True)
    restarted.take(poll(orders, ends=(9,), starts=(0,), resolved=(0,)))
    assert [split.next for split in restarted.held] == starts


def lose(assigner: Assigner, name: str, at_s: float) -> None:
    """Let a topic with one partition come and go."""
    topic = {name: Topic(topic_id=f"id of {name}", partitions=(0,))}
    assigner.take(replace(poll(topic, at_s=at_s), resolved={(name, 0): 5}))
    for second in TEN_SECONDS:
        assigner.take(poll({}, at_s=at_s + second))
    split = assigner.next_split()
    assert split is not None
    lost = assigner.located(split)
    assert isinstance(lost, Loss)
    assert assigner.after_loss(split, lost) is None


def test_the_state_has_the_last_hundred_topics_that_are_gone_for_an_hour_or_were_before_a_restart() -> None:
    assigner = assigner_at(poll({}))
    for number in range(150):
        lose(assigner, f"old-{number:03}", at_s=20.0 * number)
    assert len(assigner.known or ()) == 150
    assigner.take(poll({}, at_s=4000.0))
    lose(assigner, "new", at_s=10_000.0)
    state = assigner.state()
    assert state is not None
    assert sorted(state.topics) == ["new", *(f"old-{number:03}" for number in range(50, 150))]
    assert state.topics["new"].lost == ((0, 5, None),)
    assert len(msgspec.json.encode(state.topics["new"])) < 90
    restarted = Assigner(state, lambda _: True)
    restarted.take(poll({}))
    lose(restarted, "newer", at_s=100.0)
    assert len(restarted.known or ()) == 101
    restarted.take(poll({"new": Topic(topic_id="id of new", partitions=(0,))}, at_s=200.0))
    assert restarted.next_split() == KafkaSplit(split_id="new/0", next=5, topic_id="id of new")


def test_a_topic_that_comes_back_without_an_id_after_its_loss_does_not_have_the_id_of_the_old_one() -> None:
    assigner = assigner_at(FIRST, *[poll({}, at_s=at_s) for at_s in TEN_SECONDS])
    while (split := assigner.next_split()) is not None:
        lost = assigner.located(split)
        assert isinstance(lost, Loss)
        assigner.after_loss(split, lost)
    assigner.take(
        poll({"orders": replace(ORDERS, topic_id=None)}, ends=(4, 4), starts=(0, 0), resolved=(0, 0))
    )
    again = assigner.next_split()
    assert again == KafkaSplit(split_id="orders/0", next=0)
    assigner.take(poll(ANEW, ends=(4, 4), starts=(0, 0)))
    assert assigner.located(replace(again, next=3)) == replace(again, next=3, topic_id="b")


@pytest.mark.parametrize(("topic_id", "start"), [("a", LATEST), ("b", 0)])
def test_a_partition_that_is_lost_before_its_end_is_known_starts_there_only_in_the_same_topic(
    topic_id: str, start: int
) -> None:
    latest = KafkaSplit(split_id="orders/0", next=LATEST, topic_id="a")
    assigner = assigner_at(FIRST)
    while assigner.next_split():
        pass
    assert assigner.located(latest) is None
    for at_s in TEN_SECONDS:
        assigner.take(poll({}, at_s=at_s))
    lost = assigner.located(latest)
    assert isinstance(lost, Loss)
    assert assigner.after_loss(latest, lost) is None
    came_back = poll({"orders": Topic(topic_id=topic_id, partitions=(0,))}, ends=(7,), starts=(0,))
    assigner.take(replace(came_back, resolved={("orders", 0): 7}))
    assigner.take(replace(came_back, resolved={("orders", 0): 0}))
    assert assigner.next_split() == replace(latest, next=start, topic_id=topic_id)


@pytest.mark.parametrize(
    "found", [{}, {"orders": Topic(topic_id="a", partitions=(1,))}], ids=["topic", "partition"]
)
def test_what_was_there_in_a_poll_that_failed_was_not_missing_all_the_time(found: dict[str, Topic]) -> None:
    split = KafkaSplit(split_id="orders/0", next=4, topic_id="a")
    results = [poll(found, ends=(10, 20), at_s=at_s) for at_s in TEN_SECONDS]
    results[1] = replace(results[1], seen={"orders": frozenset((0, 1))})
    assert assigner_at(FIRST, *results).located(split) is None
    assert isinstance(assigner_at(FIRST, *results, poll(found, at_s=16.0)).located(split), Loss)


class Described(Cluster):
    """A cluster whose descriptions are given, the last for ever; the first request for offsets fails."""

    def __init__(self, *descriptions: dict[str, Topic]) -> None:
        self.descriptions = chain(descriptions, repeat(descriptions[-1]))
        self.has_leaders = False

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return next(self.descriptions)

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not self.has_leaders:
            self.has_leaders = True
            raise KafkaError("no partition has a leader", remedy="wait for the brokers")
        return dict.fromkeys(wanted, 0)


def test_a_poll_says_which_partitions_were_seen_in_polls_that_failed() -> None:
    given = {"kafka.bootstrap.servers": "described:9092", "subscribe": "orders,customers"}
    options = Options.parse({**given, "discoveryInterval": "0 ms"}, KAFKA_OPTIONS)
    customers = {"customers": Topic(topic_id="c", partitions=(0,))}
    poller = ClusterPoller(
        options,
        TopicChoice.of(options),
        first=starting(options, is_batch=False),
        last=None,
        connect=lambda _: Described(customers | {"orders": ORDERS}, customers),
        clock=HandClock().clock,
    )
    request = PollRequest(known={"orders": ("a", frozenset((0, 1))), "customers": ("c", frozenset((0,)))})
    with pytest.raises(KafkaError):
        poller.poll(request)
    result = poller.poll(request)
    assert result.topics == customers
    assert result.seen["orders"] == {0, 1}


def test_a_split_of_a_recreated_topic_is_behind_after_a_restart_even_if_its_position_is_the_new_end() -> None:
    anew = {"orders": Topic(topic_id="b", partitions=(0, 1))}
    state = assigner_at(FIRST, poll(anew, ends=(4, 7))).state()
    restarted = Assigner(state, lambda _: True)
    restarted.take(poll(anew, ends=(4, 7), starts=(0, 0)))
    at_the_end = KafkaSplit(split_id="orders/0", next=4, topic_id="b")
    assert not restarted.is_behind(at_the_end)
    assert restarted.is_behind(replace(at_the_end, topic_id="a"))


LACKING = {"orders": Topic(topic_id="a", partitions=(0,))}
ANEW = {"orders": replace(ORDERS, topic_id="b")}


@pytest.mark.parametrize(
    ("results", "forgotten"),
    [
        ([poll({"orders": ORDERS}, at_s=1.0)], []),
        ([poll(ANEW)], ["orders/1"]),
        ([poll(LACKING, at_s=at_s) for at_s in TEN_SECONDS], ["orders/1"]),
        ([poll({}, at_s=at_s) for at_s in TEN_SECONDS], ["orders/1"]),
        ([poll({}, at_s=at_s) for at_s in (1.0, 2.0, 3.0)], []),
    ],
    ids=["it is there", "its topic is new", "it is gone", "its topic is gone", "it is away briefly"],
)
def test_a_partition_that_was_skipped_is_forgotten_once_it_is_gone(
    results: list[PollResult], forgotten: list[str]
) -> None:
    assigner = assigner_at(FIRST, *results)
    live = [split for split in (assigner.next_split(), assigner.next_split()) if split is not None]
    assert assigner.forget_skipped(live[:1]) == forgotten
    (known,) = (assigner.known or {}).values()
    assert known[1] == {0, 1} - {1 for _ in forgotten}


def test_a_topic_is_new_until_its_skipped_partitions_are_forgotten_also_after_a_restart() -> None:
    assigner = assigner_at(FIRST, poll(ANEW))
    while assigner.next_split():
        pass
    restarted = Assigner(assigner.state(), lambda _: True)
    restarted.take(poll(ANEW))
    assert restarted.forget_skipped([]) == ["orders/0", "orders/1"]
    again = Assigner(restarted.state(), lambda _: True)
    again.take(poll(ANEW, resolved=(0, 0)))
    assert [split.next for split in again.held] == [0, 0]
    assert again.forget_skipped([]) == []


def test_the_id_of_a_topic_stays_known_if_a_broker_does_not_report_it() -> None:
    without = {"orders": replace(ORDERS, topic_id=None)}
    assigner = assigner_at(FIRST, poll(without, ends=(10, 20)))
    split = KafkaSplit(split_id="orders/0", next=4, topic_id="a")
    assert assigner.located(split) == split
    restarted = Assigner(assigner.state(), lambda _: True)
    restarted.take(poll(ANEW, ends=(10, 20), starts=(0, 0)))
    assert isinstance(restarted.located(replace(split, topic_id="a")), Loss)
    for _ in range(2):
        restarted.next_split()
    assert restarted.forget_skipped([]) == ["orders/0", "orders/1"]


def test_a_partition_of_an_older_topic_that_is_skipped_while_its_loss_is_not_yet_known_is_forgotten() -> None:
    assigner = assigner_at(FIRST, poll(ANEW, ends=(4, 4)))
    live = [split for split in (assigner.next_split(), assigner.next_split()) if split is not None]
    assert assigner.located(live[0]) is None, "the beginning of the new topic is not known"
    assert assigner.forget_skipped(live) == []
    edited = Assigner(assigner.state(), lambda _: True)
    edited.take(poll(ANEW, ends=(4, 4)))
    assert edited.forget_skipped(live[1:]) == ["orders/0"]
    assert edited.forget_skipped([replace(live[1], topic_id="b")]) == []
    assert (edited.state() or KafkaState(topics={})).topics["orders"].topic_id == "b"


@pytest.mark.parametrize("also", [[], [KafkaSplit(split_id="orders/1", next=4, topic_id="a")]])
def test_a_partition_of_a_recreated_topic_that_was_read_and_then_skipped_is_not_read_again(
    also: list[KafkaSplit],
) -> None:
    assigner = assigner_at(FIRST, poll(ANEW, ends=(4, 4), starts=(0, 0)))
    live = [split for split in (assigner.next_split(), assigner.next_split()) if split is not None]
    assigner.forget_skipped(live)
    assigner.planned(replace(live[0], next=4, topic_id="b"))
    restarted = Assigner(assigner.state(), lambda _: True)
    restarted.take(poll(ANEW, ends=(4, 4)))
    assert restarted.forget_skipped(also) == (["orders/1"] if not also else [])
    assert 0 in (restarted.known or {})["orders"][1]


@pytest.mark.parametrize(("topic_id", "starts"), [("a", []), ("b", [0]), (None, [0])])
def test_a_skipped_partition_that_was_gone_stays_skipped_only_if_its_topic_has_the_same_id(
    topic_id: str | None, starts: list[int]
) -> None:
    first = poll({"orders": Topic(topic_id="a", partitions=(0,))}, resolved=(4,))
    assigner = assigner_at(first, *[poll({}, at_s=at_s) for at_s in TEN_SECONDS])
    assert assigner.next_split() is not None
    assert assigner.forget_skipped([]) == ["orders/0"]
    restarted = Assigner(assigner.state(), lambda _: True)
    assert restarted.known == {"orders": ("a", frozenset())}
    again = {"orders": Topic(topic_id=topic_id, partitions=(0,))}
    restarted.take(poll(again, ends=(9,), starts=(0,), resolved=(0,)))
    assert [split.next for split in restarted.held] == starts
    assert (restarted.known or {})["orders"][1] == {0}


def test_partitions_that_are_not_assigned_are_not_taken_for_skipped_ones() -> None:
    assigner = assigner_at(FIRST, poll(ANEW))
    assert assigner.forget_skipped([]) == []
    assert len(assigner.held) == 2


def test_a_partition_that_was_skipped_stays_known_while_the_options_leave_its_topic_out() -> None:
    assigner = assigner_at(FIRST, *[poll({}, at_s=at_s) for at_s in TEN_SECONDS], chosen=False)
    while assigner.next_split():
        pass
    assert assigner.forget_skipped([]) == []


def test_a_missing_partition_of_an_existing_topic_is_a_loss() -> None:
    topics = {"orders": Topic(topic_id="a", partitions=(0,))}
    assigner = assigner_at(FIRST, *[poll(topics, ends=(10,), at_s=at_s) for at_s in TEN_SECONDS])
    lost = assigner.located(KafkaSplit(split_id="orders/1", next=5, topic_id="a"))
    assert isinstance(lost, Loss)
    assert assigner.located(KafkaSplit(split_id="orders/0", next=5, topic_id="a")) is not None


@pytest.mark.parametrize(
    ("position", "begins"),
    [({"next": LATEST}, 2), ({"next": EARLIEST}, 5), ({"next": AT_TIMESTAMP, "at_timestamp_ms": 7}, 5)],
)
def test_a_topic_that_was_recreated_after_an_edit_is_a_loss_unless_the_split_names_it(
    position: dict[str, int], begins: int
) -> None:
    edited = KafkaSplit(split_id="orders/0", topic_id="a", **position)
    assigner = assigner_at(FIRST)
    assert assigner.located(edited) is None
    assigner.take(poll(ANEW, ends=(7, 7), starts=(2, 2), resolved=(5,)))
    lost = assigner.located(edited)
    assert isinstance(lost, Loss)
    assert lost.begins == begins
    known = assigner.located(replace(edited, successor="b"))
    assert isinstance(known, KafkaSplit)
    assert (known.next, known.topic_id) == (5, "b")
    assigner.take(poll({"orders": replace(ORDERS, topic_id="c")}, ends=(7, 7), starts=(0, 0)))
    assert isinstance(assigner.located(replace(edited, successor="b")), Loss)


def test_a_topic_with_a_new_id_waits_until_its_beginning_is_known() -> None:
    split = KafkaSplit(split_id="orders/0", next=4, topic_id="a")
    anew = {"orders": Topic(topic_id="b", partitions=(0, 1))}
    assigner = assigner_at(FIRST, poll(anew, ends=(7, 7)))
    assert assigner.located(split) is None, "the beginning of the old topic does not count"
    assigner.take(poll(anew, ends=(7, 7), starts=(2, 0)))
    lost = assigner.located(split)
    assert isinstance(lost, Loss)
    assert assigner.after_loss(split, lost) == KafkaSplit(split_id="orders/0", next=2, topic_id="b")


@pytest.mark.parametrize("is_shorter", [False, True], ids=["expired", "lost its end"])
def test_losses_of_the_same_offsets_in_two_topics_of_one_name_have_different_texts(
    *, is_shorter: bool
) -> None:
    texts = set()
    for topic_id in ("a", "b"):
        topics = {"orders": replace(ORDERS, topic_id=topic_id)}
        seen = poll(topics, ends=(2 if is_shorter else 9, 9), starts=(0 if is_shorter else 4, 0))
        assigner = assigner_at(FIRST, replace(seen, tops={("orders", 0): 2} if is_shorter else {}))
        lost = assigner.located(KafkaSplit(split_id="orders/0", next=3, topic_id=topic_id))
        assert isinstance(lost, Loss)
        texts.add(lost.what)
    assert len(texts) == 2


def test_the_offset_of_a_position_is_one_of_the_topic_in_which_it_was_found() -> None:
    latest = KafkaSplit(split_id="orders/0", next=LATEST, topic_id="a")
    assigner = assigner_at(FIRST)
    assert assigner.located(latest) is None
    assigner.take(poll({"orders": ORDERS}, ends=(10, 20), resolved=(10,)))
    assert assigner.located(latest) == replace(latest, next=10)
    assigner.take(poll(ANEW, ends=(14, 20), starts=(0, 0)))
    lost = assigner.located(latest)
    assert isinstance(lost, Loss)
    assert "the records of the old topic from offset 10 on are lost" in lost.what
    assert assigner.after_loss(latest, lost) == KafkaSplit(split_id="orders/0", next=0, topic_id="b")


def test_a_partition_that_lost_its_last_records_is_not_read_again() -> None:
    assigner = assigner_at(FIRST, replace(poll(ends=(7, 20), starts=(0, 0)), tops={("orders", 0): 7}))
    split = KafkaSplit(split_id="orders/0", next=9, topic_id="a")
    lost = assigner.located(split)
    assert isinstance(lost, Loss)
    assert assigner.after_loss(split, lost) == replace(split, next=7)


def test_a_partition_without_a_leader_keeps_its_last_known_end() -> None:
    assigner = assigner_at(FIRST, poll({"orders": ORDERS}, ends=()))
    split = KafkaSplit(split_id="orders/1", next=5, topic_id="a")
    assert assigner.located(split) == split
    assert assigner.ends["orders/1"] == 20


def test_numbers_survive_the_conversion_to_ranges_and_back() -> None:
    assert as_ranges([3, 0, 1, 7]) == ((0, 2), (3, 4), (7, 8))
    assert of_ranges(as_ranges(range(5000))) == frozenset(range(5000))


def test_the_parts_of_a_range_cover_its_offsets() -> None:
    ranges = [
        KafkaSplit(split_id="orders/0", next=5, end=105),
        KafkaSplit(split_id="orders/1", next=0, end=1),
    ]
    division = divided(ranges, min_partitions=7, max_records=30)
    offsets = [
        (part.split_id, offset) for part in division.parts for offset in range(part.next, part.end or 0)
    ]
    assert offsets == [("orders/0", offset) for offset in range(5, 105)] + [("orders/1", 0)]
    assert division.subtasks == 7
    assert max((part.end or 0) - part.next for part in division.parts) <= 30
