"""The assigner: decides which offsets of which partition are read next. Pure: poll results in, ranges out.

Three rules:
1. A partition that the first poll of the first start finds begins where the options say. A partition that is
   found later starts at its beginning. The start is stored as an offset before anything is read.
2. A range ends at an end that the cluster has reported. Apart from reading, only a reported loss changes a
   position.
3. A partition that the cluster no longer reports keeps its position. Only a topic or a partition whose
   absence has lasted counts as deleted (``cluster.Absence``).

An edit that skips a partition concerns this partition, and not another one that later has its name.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from flip27_source.enumerators.kafka.cluster import Absence, Topic
from flip27_source.enumerators.kafka.poller import PollResult
from flip27_source.enumerators.kafka.split import (
    AT_LATEST,
    KafkaSplit,
    Position,
    TopicPartition,
    partition_of,
    split_id_of,
)

MOST_GONE = 100
"""The most topics without partitions that are remembered once they have been gone for long."""

LONG_GONE_S = 3600.0
"""How long brokers that restart may not know a topic; later it hardly ever comes back with the same id."""

_ALWAYS = Absence(since_s=-math.inf, until_s=-math.inf)
"""The absence of a topic that was gone before the query started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """A topic whose partitions were found.

    Attributes:
        topic_id: the id of the topic; None if the brokers do not report it.
        partitions: numbers of the partitions that were found, as ranges: (0, 5) and (7, 8) are 0 to 4, and 7.
        former: those of them that were found in an earlier topic of this name and not read in this one. An
            edit that skips such a partition concerns the earlier topic.
        lost: partitions of this topic that were forgotten because they were gone: number, next offset, time.
            If this topic comes back, they continue there; without an offset, an edit had skipped them.
    """

    topic_id: str | None
    partitions: tuple[tuple[int, int], ...]
    former: tuple[tuple[int, int], ...] = ()
    lost: tuple[tuple[int, int | None, int | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaState:
    """The state of the enumerator.

    Attributes:
        topics: by name.
        held: partitions that were found and are not assigned, at the offsets where they start.
    """

    topics: Mapping[str, KnownTopic]
    held: tuple[KafkaSplit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Records that are gone.

    Attributes:
        what: what is gone; the text is the same each time the loss is found.
        begins: the offset at which reading can continue; None if there is none.
        is_at_end: whether that is the end of the partition, and not its beginning.
    """

    split_id: str
    what: str
    begins: int | None
    is_at_end: bool = False


@dataclass(slots=True)
class _Topic:
    topic_id: str | None
    partitions: set[int]
    former: set[int] = field(default_factory=set)
    """The partitions of an earlier topic, until they are read in this one, or forgotten."""
    lost: dict[int, Position | None] = field(default_factory=dict)
    """Partitions that were gone, and where they continue if the same topic comes back."""
    missing: Absence | None = None
    """Set while descriptions lack the topic."""
    lacking: dict[int, Absence] = field(default_factory=dict)
    """The known partitions that descriptions of the topic lack."""


class Assigner:
    """Keeps the partitions of one query, and decides which of their offsets are read.

    Args:
        chosen: whether the options choose a partition.

    Attributes:
        ends: where this query currently stops reading each partition, by split id.
    """

    def __init__(self, state: KafkaState | None, chosen: Callable[[TopicPartition], bool]) -> None:
        self._chosen = chosen
        self._topics: dict[str, _Topic] | None = None
        self._held: deque[KafkaSplit] = deque()
        if state is not None:
            self._topics = {
                name: _Topic(
                    topic.topic_id,
                    set(of_ranges(topic.partitions)),
                    former=set(of_ranges(topic.former)),
                    lost={
                        number: None if offset is None else Position(offset=offset, timestamp_ms=time_ms)
                        for number, offset, time_ms in topic.lost
                    },
                    missing=None if topic.partitions else _ALWAYS,
                )
                for name, topic in state.topics.items()
            }
            self._held.extend(state.held)
        self.ends: dict[str, int] = {}
        self._starts: dict[str, int] = {}
        self._tops: dict[str, int] = {}
        # The splits that a batch read stops before the end of their partition, perhaps even before its start.
        self._stopped: set[str] = set()
        # With the id of the topic in which the offset was found.
        self._resolved: dict[tuple[str, Position], tuple[int, str | None]] = {}
        self._unresolved: dict[str, Position] = {}

    @property
    def known(self) -> dict[str, tuple[str | None, frozenset[int]]] | None:
        """The id and the found partitions of each topic; None before the first poll."""
        if self._topics is None:
            return None
        return {name: (topic.topic_id, frozenset(topic.partitions)) for name, topic in self._topics.items()}

    @property
    def held(self) -> tuple[KafkaSplit, ...]:
        """The partitions that are not assigned."""
        return tuple(self._held)

    def is_behind(self, split: KafkaSplit) -> bool:
        """Whether records of the split are unread, its topic was recreated or lacks partitions.

        So is a split that lacks the id of its topic, as of older brokers, until a batch stores the id.
        """
        if split.next != self.ends.get(split.split_id):
            return True
        topic = (self._topics or {}).get(split.topic)
        if topic is None or topic.missing or topic.lacking:
            return True
        return topic.topic_id is not None and split.topic_id != topic.topic_id

    def successor(self, split: KafkaSplit) -> str | None:
        """The id of the topic in the place of the split's, if the split does not have it."""
        topic = (self._topics or {}).get(split.topic)
        topic_id = None if topic is None else topic.topic_id
        is_other = split.topic_id is not None and topic_id not in (split.topic_id, split.successor)
        return topic_id if is_other else None

    def state(self) -> KafkaState | None:
        if self._topics is None:
            return None
        topics = {
            name: KnownTopic(
                topic_id=topic.topic_id,
                partitions=as_ranges(topic.partitions),
                former=as_ranges(topic.former),
                lost=tuple(
                    (number, None, None) if at is None else (number, at.offset, at.timestamp_ms)
                    for number, at in sorted(topic.lost.items())
                ),
            )
            for name, topic in self._topics.items()
        }
        return KafkaState(topics=topics, held=tuple(self._held))

    def take(self, result: PollResult) -> None:
        is_first = self._topics is None
        topics = self._topics = self._topics or {}
        if result.topics is not None and result.described is not None:
            self._describe(topics, result.topics, result.described, result.seen)
        for (name, number), end in result.ends.items():
            split_id = split_id_of(name, number)
            self.ends[split_id] = min(end, result.stops.get((name, number), end))
            if self.ends[split_id] < end:
                self._stopped.add(split_id)
        for (name, number), start in result.starts.items():
            self._starts[split_id_of(name, number)] = start
        self._tops = {split_id_of(*key): top for key, top in result.tops.items()}
        for (name, number), offset in result.resolved.items():
            split_id = split_id_of(name, number)
            topic = topics.get(name)
            if topic is None:
                continue
            if (position := self._unresolved.pop(split_id, None)) is not None:
                # A new partition does not start there, if this one was lost meanwhile.
                self._resolved[split_id, position] = offset, topic.topic_id
            elif number not in topic.partitions:
                topic.partitions.add(number)
                self._held.append(KafkaSplit(split_id=split_id, next=offset, topic_id=topic.topic_id))
        if is_first:
            self._held = deque(sorted(self._held, key=lambda split: (split.topic, split.partition)))

    def _describe(
        self,
        topics: dict[str, _Topic],
        present: Mapping[str, Topic],
        absence: Absence,
        seen: Mapping[str, frozenset[int]],
    ) -> None:
        """Compare the topics with a description; ``absence`` is that of what it lacks.

        What earlier descriptions lacked was there in between if it was ``seen``.
        """
        for name, described in present.items():
            known = topics.setdefault(name, _Topic(described.topic_id, set()))
            # While brokers are upgraded, some report no ids. Only a topic that was gone may be another one.
            is_left = known.partitions or not known.lost
            topic_id = described.topic_id or (known.topic_id if is_left else None)
            if known.topic_id != topic_id:
                known.lost.clear()
                for number in known.partitions:
                    self._starts.pop(split_id_of(name, number), None)
                if known.topic_id is not None:
                    known.former = set(known.partitions)
            before = {
                number: lacked for number, lacked in known.lacking.items() if number not in seen.get(name, ())
            }
            lacking = known.partitions.difference(described.partitions)
            known.lacking = {number: _longer(before.get(number), absence) for number in lacking}
            known.topic_id, known.missing = topic_id, None
            self._find_again(name, known, described)
        for name, known in topics.items():
            if name not in present:
                known.missing = _longer(None if name in seen else known.missing, absence)
                for number in known.partitions:
                    self.ends.pop(split_id_of(name, number), None)
        gone = [name for name, known in topics.items() if not known.partitions and _is_long(known.missing)]
        for name in gone[:-MOST_GONE]:
            del topics[name]

    def _find_again(self, name: str, topic: _Topic, described: Topic) -> None:
        """Continue partitions that were lost and are described again."""
        for number in topic.lost.keys() & set(described.partitions):
            at = topic.lost.pop(number)
            # A description without an id may be one of another topic.
            if described.topic_id is None or number in topic.partitions:
                continue
            topic.partitions.add(number)
            if at is not None:
                split = KafkaSplit(
                    split_id=split_id_of(name, number),
                    next=at.offset,
                    topic_id=topic.topic_id,
                    at_timestamp_ms=at.timestamp_ms,
                )
                self._held.append(split)

    def forget_skipped(self, live: Iterable[KafkaSplit]) -> list[str]:
        """Forget partitions that an edit has skipped and that are gone: in another topic, they are new.

        Args:
            live: all live splits.

        Returns:
            The ids of the splits that are forgotten.
        """
        topics, gone = self._topics or {}, dict[str, TopicPartition]()
        unskipped = {split.split_id: split for split in (*live, *self._held)}
        for split in unskipped.values():
            topic = topics.get(split.topic)
            if topic is not None and split.split_id == split_id_of(split.topic, split.partition):
                is_former = topic.topic_id is not None and split.topic_id not in (None, topic.topic_id)
                (topic.former.add if is_former else topic.former.discard)(split.partition)
        for name, topic in topics.items():
            numbers = {number for number, absence in topic.lacking.items() if absence.is_final}
            numbers |= topic.former
            if topic.missing is not None and topic.missing.is_final:
                # Topics that are not chosen are not described.
                numbers |= {number for number in topic.partitions if self._chosen((name, number))}
            gone |= {split_id_of(name, number): (name, number) for number in numbers}
        for split_id in unskipped:
            gone.pop(split_id, None)
        for name, number in gone.values():
            topic = topics[name]
            topic.partitions.discard(number)
            if number in topic.former:
                topic.former.discard(number)
            elif topic.topic_id is not None:
                topic.lost[number] = None
        return list(gone)

    def planned(self, split: KafkaSplit) -> None:
        """The partition is read at this position: from now on, an edit that skips it concerns this topic."""
        if self._topics is not None and split.topic in self._topics:
            self._topics[split.topic].former.discard(split.partition)

    def next_split(self) -> KafkaSplit | None:
        return self._held.popleft() if self._held else None

    def returned(self, splits: Iterable[KafkaSplit]) -> None:
        self._held.extendleft(reversed(list(splits)))

    @property
    def unresolved(self) -> dict[TopicPartition, Position]:
        """The positions that the next poll is to replace by offsets."""
        return {partition_of(split_id): position for split_id, position in self._unresolved.items()}

    @property
    def resolved(self) -> dict[str, int]:
        """The offsets of positions that polls have found, by split."""
        return {split_id: offset for (split_id, _), (offset, _) in self._resolved.items()}

    def located(self, split: KafkaSplit) -> KafkaSplit | Loss | None:
        """The split at the offset where it is read next, or a loss; None as long as neither is known."""
        topic = (self._topics or {}).get(split.topic)
        if topic is None:
            return None
        at = split if split.next >= 0 else self._at_offset(split)
        absence = topic.missing or topic.lacking.get(split.partition)
        if absence is None:
            end = self.ends.get(split.split_id)
            if at is None or end is None or isinstance(at, Loss):
                return None if end is None else at
            return self._checked(at, end, topic.topic_id)
        if not absence.is_final or not self._chosen((split.topic, split.partition)):
            return None
        known = at if isinstance(at, KafkaSplit) else split
        gone = f"topic {split.topic}" if topic.missing else f"the partition of {split.topic}"
        gone += _id_named(topic.topic_id)
        what = f"{gone} no longer exists; its records from {_position_of(known)} on are lost"
        return Loss(split_id=split.split_id, what=what, begins=None)

    def _at_offset(self, split: KafkaSplit) -> KafkaSplit | Loss | None:
        """The split with its position replaced by the offset that a poll has found; None until then.

        A loss if the offset is one of a topic that took the place of the split's after the edit.
        """
        position = _position_of(split)
        found = self._resolved.get((split.split_id, position))
        if found is None:
            self._unresolved[split.split_id] = position
            return None
        offset, topic_id = found
        if topic_id is not None and topic_id == self.successor(split):
            # Nothing of the new topic was there when the edit chose its end.
            begins = self._starts.get(split.split_id) if position == AT_LATEST else offset
            return None if begins is None else _recreated(split, topic_id, begins)
        return replace(split, next=offset, at_timestamp_ms=None, topic_id=topic_id)

    def after_loss(self, split: KafkaSplit, loss: Loss) -> KafkaSplit | None:
        """The split at the offset where it continues after a loss; None if nothing is left of it.

        A partition that is gone is forgotten: if it comes back, it is new, and starts at its beginning. Only
        if its topic comes back with the same id, it continues where it was.
        """
        topic = (self._topics or {}).get(split.topic)
        if loss.begins is None or topic is None:
            if topic is not None:
                topic.partitions.discard(split.partition)
                if split.topic_id is not None and split.topic_id == topic.topic_id:
                    topic.lost[split.partition] = _position_of(split)
            return None
        return replace(split, next=loss.begins, at_timestamp_ms=None, topic_id=topic.topic_id)

    def _checked(self, split: KafkaSplit, end: int, topic_id: str | None) -> KafkaSplit | Loss | None:
        start = self._starts.get(split.split_id)
        if split.topic_id is not None and topic_id is not None and split.topic_id != topic_id:
            return None if start is None else _recreated(split, topic_id, start)
        if end < split.next and split.split_id not in self._stopped:
            top = self._tops.get(split.split_id)
            if top is None or top >= split.next:
                # Until the high watermark is known, the records may be those of an open transaction.
                return None
            what = f"the partition ends at offset {top}, and offset {split.next} was to be read next: "
            if topic_id is not None and split.topic_id == topic_id:
                what += "it lost its last records, or an edit has set an offset beyond its end"
                what += _id_named(topic_id)
                return Loss(split_id=split.split_id, what=what, begins=top, is_at_end=True)
            what += "the topic was recreated or lost its last records, or an edit has set this offset"
            start = None if start is None or start > end else start
        elif start is not None and split.next < start:
            what = f"offsets {split.next} to {start - 1} have expired or were deleted{_id_named(topic_id)}"
        else:
            return split if topic_id in (None, split.topic_id) else replace(split, topic_id=topic_id)
        return None if start is None else Loss(split_id=split.split_id, what=what, begins=start)


def _recreated(split: KafkaSplit, topic_id: str, begins: int) -> Loss:
    what = (
        f"topic {split.topic} was deleted and recreated (its id was {split.topic_id} and is {topic_id}); "
        f"the records of the old topic from {_position_of(split)} on are lost"
    )
    return Loss(split_id=split.split_id, what=what, begins=begins)


def _id_named(topic_id: str | None) -> str:
    """The id of a topic, for the text of a loss: one with the same text would not be recorded again."""
    return "" if topic_id is None else f" (id {topic_id})"


def _position_of(split: KafkaSplit) -> Position:
    return Position(offset=split.next, timestamp_ms=split.at_timestamp_ms)


def _is_long(absence: Absence | None) -> bool:
    return absence is not None and absence.until_s - absence.since_s >= LONG_GONE_S


def _longer(before: Absence | None, absence: Absence) -> Absence:
    return absence if before is None else before.then(absence)


def as_ranges(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """The numbers as ranges, each with the number after its last."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number:
            ranges[-1] = (ranges[-1][0], number + 1)
        else:
            ranges.append((number, number + 1))
    return tuple(ranges)


def of_ranges(ranges: Iterable[tuple[int, int]]) -> frozenset[int]:
    return frozenset(number for first, end in ranges for number in range(first, end))
