"""Polls the cluster periodically for the enumerator, on a thread.

What must not live here: decisions, which belong to the assigner, and values that the coordinator's thread
uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flip27_source.enumerators.kafka import options as opts
from flip27_source.enumerators.kafka.client import KafkaError
from flip27_source.enumerators.kafka.client_properties import ClientProperties, Clock, client_properties
from flip27_source.enumerators.kafka.cluster import Absence, Cluster, Topic
from flip27_source.enumerators.kafka.split import (
    AT_EARLIEST,
    AT_TIMESTAMP,
    EARLIEST,
    LATEST,
    Position,
    Positions,
    TopicPartition,
    split_id_of,
)
from flip27_source.enumerators.kafka.start_positions import ON_EXPIRED_START, STARTING_STRATEGY
from flip27_source.enumerators.kafka.time_ladder import TimeLadder, looked_up
from flip27_source.enumerators.kafka.topic_choice import TopicChoice
from flip27_source.errors import AccessError, DiscoveryError, Flip27Error, OptionError
from flip27_source.options import Options

PAUSE_PER_DESCRIPTION = 20.0
"""Pause between two requests for the partitions of the topics, as a multiple of the time of the first one."""

POLLS_PER_DESCRIPTION = 5
"""The shortest such pause, as a multiple of discoveryInterval."""

CONFIRMATION_PAUSE_S = 0.5
"""Pause between two descriptions by which a poll confirms that a topic is gone."""

POLLS_PER_LISTING = 50
"""Pause between two listings of all topics, for a pattern, as a multiple of discoveryInterval."""

POLLS_PER_OLDEST = 100
"""Pause between two requests for the oldest unread record, as a multiple of discoveryInterval."""

POLLS_PER_STARTS = 300
"""Pause between two requests for the beginnings of partitions, as a multiple of discoveryInterval.

Tasks notice by themselves that records have expired.
"""

_NOTHING: Mapping[TopicPartition, int] = {}

FIRST_START_S = 5.0
"""How long a first start retries if no broker answers, or refuses the user: the options are likely wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollRequest:
    """What the next poll is to find out; immutable, because another thread reads it.

    Attributes:
        known: partitions that were found before, by topic, with the topic's id; None before the first start.
        planned: the offsets up to which partitions are planned, by split.
        unresolved: the positions to replace by offsets.
        ladder: what is known of event times; None: they are not followed.
        positions: if they are followed, the offsets that are read next, also of partitions that wait.
        ends: if they are followed, where the partitions end as far as known.
    """

    known: Mapping[str, tuple[str | None, frozenset[int]]] | None = None
    planned: Mapping[str, int] = field(default_factory=dict)
    unresolved: Mapping[TopicPartition, Position] = field(default_factory=dict)
    ladder: TimeLadder | None = None
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """The result of a poll.

    Attributes:
        topics: the topics, if this poll requested them.
        described: with ``topics``: when, and in how many descriptions in a row, the cluster had only these.
        seen: with ``topics``: the partitions, by topic, in earlier descriptions whose polls failed.
        ends: where partitions end.
        starts: where partitions begin, for those whose beginnings this poll requested.
        tops: the high watermarks of partitions that end before what was planned: with read_committed, an open
            transaction ends a partition earlier than read_uncommitted did.
        resolved: offsets of new partitions, and of the positions that were request.
        expired: new partitions that begin at the starting time or later, because older records were removed.
        stops: in a batch read, where this query stops reading the partitions.
        problem: why the query has to fail although a retry is left: a mistake in an option, or brokers that a
            first start cannot reach, or that refuse its user.
        oldest_ms: time of the oldest unread record, in milliseconds since 1970, if this poll requested it.
        ladder: the times of the partitions, if they are followed.
    """

    topics: Mapping[str, Topic] | None = None
    described: Absence | None = None
    seen: Mapping[str, frozenset[int]] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    tops: Mapping[TopicPartition, int] = field(default_factory=dict)
    resolved: Mapping[TopicPartition, int] = field(default_factory=dict)
    expired: tuple[TopicPartition, ...] = ()
    stops: Mapping[TopicPartition, int] = field(default_factory=dict)
    oldest_ms: int | None = None
    ladder: TimeLadder | None = None
    problem: Flip27Error | None = None


