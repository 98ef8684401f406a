"""Fetches the messages of planned ranges, each range up to its end.

A range is complete when the consumer's position has passed its end, even if its last offsets have no record
to deliver: they may be markers of transactions, or belong to aborted transactions or compacted records.
Partitions are fetched together but delivered in the order of the ranges, so that a repeated task delivers
the same rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat
from operator import is_not
from typing import Any

from flip27_source.enumerators.kafka.client import Consumer, Message, failed, imported
from flip27_source.enumerators.kafka.client_properties import ClientProperties
from flip27_source.enumerators.kafka.cluster import gone_after_s, is_unknown
from flip27_source.enumerators.kafka.split import EARLIEST, LATEST, KafkaSplit, range_split
from flip27_source.errors import AccessError, SplitReadError
from flip27_source.readers.kafka.arrow_records import Run
from flip27_source.readers.kafka.consumers import high_watermark, is_gone

GROUP_OFFSETS = 50_000
"""The most offsets of ranges that are fetched together; a longer range is fetched alone."""

GROUP_PARTITIONS = 1_000

CALL_BYTES = 8 * 1024 * 1024
"""How much a call fetches, by the size of the messages of the call before."""

_MOST_MESSAGES = 20_000
_WAIT_S = 0.05
_SILENCE_S = 1.0
"""After this time without messages, the end of the partition is requested: librdkafka takes half a minute to
report a deleted topic."""

_ANSWER_S = 2.0

Lost = Callable[[KafkaSplit, str], None]
"""Reports the data loss of a range; raises an error if losses are fatal."""


@dataclass(slots=True)
class _Range:
    """A range while it is fetched."""

    split: KafkaSplit
    range_id: str
    position: int
    end: int
    held: list[Run] = field(default_factory=list)
    held_bytes: int = 0
    is_paused: bool = False
    is_released: bool = False
    has_failed: bool = False
    damage: str | None = None
    open_from: int | None = None
    """Where an open transaction seems to end the partition for read_committed."""

    @property
    def is_done(self) -> bool:
        return self.position >= self.end

    def take(self) -> list[Run]:
        """Take the messages that were fetched but not yet delivered."""
        held, self.held, self.held_bytes = self.held, [], 0
        return held


class Fetches:
    """Fetches ranges with one consumer.

    Args:
        timeout_s: how long to wait for the next message of a partition.
        lost: reports losses.
        size_of: the size of messages in bytes.
        causes: the last error that librdkafka retries.
        most_held_bytes: the most bytes of messages that wait for earlier ranges; beyond it, only the first
            range is fetched.

    Attributes:
        seen: the topics that gave messages, or an end.
    """

    def __init__(
        self,
        consumer: Consumer,
        properties: ClientProperties,
        *,
        timeout_s: float,
        lost: Lost,
        size_of: Callable[[Sequence[Message]], int],
        causes: deque[Any],
        most_held_bytes: int,
    ) -> None:
        self._consumer = consumer
        self._properties = properties
        self._now_s = properties.clients.now_s
        self._timeout_s = timeout_s
        self._gone_after_s = gone_after_s(timeout_s)
        self._lost = lost
        self._size_of = size_of
        self._causes = causes
        self._most_held_bytes = most_held_bytes
        self.seen: set[str] = set()
        self._kafka = imported()
        self._error_of = self._kafka.Message.error
        self._unknown_since: dict[str, float] = {}
        """When the brokers first did not know a topic, of which they have given nothing since then."""
        self._per_call = 500
        self._deadline = 0.0
        self._look_after = 0.0

    def runs(self, splits: Sequence[KafkaSplit]) -> Iterator[Run]:
        """The messages of all ranges, in order.

        Raises:
            AccessError: no message arrives within the time.
            SplitReadError: records are damaged.
            KafkaError: the brokers refuse a partition.
        """
        for group in _groups(splits):
            ranges = {
                (split.topic, split.partition): _Range(
                    split, range_split(split).split_id, split.next, split.end or 0
                )
                for split in group
            }
            self._consumer.assign(
                [self._kafka.TopicPartition(topic, number, item.position)
                 for (topic, number), item in ranges.items()]
            )  # fmt: skip
            self._wait_anew()
            for run in self._group(ranges):
                yield run
                self._wait_anew()  # whoever takes the rows may take longer than brokers are waited for

    def _wait_anew(self) -> None:
        """Note that the silence of the brokers begins now."""
        now = self._now_s()
        self._deadline, self._look_after = now + self._timeout_s, now + _SILENCE_S

    def _group(self, ranges: dict[tuple[str, int], _Range]) -> Iterator[Run]:
        for item in ranges.values():
            if item.is_paused and not item.is_done:
                item.is_paused = False
                self._consumer.resume([self._partition(item)])
            yield from item.take()
            while not item.is_done:
                self._fetch(ranges, item)
                yield from item.take()
                if sum(other.held_bytes for other in ranges.values()) > self._most_held_bytes:
                    self._pause_others(ranges, item)

    def _fetch(self, ranges: dict[tuple[str, int], _Range], first: _Range) -> None:
        """Fetch once, and keep the messages with their ranges."""
        left = sum(item.end - item.position for item in ranges.values() if not item.is_done)
        messages = self._consumer.consume(min(left, self._per_call), _WAIT_S)
        events: list[Message] = []
        if any(map(is_not, map(self._error_of, messages), repeat(None))):
            events = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
        if messages:
            # Events alone are not progress: unavailable brokers cause them repeatedly.
            self._causes.clear()
            self._wait_anew()
            size = 0
            for topic, number, run in _by_partition(messages, is_one=len(ranges) == 1):
                size += self._keep(ranges[topic, number], run)
            if size:
                self._per_call = max(1, min(_MOST_MESSAGES, CALL_BYTES * len(messages) // size))
        for message in events:
            self._handle(ranges, message)
        if not messages and not first.is_done:
            self._check_time(first)

    def _check_time(self, first: _Range) -> None:
        """After a fetch without messages, check whether the time is over, and whether more will come."""
        now = self._now_s()
        if now > self._deadline:
            raise self._too_late(first)
        if now > self._look_after:
            self._look_after = now + min(_SILENCE_S, self._gone_after_s / 2)
            self._check_end(first)

    def _keep(self, item: _Range, messages: Sequence[Message]) -> int:
        """Keep the messages that belong to the range of the partition; return their size in bytes."""
        last = _offset(messages[-1])
        if _offset(messages[0]) < item.position or last >= item.end:
            first = bisect_left(messages, item.position, key=_offset)
            messages = messages[first : bisect_left(messages, item.end, key=_offset)]
        size = 0
        if messages:
            self._is_known(item)
            size = self._size_of(messages)
            item.held.append(Run(item.split.topic, item.split.partition, messages, size, item.range_id))
            item.held_bytes += size
        item.position = max(item.position, last + 1)
        if item.is_done:
            # Further messages of this partition would fill the queue that it shares with the others.
            self._release(item)
        return size

    def _handle(self, ranges: dict[tuple[str, int], _Range], message: Message) -> None:
        """Handle the end of a partition, or an error."""
        error: Any = message.error()
        code, kafka = error.code(), self._kafka.KafkaError
        topic, number = message.topic(), message.partition()
        item = None if topic is None or number is None else ranges.get((topic, number))
        if item is None or item.is_done:
            if error.fatal() or code in _refusals(kafka):
                raise failed(self._properties, "reading", error)
            if code != kafka._PARTITION_EOF:
                self._causes.append(error)
            return  # brokers may come back: only the time limit decides
        if code == kafka._PARTITION_EOF:
            self._is_known(item)
            item.position = max(item.position, message.offset() or 0)
            if not item.is_done:
                self._check_end(item)
        elif code in (kafka._AUTO_OFFSET_RESET, kafka.OFFSET_OUT_OF_RANGE):
            self._out_of_range(item)
        elif is_unknown(error):
            # librdkafka stops fetching after one such answer; _check_end resumes if the partition exists.
            item.has_failed = True
        elif code in (kafka._BAD_MSG, kafka._BAD_COMPRESSION, kafka.INVALID_MSG):
            item.damage = str(error.str())
        elif error.fatal() or code in _refusals(kafka):
            raise failed(self._properties, f"reading {item.split.split_id}", error)
        else:
            self._causes.append(error)

    def _check_end(self, item: _Range) -> None:
        """Check whether the partition still has the rest of the range."""
        end = self._offset_at(item, LATEST)
        if end is None:
            return
        item.open_from = None
        if end < item.end:
            # The batch may have been planned with read_uncommitted.
            top = high_watermark(self._properties, item.split)
            if top is not None and top < item.end:
                self._gone(item, item.end, f"the partition ends at offset {top} now", first=top)
            elif top is not None:
                item.open_from = end
        if item.has_failed:
            self._assign_again(item)

    def _out_of_range(self, item: _Range) -> None:
        """Handle a position that the partition does not have: report a loss, if any, and continue."""
        start = self._offset_at(item, EARLIEST)
        if start is None:
            # _check_end assigns the partition again once its leader answers.
            item.has_failed = True
            return
        if start > item.position:
            self._gone(item, min(start, item.end), "they expired or were deleted")
        else:
            end = self._offset_at(item, LATEST)
            if end is None or end >= item.end:
                start = item.position  # the answer is older than the records
            elif end <= item.position:
                self._gone(item, item.end, f"the partition ends at offset {end} now")
        self._assign_again(item)

    def _assign_again(self, item: _Range) -> None:
        """Assign the partition again at the current position: a failed partition does not accept seek."""
        item.has_failed = False
        if not item.is_done:
            partition = self._partition(item)
            self._consumer.incremental_unassign([partition])
            partition.offset = item.position
            self._consumer.incremental_assign([partition])

    def _gone(self, item: _Range, until: int, why: str, *, first: int = 0) -> None:
        """Report the loss of the offsets from ``first`` up to ``until``, and leave them out."""
        first = max(first, item.position)
        self._lost(item.split, f"offsets {first} to {until - 1} are gone: {why}")
        if first > item.position:
            item.end = first  # the records before are still there
        else:
            item.position = until
        self._wait_anew()  # the brokers have answered: the ranges after this one have their own time

    def _offset_at(self, item: _Range, at: int) -> int | None:
        partition = self._partition(item)
        partition.offset = at
        try:
            answer = self._consumer.offsets_for_times([partition], timeout=_ANSWER_S)[0]
            error: Any = answer.error
        except self._kafka.KafkaException as raised:
            error = raised.args[0]
        else:
            if error is None:
                self._unknown_since.pop(item.split.topic, None)
                return int(answer.offset)
        if not is_unknown(error):
            self._causes.append(error)
            self._unknown_since.pop(item.split.topic, None)
            return None
        now = self._now_s()
        since = self._unknown_since.setdefault(item.split.topic, now)
        if now - since >= self._gone_after_s and is_gone(self._properties, item.split):
            self._gone(item, item.end, "the topic was deleted")
        return None

    def _is_known(self, item: _Range) -> None:
        """Note that the brokers have given something of a topic."""
        self.seen.add(item.split.topic)
        self._unknown_since.pop(item.split.topic, None)

    def _pause_others(self, ranges: dict[tuple[str, int], _Range], first: _Range) -> None:
        others = [
            item for item in ranges.values() if item is not first and not item.is_paused and not item.is_done
        ]
        for item in others:
            item.is_paused = True
        if others:
            self._consumer.pause([self._partition(item) for item in others])

    def _release(self, item: _Range) -> None:
        """Stop fetching a partition.

        A partition that is paused would still be paused when it is assigned again, so it is resumed first.
        """
        if item.is_released:
            return
        item.is_released = True
        if item.is_paused:
            self._consumer.resume([self._partition(item)])
        self._consumer.incremental_unassign([self._partition(item)])

    def _partition(self, item: _Range) -> Any:
        return self._kafka.TopicPartition(item.split.topic, item.split.partition)

    def _too_late(self, item: _Range) -> SplitReadError:
        if item.damage is not None:
            return SplitReadError(
                f"{item.split.split_id}: the records from offset {item.position} on are damaged: "
                f"{item.damage}",
                remedy="check the partition's log on the brokers; to continue without these records, set "
                "onSplitError to quarantine",
            )
        what = (
            f"{item.split.split_id} has offsets up to {item.end - 1}, but no record from offset "
            f"{item.position} on arrived for {self._timeout_s:g} s ({self._properties.place})"
        )
        remedy = "check the brokers and the network"
        if item.open_from is not None:
            what += f"; a transaction is open from offset {item.open_from} on"
            remedy = "wait until the transaction ends, or set kafka.isolation.level=read_uncommitted again"
        elif self._causes:
            cause = failed(self._properties, "the last request", self._causes[0])
            what, remedy = f"{what}; {cause.what}", cause.remedy or remedy
        return AccessError(what, remedy=f"{remedy}; to wait longer, raise kafkaConsumer.pollTimeoutMs")


def _groups(splits: Sequence[KafkaSplit]) -> Iterator[list[KafkaSplit]]:
    """Yield groups of ranges to fetch together: with few offsets, and each partition at most once."""
    group: list[KafkaSplit] = []
    partitions: set[tuple[str, int]] = set()
    offsets = 0
    for split in splits:
        length = (split.end or 0) - split.next
        if length <= 0:
            continue
        partition = split.topic, split.partition
        if group and (
            offsets + length > GROUP_OFFSETS or len(group) >= GROUP_PARTITIONS or partition in partitions
        ):
            yield group
            group, partitions, offsets = [], set(), 0
        group.append(split)
        partitions.add(partition)
        offsets += length
    if group:
        yield group


def _by_partition(
    messages: Sequence[Message], *, is_one: bool
) -> Iterator[tuple[str, int, Sequence[Message]]]:
    if is_one:
        yield messages[0].topic() or "", messages[0].partition() or 0, messages
        return
    for (topic, number), run in groupby(messages, key=lambda message: (message.topic(), message.partition())):
        yield topic or "", number or 0, list(run)


def _offset(message: Message) -> int:
    return message.offset() or 0


def _refusals(kafka: Any) -> tuple[int, ...]:
    return (
        kafka.TOPIC_AUTHORIZATION_FAILED,
        kafka.GROUP_AUTHORIZATION_FAILED,
        kafka.CLUSTER_AUTHORIZATION_FAILED,
        kafka.SASL_AUTHENTICATION_FAILED,
        kafka._AUTHENTICATION,
    )
