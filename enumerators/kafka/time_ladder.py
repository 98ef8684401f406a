"""The event times of partitions, as far as brokers tell them without sending records. Pure.

Asked for a time, a broker answers with the first record at or after it: its offset, and its own time. So all
records before that offset are earlier, also those that are out of order, and a batch that ends there has
nothing at or after the time that was asked for.

All partitions are asked for the same times, the *steps*: a batch with a horizon ends in each partition at the
same step. They begin at the earliest time that waits, and their distances grow, so that a few of them reach
the end of any backlog. They are multiples of their distances, so that later polls find most of them known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import NamedTuple, Protocol

from flip27_source.enumerators.kafka.split import TopicPartition
from flip27_source.event_time import EventTimeRange

MOST_DISTANCES = 16
"""The number of distances, each twice the one before; there are two steps of each."""

MOST_ROUNDS = 6
"""The most rounds of requests in one poll that find out where in time a partition is."""

_QUESTIONS = 12
"""The most times of one partition in such a round."""

_FINER = 8
"""Into how many parts the distance of two steps is divided around the end of a full batch."""

_MOST_POINTS = 100
"""The most times that are known of one partition: the earliest that lie ahead."""

AHEAD_OF_CLOCK_MS = 60_000
"""How far the brokers' or producers' clocks may be ahead of the driver's; later times are from the future."""


class Found(NamedTuple):
    """A record that a broker has found: the first one at or after a time.

    Attributes:
        asked_ms: the smallest time that was asked for with this answer, in milliseconds since 1970 (UTC).
        found_ms: the record's own time.
    """

    asked_ms: int
    offset: int
    found_ms: int


_ALL: TopicPartition = "", -1

_ASKED_OF, _OFFSET_OF = itemgetter(0), itemgetter(1)

Answers = Mapping[TopicPartition, Mapping[int, tuple[int, int] | None]]
"""By partition and time, the offset and the time of the first record that is as late; None: none is."""