class ClusterPoller:
    """Polls the cluster.

    Args:
        first, last: where partitions start and end; ``last`` is None for a stream.
        polls_once: whether this run makes a single poll.
    """

    def __init__(
        self,
        options: Options,
        choice: TopicChoice,
        *,
        first: Positions,
        last: Positions | None,
        polls_once: bool = False,
        connect: Callable[[ClientProperties], Cluster] = Cluster,
        clock: Clock,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._polls_once = polls_once
        self._confirms = True
        self._options = options
        self._interval_s = options[opts.DISCOVERY_INTERVAL]
        self._choice = choice
        self._first = first
        self._last = last
        self._cluster: Cluster | None = None
        self._began_s: float | None = None
        self._has_answered = False
        self._oldest_after = 0.0
        self._topics: dict[str, Topic] | None = None
        self._is_reported = True
        self._seen: dict[str, frozenset[int]] = {}
        self._described_s = 0.0
        self._names: tuple[str, ...] = ()
        self._describe_after = 0.0
        self._list_after = 0.0
        self._starts_after = 0.0

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def poll(self, request: PollRequest) -> PollResult:
        if self._began_s is None:
            self._began_s = self._clock.now_s()
        try:
            return self._polled(request)
        except OptionError as error:
            return PollResult(problem=error)
        except AccessError as error:
            tried_s = self._clock.now_s() - self._began_s
            # With an option of retries the user says how often.
            asked = any(self._options.is_set(one) for one in (opts.FETCH_RETRIES, opts.DISCOVERY_RETRIES))
            answer = error.may_pass if isinstance(error, KafkaError) else None
            waits = self._has_answered if answer is None else answer
            if asked or waits or request.known is not None or tried_s < FIRST_START_S:
                raise
            return PollResult(problem=error)

    def times(
        self,
        request: PollRequest,
        ends: Mapping[TopicPartition, int],
        new: Mapping[TopicPartition, int] = _NOTHING,
        began: Mapping[TopicPartition, tuple[int, int]] | None = None,
    ) -> TimeLadder | None:
        """The times of the partitions, with requests for those of which something is new; None: not followed.

        Args:
            ends: where the partitions end. new: offsets of partitions that the request does not have.
            began: of these, those that were found by a time, with that time in milliseconds.
        """
        if request.ladder is None:
            return None
        return looked_up(
            request.ladder,
            {**new, **request.positions},
            ends,
            topic_ids={name: topic.topic_id for name, topic in (self._topics or {}).items()},
            now_ms=int(self._clock.present_s() * 1000),
            brokers=self._connected,
            began=began,
        )

    def times_ms(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The times of the first records at these offsets or later; those that arrive in time."""
        return self._connected.times_ms(offsets) if offsets else {}

    def _polled(self, request: PollRequest) -> PollResult:
        topics = self._described(request)
        present = self._choice.partitions(topics)
        ends = self._connected.offsets(dict.fromkeys(present, LATEST))
        resolved = self._resolved(request, present, ends)
        planned = request.planned
        short = [key for key, end in ends.items() if end < planned.get(split_id_of(*key), 0)]
        starts = self._starts(request, topics, ends, short)
        stops = {} if self._last is None else self._all_offsets(self._last, present, ends)
        result = PollResult(
            topics=None if self._is_reported else topics,
            described=self._confirmed(request, topics),
            seen=self._seen,
            ends=ends,
            starts=starts,
            tops=self._connected.high_watermarks(short),
            resolved=resolved,
            expired=() if request.known is not None else self._expired(present, resolved),
            stops=stops,
            oldest_ms=self._oldest_ms(request, ends),
            ladder=self.times(request, ends, resolved, self._began_at(request, present, resolved, ends)),
        )
        self._is_reported, self._seen, self._confirms = True, {}, self._polls_once
        return result

    @property
    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._connect(client_properties(self._options))
        return self._cluster

    def _described(self, request: PollRequest) -> dict[str, Topic]:
        """The topics; they are requested again unless the last description is recent."""
        now = self._clock.now_s()
        if self._topics is not None and now < self._describe_after:
            return self._topics
        if self._choice.pattern is None:
            self._names = self._choice.names
        elif now >= self._list_after:
            # Brokers list only topics that the user may see; a known topic is described, which fails then.
            names = dict.fromkeys(self._connected.names(self._choice.pattern))
            self._names = tuple(names | dict.fromkeys(filter(self._choice.has_topic, request.known or ())))
            self._list_after = now + POLLS_PER_LISTING * self._interval_s
        topics = self._connected.topics(self._names)
        self._has_answered = True
        self._described_s = self._clock.now_s()
        if self._interval_s:
            pause_s = PAUSE_PER_DESCRIPTION * (self._described_s - now)
            self._describe_after = self._described_s + max(POLLS_PER_DESCRIPTION * self._interval_s, pause_s)
        else:
            self._describe_after = self._described_s
        missing = [] if request.known is not None else self._choice.missing(topics)
        if missing:
            raise OptionError(
                f"{self._choice} names {', '.join(missing[:10])}, which the cluster does not have",
                remedy="correct the name, create the topic, or grant the user DESCRIBE; subscribePattern "
                "finds topics that are created later",
            )
        # Topics that were read before and are gone are a loss, which the assigner finds.
        is_known = any(map(self._choice.has_topic, request.known or ()))
        if not is_known and not self._choice.partitions(topics):
            self._list_after = 0.0
            # A query that continues waits: brokers that restart may not know their topics for a moment.
            kind = OptionError if request.known is None else DiscoveryError
            raise kind(
                f"the cluster has no partition for {self._choice}",
                remedy="check the names, and that the user may DESCRIBE the topics",
            )
        if self._topics is not None and not self._is_reported:
            for name, topic in self._topics.items():
                self._seen[name] = self._seen.get(name, frozenset()).union(topic.partitions)
        self._topics = topics
        self._is_reported = False
        return topics

    def _confirmed(self, request: PollRequest, topics: Mapping[str, Topic]) -> Absence:
        """When the cluster had only these topics.

        The first poll repeats the description if known partitions are missing: the run may end before others.
        """
        absence = Absence(since_s=self._described_s, until_s=self._described_s)
        if self._is_reported or not self._confirms or not self._choice.lacks(topics, request.known or {}):
            return absence
        while not absence.is_final:
            self._clock.wait_s(CONFIRMATION_PAUSE_S)
            again = self._connected.topics(self._names)
            now = self._clock.now_s()
            if again != topics:
                self._describe_after = 0.0
                raise DiscoveryError(
                    f"the cluster reported different topics {now - absence.since_s:.1f} s later",
                    remedy="wait until the brokers have started",
                )
            absence = absence.then(Absence(since_s=now, until_s=now))
        return absence

    def _oldest_ms(self, request: PollRequest, ends: Mapping[TopicPartition, int]) -> int | None:
        """The time of the oldest unread record, if it is due; otherwise None."""
        now = self._clock.now_s()
        if self._polls_once or now < self._oldest_after:
            return None
        planned = request.planned
        unread = {
            key: offset for key, end in ends.items() if end > (offset := planned.get(split_id_of(*key), end))
        }
        oldest_ms = self._connected.oldest_time_ms(unread, ends)
        if unread:
            self._oldest_after = self._clock.now_s() + POLLS_PER_OLDEST * self._interval_s
        return oldest_ms

    def _resolved(
        self, request: PollRequest, present: list[TopicPartition], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The offsets where new partitions start, and those of the positions that edits have set."""
        if request.known is not None:
            known = request.known
            new = [key for key in present if key[0] not in known or key[1] not in known[key[0]][1]]
            positions = dict.fromkeys(new, AT_EARLIEST) | dict(request.unresolved)
            # An edit moves a partition to its end if no record is as young as the edit's time.
            return self._offsets(positions, ends)
        return self._all_offsets(self._first, present, ends, is_start=True)

    def _began_at(
        self,
        request: PollRequest,
        present: list[TopicPartition],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Where partitions start for the first time whose start is a time, with that time."""
        if request.known is not None or request.ladder is None:
            return {}
        timed = ((key, at.timestamp_ms) for key, at in self._given(self._first, present).items())
        return {key: (starts[key], ms) for key, ms in timed if ms is not None and starts[key] < ends[key]}

    def _expired(
        self, present: list[TopicPartition], starts: Mapping[TopicPartition, int]
    ) -> tuple[TopicPartition, ...]:
        """The partitions that start by time where they begin, although they began earlier once."""
        if self._options[ON_EXPIRED_START] != "loss":
            return ()
        timed = [key for key, at in self._given(self._first, present).items() if at.timestamp_ms]
        begins = self._connected.offsets(dict.fromkeys(timed, EARLIEST))
        return tuple(key for key in timed if 0 < begins.get(key, 0) == starts[key])

    def _all_offsets(
        self,
        bounds: Positions,
        present: list[TopicPartition],
        ends: Mapping[TopicPartition, int],
        *,
        is_start: bool = False,
    ) -> dict[TopicPartition, int]:
        """The offsets where the options say that partitions start or end."""
        offsets = self._offsets(self._given(bounds, present), ends, is_start=is_start)
        for key in present:
            if key not in offsets:
                raise DiscoveryError(
                    f"partition {split_id_of(*key)} has no leader, so its {bounds.option} is not known",
                    remedy="wait for the brokers",
                )
        return offsets

    def _given(self, positions: Positions, present: list[TopicPartition]) -> dict[TopicPartition, Position]:
        try:
            return positions.of(present)
        except ValueError as error:
            raise OptionError(
                f"option {positions.option} does not match the partitions of {self._choice}: {error}",
                remedy="name every partition once; -2 is earliest and -1 latest where offsets are given",
            ) from None

    def _offsets(
        self,
        positions: Mapping[TopicPartition, Position],
        ends: Mapping[TopicPartition, int],
        *,
        is_start: bool = False,
    ) -> dict[TopicPartition, int]:
        """The offsets of positions; partitions that are gone or have no leader are left out.

        A stream may start within an open transaction, which another reader has read: it waits for its end.
        """
        requested = {
            key: position.offset if position.timestamp_ms is None else position.timestamp_ms
            for key, position in positions.items()
            if position.offset in (EARLIEST, AT_TIMESTAMP) and key in ends
        }
        answers = self._connected.offsets(requested)
        tops = self._connected.high_watermarks(
            key for key, position in positions.items() if position.offset > ends.get(key, position.offset)
        )
        offsets: dict[TopicPartition, int] = {}
        for key, position in positions.items():
            if key not in ends or (key in requested and key not in answers):
                continue
            if position.offset > ends[key] and key not in tops:
                continue
            if position.offset == LATEST:
                offsets[key] = ends[key]
            elif key not in requested:
                top = tops.get(key, ends[key])
                offsets[key] = self._checked(key, position.offset, ends[key], top, is_start=is_start)
            elif answers[key] >= 0:
                offsets[key] = min(answers[key], ends[key])
            else:
                offsets[key] = self._at_end(key, position, ends[key], is_start=is_start)
        return offsets

    def _checked(self, key: TopicPartition, offset: int, end: int, top: int, *, is_start: bool) -> int:
        if is_start and self._last is not None:
            return min(offset, end)  # a batch read that starts after the end is empty, as in Spark
        set_offset = f"{(self._last or self._first).option} sets offset {offset} for {split_id_of(*key)}"
        if offset > top:
            raise OptionError(
                f"{set_offset}, which ends at {top}",
                remedy="choose an offset that the partition has, or latest",
            )
        if offset > end and not is_start:
            raise OptionError(
                f"{set_offset}, where a transaction is open from {end} on",
                remedy="wait until the transaction has ended, or choose latest",
            )
        return offset

    def _at_end(self, key: TopicPartition, position: Position, end: int, *, is_start: bool) -> int:
        """The end of a partition that has no record as young as the position, unless that is an error."""
        if is_start and self._options[STARTING_STRATEGY] == "error":
            raise OptionError(
                f"{split_id_of(*key)} has no record at {position} or later ({self._first.option})",
                remedy="choose an earlier time, or set startingOffsetsByTimestampStrategy=latest to start at "
                "the end",
            )
        return end

    def _starts(
        self,
        request: PollRequest,
        topics: Mapping[str, Topic],
        ends: Mapping[TopicPartition, int],
        short: list[TopicPartition],
    ) -> dict[TopicPartition, int]:
        """Where partitions begin: periodically all of them, otherwise those that may have lost records."""
        now = self._clock.now_s()
        if now >= self._starts_after:
            starts = self._connected.offsets(dict.fromkeys(ends, EARLIEST))
            self._starts_after = self._clock.now_s() + POLLS_PER_STARTS * self._interval_s
            return starts
        changed = {
            name
            for name, (topic_id, _) in (request.known or {}).items()
            if name in topics and topic_id is not None and topics[name].topic_id != topic_id
        }
        odd = [*short, *(key for key in ends if key[0] in changed)]
        return self._connected.offsets(dict.fromkeys(odd, EARLIEST))