class Brokers(Protocol):
    """The requests to the brokers (``cluster.Cluster``)."""

    def first_at(self, times_ms: Mapping[TopicPartition, Sequence[int]]) -> Answers:
        """The first records at or after these times."""

    def latest_records(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """The offset and the time of the record with the largest time, for partitions that tell it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimes:
    """What is known of the times of a partition.

    Attributes:
        topic_id: of the topic in which they were found.
        end: the end of the partition that was known then.
        found: records, in the order of their offsets and of the times asked for.
        above_ms: all records before ``end`` are earlier; None: not known.
        last_ms: the largest time of these records; None: not known.
        passed: an earlier end, and the largest time before it: what is reached does not go back.
        until_ms: later times are from the future, and say nothing.
    """

    topic_id: str | None = None
    end: int = 0
    found: tuple[Found, ...] = ()
    above_ms: int | None = None
    last_ms: int | None = None
    passed: tuple[int, int] | None = None
    until_ms: int

    @property
    def is_ahead_of_clock(self) -> bool:
        """Whether some are from the future."""
        top_ms = self.found[-1].found_ms if self.found else 0
        return max(top_ms, (self.above_ms or 0) - 1) > self.until_ms

    def first_at(self, time_ms: int) -> tuple[int, bool]:
        """An offset before which all records are earlier, and whether it is the last one of these."""
        if self.above_ms is not None and time_ms >= self.above_ms:
            return self.end, True
        index = bisect_right(self.found, time_ms, key=_ASKED_OF)
        if index == 0:
            return 0, False
        before = self.found[index - 1]
        if time_ms <= before.found_ms:
            return before.offset, True
        following = self.found[index].offset if index < len(self.found) else self.end
        return before.offset + 1, before.offset + 1 >= following

    def around(self, offset: int) -> tuple[int | None, int | None]:
        """A time that is reached at an offset, and one that is not, as near as known.

        Reached is the largest time up to and with this record, or at the end that of the last one.
        """
        index = bisect_right(self.found, offset, key=_OFFSET_OF)
        reached = self.found[index - 1].found_ms if index else None
        if self.passed is not None and offset >= self.passed[0]:
            reached = max(self.passed[1], reached or 0)
        if offset >= self.end:
            return reached if self.last_ms is None else self.last_ms, self.above_ms
        if index == 0 and self.found and self.found[0].asked_ms <= 0:
            # Nothing before it has a time: it is the next one, also if the records before it are gone.
            return self.found[0].found_ms, self.found[0].found_ms + 1
        if reached is not None and index and self.found[index - 1].offset == offset:
            return reached, reached + 1
        return reached, self.found[index].asked_ms if index < len(self.found) else self.above_ms

    def reached_ms(self, offset: int) -> int | None:
        """The time that is reached at an offset, or an earlier one; None: not known, or from the future."""
        reached, _ = self.around(offset)
        return None if reached is None or reached > self.until_ms else reached

    def begins_after(self, offset: int) -> int | None:
        """The first record after an offset whose time is known; None: there is none."""
        index = bisect_right(self.found, offset, key=_OFFSET_OF)
        first = self.found[index] if index < len(self.found) else None
        return None if first is None or first.found_ms > self.until_ms else first.offset

    def between(self, start: int, end: int) -> EventTimeRange | None:
        """The times of the records in a range, as wide as they may be; None: none waits, or not known."""
        reached_ms = self.reached_ms(start)
        if start >= end or reached_ms is None:
            return None
        index = bisect_right(self.found, end - 1, key=_OFFSET_OF)
        above_ms = self.found[index].asked_ms if index < len(self.found) else self.above_ms
        latest_ms = self.until_ms if above_ms is None else min(above_ms - 1, self.until_ms)
        if index and self.found[index - 1].offset == end - 1:
            latest_ms = min(self.found[index - 1].found_ms, self.until_ms)
        return EventTimeRange(reached_ms * 1000, max(reached_ms, latest_ms) * 1000)

    def at(self, position: int, end: int, topic_id: str | None, until_ms: int) -> PartitionTimes:
        """What stays true now that the partition ends there and is read on at this position."""
        if topic_id != self.topic_id or end < self.end:
            return PartitionTimes(topic_id=topic_id, end=end, until_ms=until_ms)
        passed = bisect_right(self.found, position, key=_OFFSET_OF)
        found = self.found[max(0, passed - 1) :][:_MOST_POINTS]
        if end == self.end:
            return replace(self, found=found, until_ms=until_ms)
        before = self.passed if self.last_ms is None else (self.end, self.last_ms)
        return PartitionTimes(topic_id=topic_id, end=end, found=found, passed=before, until_ms=until_ms)

    def with_answers(self, answers: Mapping[int, tuple[int, int] | None]) -> PartitionTimes:
        """What is known with further answers; of two that disagree, the later one counts."""
        found, above_ms = list(self.found), self.above_ms
        for asked_ms, answer in answers.items():
            offset, found_ms = (self.end, 0) if answer is None else answer
            if offset >= self.end:
                above_ms = asked_ms if above_ms is None else min(above_ms, asked_ms)
                continue
            first_ms = min([asked_ms, *(one.asked_ms for one in found if one.offset == offset)])
            found = [
                one for one in found
                if (one.asked_ms < asked_ms and one.offset < offset)
                or (one.asked_ms > asked_ms and one.offset > offset)
            ]  # fmt: skip
            found.append(Found(first_ms, offset, max(asked_ms, found_ms)))
            found.sort()
        if above_ms is not None:
            found = [one for one in found if one.asked_ms < above_ms]
        return replace(self, found=tuple(found), above_ms=above_ms)

    def with_latest(self, offset: int, time_ms: int) -> PartitionTimes:
        """What is known with the record that has the largest time; it may have come after ``end``."""
        last_ms = time_ms if offset < self.end else None
        return replace(self, above_ms=time_ms + 1, last_ms=last_ms)

    def wanted(self, position: int, step_ms: int) -> set[int]:
        """The times to ask for next, to know to a step which time is reached at the position and at the end.

        None are left once that is known, or if the records have no times.
        """
        present = self.until_ms + 1
        wanted = set[int]() if self.above_ms is not None or self.first_at(present)[1] else {present}
        for place in {min(position, self.end), self.end}:
            reached, later = self.around(place)
            later = present if later is None else min(later, present)
            if reached is None:
                wanted |= {0} if later > 0 else set()
            elif later - reached > step_ms:
                apart = -(-(later - reached) // _QUESTIONS)
                wanted |= {reached + 1, *range(reached + apart, later, apart)}
        return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLadder:
    """What a poll knows of the times of all partitions; a batch is cut by it.

    Attributes:
        step_ms: the smallest distance of two steps.
        most_rows: the limit of a batch; None: there is none.
        steps: the times at which batches end, in milliseconds since 1970 (UTC), ascending.
        positions: where the partitions were, for those of which all is known that the poll wanted to know.
    """

    step_ms: int
    most_rows: int | None = None
    steps: tuple[int, ...] = ()
    partitions: Mapping[TopicPartition, PartitionTimes] = field(default_factory=dict)
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)

    def ahead_of_clock(self) -> list[TopicPartition]:
        """The partitions with times from the future."""
        return [key for key, times in self.partitions.items() if times.is_ahead_of_clock]

    def unknown(
        self, at: Mapping[TopicPartition, tuple[int, int]]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """Those of these positions and ends, of partitions with records, that the last poll did not know.

        Also all of them together, with the earliest time that waits, if the first step does not follow it:
        the partition that held the others back was read to its end, or is gone.
        """
        known = {key: (place, self.partitions[key].end) for key, place in self.positions.items()}
        reached = (self.partitions[key].reached_ms(at[key][0]) for key in known.keys() & at.keys())
        waits_ms = min((ms for ms in reached if ms is not None), default=None)
        unknown = {key: place for key, place in at.items() if known.get(key) != place}
        if waits_ms is not None and self.steps and waits_ms >= self.steps[0]:
            unknown[_ALL] = waits_ms, self.steps[0]
        return unknown

    def end_at(self, key: TopicPartition, start: int, end: int, latest_ms: int | None) -> int:
        """Where a batch ends that may read a partition from ``start`` to ``end``, and nothing after a time.

        With a latest time it ends at a step, or earlier.
        """
        times = self.partitions.get(key)
        if times is None or times.reached_ms(start) is None:
            begins = None if times is None else times.begins_after(start)
            return end if begins is None else min(end, begins)
        if latest_ms is None:
            return end
        # A batch that ends before the time itself is not more than the drift ahead of what waits.
        count = bisect_right(self.steps, latest_ms)
        if self.steps and not count:
            return start
        offset, _ = times.first_at(self.steps[count - 1] if count else latest_ms + 1)
        return min(end, max(start, offset))


def steps_from(waits_ms: int, top_ms: int, step_ms: int) -> tuple[int, ...]:
    """The steps after the earliest time that waits, to the time that no record has reached."""
    steps = {(waits_ms // step_ms + 1) * step_ms}
    for number in range(MOST_DISTANCES):
        distance = step_ms << number
        steps |= {(waits_ms // distance + 2) * distance, (waits_ms // distance + 3) * distance}
    below = sorted(step for step in steps if step < top_ms)
    return (*below, top_ms) if len(below) < len(steps) else tuple(below)


def looked_up(
    before: TimeLadder,
    positions: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    topic_ids: Mapping[str, str | None],
    now_ms: int,
    brokers: Brokers,
    began: Mapping[TopicPartition, tuple[int, int]] | None = None,
) -> TimeLadder:
    """The ladder for these positions: what is known already, and what the brokers answer.

    Args:
        positions: the offsets that are read next.
        ends: where the partitions end now; those without an end are left out.
        topic_ids: of the topics as they were described last.
        now_ms: the time by the driver's clock.
        began: the offsets of new partitions that were found by a time, with that time.
    """
    step_ms = before.step_ms
    at = {key: position for key, position in positions.items() if key in ends}
    search = _Search(at, step_ms, now_ms + AHEAD_OF_CLOCK_MS, brokers)
    questions: dict[TopicPartition, set[int]] = {}
    for key, position in at.items():
        known, topic_id = before.partitions.get(key, _NOTHING), topic_ids.get(key[0])
        search.times[key] = known
        is_same = known.end == ends[key] and known.topic_id == topic_id
        if is_same and before.positions.get(key) == position:
            continue
        times = known.at(position, ends[key], topic_id, search.until_ms)
        search.times[key] = times = replace(times, passed=(began or {}).get(key, times.passed))
        search.moved.append(key)
        if times.above_ms is None and times.found and known.above_ms is not None:
            # The first of the new records, if they are in the order of their times.
            questions[key] = {known.above_ms}
    behind = {key: (place, ends[key]) for key, place in at.items() if place < ends[key]}
    if not search.moved and at.keys() == before.positions.keys() and not before.unknown(behind):
        return before
    search.find_latest()
    search.ask(questions)
    for _ in range(MOST_ROUNDS):
        if not search.ask({key: search.times[key].wanted(at[key], step_ms) for key in search.moved}):
            break
    steps = search.steps()
    search.ask(search.unknown(steps))
    for _ in range(MOST_ROUNDS):
        if not (finer := search.finer(steps, before.most_rows)):
            break
        steps = tuple(sorted({*steps, *finer}))
        search.ask(search.unknown(finer))
    vague = {key for key in search.moved if search.times[key].wanted(at[key], step_ms)}
    answered = {key: position for key, position in at.items() if key not in search.unanswered | vague}
    return replace(before, steps=steps, partitions=search.times, positions=answered)


_NOTHING = PartitionTimes(until_ms=0)


@dataclass(slots=True)
class _Search:
    """The requests of one poll, and what they have found."""

    at: Mapping[TopicPartition, int]
    step_ms: int
    until_ms: int
    brokers: Brokers
    times: dict[TopicPartition, PartitionTimes] = field(default_factory=dict)
    moved: list[TopicPartition] = field(default_factory=list)
    """The partitions of which something is new."""
    unanswered: set[TopicPartition] = field(default_factory=set)

    def find_latest(self) -> None:
        grown = [key for key in self.moved if self.times[key].above_ms is None and self.times[key].end]
        for key, (offset, time_ms) in (self.brokers.latest_records(grown) if grown else {}).items():
            self.times[key] = self.times[key].with_latest(offset, time_ms)

    def ask(self, questions: Mapping[TopicPartition, Iterable[int]]) -> bool:
        """Ask for times, and note the answers; whether there was anything to ask."""
        asked = {
            key: sorted(times) for key, times in questions.items() if times and key not in self.unanswered
        }
        answers = self.brokers.first_at(asked) if asked else {}
        for key, times_ms in asked.items():
            given = answers.get(key, {})
            if len(given) < len(times_ms):
                self.unanswered.add(key)
            self.times[key] = self.times[key].with_answers(given)
        return bool(asked)

    def steps(self) -> tuple[int, ...]:
        """The steps from the earliest time that waits in any partition to the latest one."""
        behind = [(self.times[key], at) for key, at in self.at.items() if at < self.times[key].end]
        waits = [reached for times, at in behind if (reached := times.reached_ms(at)) is not None]
        tops = [self.until_ms + 1 if times.above_ms is None else times.above_ms for times, _ in behind]
        if not waits:
            return ()
        return steps_from(min(waits), min(max(tops), self.until_ms + 1), self.step_ms)

    def finer(self, steps: Sequence[int], most_rows: int | None) -> range:
        """Steps between the two among which a full batch ends, unless these are close enough."""
        if not steps or most_rows is None:
            return range(0)

        def rows_at(step: int) -> int:
            return sum(max(0, self.times[key].first_at(step)[0] - at) for key, at in self.at.items())

        above = bisect_right(steps, most_rows, key=rows_at)
        if above in (0, len(steps)):
            return range(0)
        first, last, apart = steps[above - 1], steps[above], self.step_ms
        if rows_at(last) - rows_at(first) <= most_rows // _FINER:
            return range(0)
        while (last - first) // apart > _FINER:
            apart *= 2
        return range((first // apart + 1) * apart, last, apart)

    def unknown(self, steps: Sequence[int]) -> dict[TopicPartition, list[int]]:
        """The steps at which it is not known where a partition ends."""
        wanted: dict[TopicPartition, list[int]] = {}
        for key, at in self.at.items():
            times = self.times[key]
            if at < times.end and times.found:
                unknown = [step for step in steps if not times.first_at(step)[1]]
                if unknown:
                    wanted[key] = unknown
        return wanted
