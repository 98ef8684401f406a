"""A Kafka cluster in a simulation: its logs, what brokers and administrators do, and the clients that ask it.

The enumerator and the reader of ``kafka`` are the real ones, down to the methods of confluent-kafka's clients
that they call: these are simulated. Each call of a client may find that something has changed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pyarrow as pa
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from flip27_source.enumerators.kafka.client_properties import ClientProperties, Clients, Clock
from flip27_source.enumerators.kafka.cluster import DESCRIPTIONS_UNTIL_GONE, GONE_AFTER_S, Cluster
from flip27_source.enumerators.kafka.enumerator import KafkaEnumerator
from flip27_source.enumerators.kafka.split import EARLIEST, LATEST, KafkaSplit
from flip27_source.errors import AccessError
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.kafka.reader import KafkaReader
from flip27_source.testing.spark_side import Row
from flip27_source.testing.steps import Killed

POLL_TIMEOUT_S = 20
MOST_TOPICS = 3
_MOST_PARTITIONS = 5
"""Of a topic, so that a batch does not have more losses than a checkpoint lists."""
_MOST_MESSAGES = 8
_MOST_KEY = 400
_SILENCE_S = 0.5
_REFRESH_S = 10
"""How often librdkafka asks for the partitions of a topic of which it has assigned and does not know one."""
_CAUSE = re.compile("the last request|a transaction is open")

Key = tuple[str, int]


class SimulatedMessage(Message):
    """A record as a consumer delivers it.

    Attributes:
        hides_headers: whether the name of a header is not UTF-8.
    """

    hides_headers = False

    def headers(self) -> Any:
        if self.hides_headers:
            raise SystemError("as of confluent-kafka")
        return super().headers()


@dataclass(slots=True, eq=False)
class Record:
    """A record, or the marker at the end of a transaction, which has no message.

    Attributes:
        row: the row that a query delivers, except its headers.
        is_compacted: whether it is gone because the topic has a newer record with its key.
        is_damaged: whether a broker now sends other bytes in its place.
    """

    log: Log
    offset: int
    time_ms: int
    message: SimulatedMessage | None = None
    row: Row = ()
    headers: str | None = None
    is_aborted: bool = False
    is_compacted: bool = False
    is_damaged: bool = False

    def is_shown(self, *, reads_open: bool) -> bool:
        """Whether a consumer sees it."""
        return self.message is not None and not self.is_compacted and (reads_open or not self.is_aborted)

    @property
    def is_there(self) -> bool:
        """Whether the cluster still has it."""
        log = self.log
        return (
            log.is_present
            and log.start <= self.offset < len(log.records)
            and log.records[self.offset] is self
        )


@dataclass(slots=True, eq=False)
class Log:
    """A partition.

    Attributes:
        start: the first offset that has not expired.
        is_open: whether the last records belong to a transaction that has not ended.
        stable: where the open transaction begins, or the end.
        shrunk: the offsets whose records an unclean election has removed. has_regrown: whether there are
            others in their place: nobody can tell any more.
        leaderless: the number of further requests that find no leader.
    """

    topic: str
    topic_id: str | None
    number: int
    records: list[Record] = field(default_factory=list)
    start: int = 0
    is_open: bool = False
    stable: int = 0
    shrunk: range = range(0)
    has_regrown: bool = False
    leaderless: int = 0
    is_present: bool = True

    @property
    def split_id(self) -> str:
        return f"{self.topic}/{self.number}"

    def __str__(self) -> str:
        return f"{self.topic}#{self.topic_id}/{self.number}"

    def end(self, *, reads_open: bool) -> int:
        """The end for consumers."""
        return len(self.records) if reads_open else self.stable


class SimulatedCluster:
    """The topics of a simulation.

    Attributes:
        unrest: probability of a change at each request.
        trouble: probability that a request fails, or that its answer lacks the offset of a partition.
        forgetfulness: probability that an answer lacks a topic or a partition.
        unknown: topics that the brokers do not know for a while.
        hides_ids: whether the brokers do not report the ids of topics for a while.
        tells_latest: whether they are new enough to tell the largest time of a partition.
        lag_ms: by how much the times of some partitions are behind. jitter_ms: by how much times are out of
            order.
        now_s: the time of the clients. refused_s: when a request was last not answered as it should be.
        time_ms: the time of the newest record.
        records: every record that ever was, by its value.
        read: the values that the query's tasks have read to their end.
        hears_errors: whether the consumer that was asked last has told of an error since its last message.
        defect: what clients have found out.
    """

    def __init__(self, random_: random.Random, tell: Callable[[str], None]) -> None:
        self.random = random_
        self.tell = tell
        self.unrest = self.trouble = self.forgetfulness = 0.0
        self.now_s = self.refused_s = 0.0
        self.time_ms = 1_700_000_000_000
        # Brokers without ids cannot distinguish a recreated topic from one that has grown.
        self.has_ids = random_.random() < 0.8
        self.topics: dict[str, list[Log]] = {}
        self.unknown: set[str] = set()
        self.hides_ids = False
        self.tells_latest = random_.random() < 0.7
        self.lag_ms = self.jitter_ms = 0
        self.records: dict[bytes, Record] = {}
        self.read: set[bytes] = set()
        self.hears_errors = False
        self.defect: str | None = None
        self.clients = Clients(
            now_s=lambda: self.now_s,
            wait_s=self.wait,
            consumer=partial(SimulatedConsumer, self),
            admin=partial(SimulatedAdmin, self),
        )
        self._ids = 0
        for _ in range(random_.randint(1, MOST_TOPICS)):
            self.make()

    def wait(self, passed_s: float) -> None:
        self.now_s += passed_s

    def make(self, name: str | None = None) -> str:
        """Create a topic without records, in the place of one with its name."""
        self._ids += 1
        name = name or next(name for name in map("orders-{}".format, range(10)) if name not in self.topics)
        self.delete(name)
        self.topics[name] = []
        for _ in range(self.random.randint(1, 3)):
            self._add_partition(name)
        return f"{name} has id {self._ids} and {len(self.topics[name])} partitions"

    def change(self) -> str:
        """Change something, and return a description of it."""
        if not self.topics:
            return self.make()
        name = self.random.choice(list(self.topics))
        log = self.random.choice(self.topics[name])
        kinds: list[Callable[[], str]] = [
            *[lambda: self._produced(log)] * 5, *[lambda: self._in_a_transaction(log)] * 3,
            lambda: self._expired(log), lambda: self._truncated(log), lambda: self._compacted(log),
            lambda: self._without_leader(log), lambda: self._damaged(log),
            lambda: self._partition_added(name), *[lambda: self._recreated(name)] * 4,
            lambda: self._deleted(name),
        ]  # fmt: skip
        return self.random.choice(kinds)()

    def expire(self) -> str:
        """Let records of every partition expire; returns a description."""
        return ", ".join(map(self._expired, self.logs()))

    def produce(self) -> str:
        """Append records to every partition; returns a description."""
        return ", ".join(map(self._produced, self.logs()))

    def logs(self) -> list[Log]:
        """The partitions that exist."""
        return [log for logs in self.topics.values() for log in logs]

    def log(self, key: Key) -> Log | None:
        logs = self.topics.get(key[0], ())
        return logs[key[1]] if key[1] < len(logs) else None

    def begin_request(self) -> None:
        """Called by clients before each request."""
        self.now_s += 0.01
        if self.random.random() < self.unrest:
            self.tell(f"in between, {self.change()}")

    def refuses(self, probability: float) -> bool:
        """Whether a request is not answered as it should be."""
        is_refused = self.random.random() < probability
        if is_refused:
            self.refused_s = self.now_s
        return is_refused

    def has_leader(self, log: Log) -> bool:
        """Whether the leader of a partition answers."""
        if log.leaderless == 0:
            return not self.refuses(self.trouble)
        log.leaderless -= 1
        return not self.refuses(1)

    def calm(self) -> None:
        """End all faults and open transactions, and repair damaged logs."""
        self.unrest = self.trouble = self.forgetfulness = 0.0
        for log in self.logs():
            log.leaderless = 0
            for record in log.records:
                record.is_damaged = False
            if log.is_open:
                self._end_transaction(log)

    def _add_partition(self, name: str) -> None:
        logs = self.topics[name]
        new_id = f"id{self._ids}" if self.has_ids else None
        logs.append(Log(name, logs[0].topic_id if logs else new_id, len(logs)))

    def delete(self, name: str) -> None:
        for log in self.topics.pop(name, ()):
            log.is_present = False

    def _append(self, log: Log, count: int) -> None:
        """Append records, each with another value."""
        draw = self.random
        log.has_regrown = bool(log.shrunk)
        for offset in range(len(log.records), len(log.records) + count):
            self.time_ms += draw.choice((0, 1, 1000))
            time_ms = self.time_ms - self._behind_ms(log)
            key = draw.choice((None, b"", b"k" * _MOST_KEY))
            value = f"{log}/{offset} {len(self.records)}".encode()
            headers = draw.choice((None, None, [("a", b"\xff"), ("a", None)]))
            message = SimulatedMessage(
                topic=log.topic, partition=log.number, offset=offset, key=key, value=value, headers=headers,
                timestamp=(1, time_ms),
            )  # fmt: skip
            message.hides_headers = draw.random() < 0.02
            time = datetime.fromtimestamp(time_ms / 1000, UTC)
            record = Record(
                log, offset, time_ms, message, (key, value, log.topic, log.number, offset, time, 0),
                headers and str([{"key": name, "value": held} for name, held in headers]),
            )  # fmt: skip
            log.records.append(record)
            self.records[value] = record
        if not log.is_open:
            log.stable = len(log.records)

    @property
    def most_behind_ms(self) -> int:
        """By how much the time of a record may be before the newest time."""
        return self.lag_ms * _MOST_PARTITIONS + self.jitter_ms

    def _behind_ms(self, log: Log) -> int:
        """By how much the time of the next record is before the newest time."""
        lag_ms = self.lag_ms * log.number
        return lag_ms + (self.random.randint(0, self.jitter_ms) if self.jitter_ms else 0)

    def _produced(self, log: Log) -> str:
        if not log.is_open:
            self._append(log, self.random.randint(1, 8))
        return f"{log} has {len(log.records)} offsets"

    def _in_a_transaction(self, log: Log) -> str:
        if not log.is_open:
            log.is_open = True
            self._append(log, self.random.randint(1, 5))
            if self.random.random() < 0.3:
                return f"{log} has an open transaction from {log.stable} on"
        return self._end_transaction(log)

    def _end_transaction(self, log: Log) -> str:
        is_aborted = self.random.random() < 0.5
        for record in log.records[log.stable :]:
            record.is_aborted = is_aborted
        log.records.append(Record(log, len(log.records), self.time_ms))
        log.is_open, log.stable = False, len(log.records)
        return f"{log}: a transaction is {'aborted' if is_aborted else 'committed'}, up to {log.stable}"

    def _expired(self, log: Log) -> str:
        log.start = self.random.randint(log.start, log.stable)
        return f"{log} begins at {log.start}"

    def _truncated(self, log: Log) -> str:
        """Elect a leader that lacks the last records, which looks like another topic if there are no ids."""
        end = len(log.records)
        if self.has_ids and not log.is_open and end > log.start:
            keep = self.random.randint(max(log.start, end - 4), end - 1)
            log.shrunk = range(
                min([keep, *log.shrunk[:1]]), max([end, *(last + 1 for last in log.shrunk[-1:])])
            )
            del log.records[keep:]
            log.stable = keep
        return f"{log} ends at {log.stable}"

    def _compacted(self, log: Log) -> str:
        for record in log.records[log.start : max(log.start, log.stable - 1)]:
            record.is_compacted = record.is_compacted or self.random.random() < 0.3
        return f"{log} is compacted up to {log.stable - 1}"

    def _without_leader(self, log: Log) -> str:
        log.leaderless = self.random.choice((1, 3, 50))
        return f"{log} has no leader for {log.leaderless} requests"

    def _damaged(self, log: Log) -> str:
        for record in log.records[-1:]:
            record.is_damaged = True
        return f"the last record of {log} is damaged"

    def _partition_added(self, name: str) -> str:
        if len(self.topics) < MOST_TOPICS and self.random.random() < 0.5:
            return self.make()
        if len(self.topics[name]) < _MOST_PARTITIONS:
            self._add_partition(name)
        return f"{name} has {len(self.topics[name])} partitions"

    def _recreated(self, name: str) -> str:
        """Recreate a topic, to which producers go on to send."""
        if not self.has_ids:
            return f"{name} stays"
        made = self.make(name)
        return ", ".join([made, *map(self._produced, self.topics[name])])

    def _deleted(self, name: str) -> str:
        if self.has_ids:
            self.delete(name)
        return f"there is {'no' if self.has_ids else 'still a'} topic {name}"


@dataclass(slots=True)
class _Fetch:
    """A partition that is assigned to a consumer.

    Attributes:
        has_stopped: whether an error has stopped it until it is assigned again.
        ended_at: the position at which its end was last reported.
    """

    position: int
    is_paused: bool = False
    has_stopped: bool = False
    ended_at: int | None = None


class SimulatedConsumer:
    """confluent-kafka's Consumer, with the methods that the source calls.

    Args:
        values: the properties of librdkafka.
    """

    def __init__(self, cluster: SimulatedCluster, values: Mapping[str, Any], **_logger: Any) -> None:
        self._cluster = cluster
        self._random = cluster.random
        self._reads_open = values["isolation.level"] == "read_uncommitted"
        self._checks = values["check.crcs"] == "true"
        self._on_error = values["error_cb"]
        self._assigned: dict[Key, _Fetch] = {}
        self._known: dict[str, tuple[int, float]] = {}
        """The number of partitions of topics, which a client remembers, and since when."""
        self._ids: dict[str, str | None] = {}

    def poll(self, _timeout: float) -> None:
        pass

    def close(self) -> None:
        self._assigned.clear()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._assigned = {}
        self.incremental_assign(partitions)

    def unassign(self) -> None:
        self._assigned = {}

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        for item in partitions:
            assert _key(item) not in self._assigned
            self._assigned[_key(item)] = _Fetch(item.offset)
            self._refresh(item.topic)

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        for item in partitions:
            del self._assigned[_key(item)]

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for item in partitions:
            self._assigned[_key(item)].is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for item in partitions:
            self._assigned[_key(item)].is_paused = False

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any:
        assert timeout > 0
        self._begin_request()
        if topic is not None:
            self._refresh(topic)
        names = [
            name for name in self._cluster.topics if not self._cluster.refuses(self._cluster.forgetfulness)
        ]
        return SimpleNamespace(topics=dict.fromkeys(names))

    def offsets_for_times(self, partitions: Sequence[TopicPartition], *, timeout: float) -> list[Any]:
        assert timeout > 0
        self._begin_request()
        answers = [self._offset(item) for item in partitions]
        if all(answer.error == KafkaError.UNKNOWN_TOPIC_OR_PART for answer in answers):
            raise KafkaException(answers[0].error)
        return answers

    def consume(self, most: int, _timeout: float) -> list[Message]:
        self._cluster.begin_request()
        messages: list[Message] = []
        for key in self._random.sample(list(self._assigned), len(self._assigned)):
            fetch = self._assigned[key]
            if len(messages) < most and not fetch.is_paused and not fetch.has_stopped:
                messages += self._fetched(key, fetch, most - len(messages))
        if not messages:
            self._cluster.wait(_SILENCE_S)
        elif any(message.error() is None for message in messages):
            self._cluster.hears_errors = False
        return messages

    def _fetched(self, key: Key, fetch: _Fetch, most: int) -> list[Message]:
        cluster, log = self._cluster, self._cluster.log(key)
        if log is None or not cluster.has_leader(log):
            return self._unanswered(key, fetch)
        if self._ids.setdefault(log.topic, log.topic_id) != log.topic_id and self._random.random() < 0.3:
            raise Killed("librdkafka crashes, because the topic was recreated")
        end = log.end(reads_open=self._reads_open)
        if not log.start <= fetch.position <= len(log.records):
            fetch.has_stopped = True
            return [_event(key, fetch, KafkaError._AUTO_OFFSET_RESET)]
        if fetch.position >= end:
            if log.is_open:
                cluster.refused_s = cluster.now_s
            if fetch.ended_at == fetch.position:
                return []
            fetch.ended_at = fetch.position
            return [_event(key, fetch, KafkaError._PARTITION_EOF)]
        found: list[Message] = []
        # However many records are not shown, they take no time.
        left = iter(log.records[fetch.position : end])
        while len(found) < min(most, _MOST_MESSAGES) and (record := next(left, None)) is not None:
            if record.is_damaged and self._checks:
                cluster.refused_s = cluster.now_s
                return found or [_event(key, fetch, KafkaError._BAD_MSG)]
            fetch.position += 1
            if record.is_shown(reads_open=self._reads_open):
                found.append(self._delivered(record))
        return found

    def _unanswered(self, key: Key, fetch: _Fetch) -> list[Message]:
        self._cluster.refused_s = self._cluster.now_s
        kind = self._random.choice((None, KafkaError._TRANSPORT, KafkaError.UNKNOWN_TOPIC_OR_PART))
        if kind == KafkaError._TRANSPORT:
            self._cluster.hears_errors = True
            self._on_error(KafkaError(kind))
        fetch.has_stopped = kind == KafkaError.UNKNOWN_TOPIC_OR_PART
        return [_event(key, fetch, KafkaError.UNKNOWN_TOPIC_OR_PART)] if fetch.has_stopped else []

    def _delivered(self, record: Record) -> Message:
        message = record.message
        assert message is not None
        if record.is_damaged:
            key = record.log.topic, record.log.number
            message = SimulatedMessage(*key, record.offset, None, b"?", timestamp=(1, record.time_ms))
        return message

    def _offset(self, item: TopicPartition) -> Any:
        """The answer to a request for an offset."""
        cluster, log = self._cluster, self._cluster.log(_key(item))
        if log is None or not self._knows(_key(item)):
            code = KafkaError.UNKNOWN_TOPIC_OR_PART
        elif not cluster.has_leader(log):
            cluster.hears_errors = True
            code = self._random.choice((KafkaError.LEADER_NOT_AVAILABLE, KafkaError._TIMED_OUT))
        else:
            end = log.end(reads_open=self._reads_open)
            named = {EARLIEST: log.start, LATEST: end}
            of_time = (
                record.offset
                for record in log.records[log.start : end]
                if record.message is not None and record.time_ms >= item.offset
            )
            offset = named[item.offset] if item.offset in named else next(of_time, LATEST)
            return SimpleNamespace(topic=item.topic, partition=item.partition, offset=offset, error=None)
        return SimpleNamespace(topic=item.topic, partition=item.partition, error=KafkaError(code))

    def _begin_request(self) -> None:
        self._cluster.begin_request()
        if self._cluster.refuses(self._cluster.trouble):
            self._cluster.hears_errors = True
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def _knows(self, key: Key) -> bool:
        """Whether the client knows a partition that is there."""
        topic, number = key
        now_s = self._cluster.now_s
        _, since_s = self._known.get(topic, (0, now_s))
        if key in self._assigned and now_s - since_s > _REFRESH_S:
            self._refresh(topic)
        count, _ = self._known.setdefault(topic, (len(self._cluster.topics[topic]), now_s))
        return number < count

    def _refresh(self, topic: str) -> None:
        """Ask for the partitions of a topic."""
        self._known.pop(topic, None)


class SimulatedAdmin:
    """confluent-kafka's AdminClient, with the methods that the source calls."""

    def __init__(self, cluster: SimulatedCluster, _values: Any, **_logger: Any) -> None:
        self._cluster = cluster
        self._forgotten = 0

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Any]:
        """Describe topics, and never leave any out so often in a row that it would count as gone."""
        assert request_timeout > 0
        cluster = self._cluster
        cluster.begin_request()
        cluster.wait(GONE_AFTER_S / (DESCRIPTIONS_UNTIL_GONE - 1))
        if cluster.refuses(cluster.trouble):
            return {name: _Answer(code=KafkaError._TIMED_OUT) for name in topics.topic_names}
        there = cluster.topics.keys() - cluster.unknown
        found = {name: list(cluster.topics[name]) for name in topics.topic_names if name in there}
        if found and self._forgotten < DESCRIPTIONS_UNTIL_GONE - 1 and cluster.refuses(cluster.forgetfulness):
            self._forgotten += 1
            # A new topic is not known to all brokers at once.
            newest = max(found, key=list(cluster.topics).index)
            name = cluster.random.choice([*found, newest, newest])
            if cluster.random.random() < 0.5:
                del found[name]
            else:
                found[name].pop(cluster.random.randrange(len(found[name])))
        else:
            self._forgotten = 0
        return {
            name: _Answer(
                topic_id=None if cluster.hides_ids else cluster.topics[name][0].topic_id,
                partitions=[SimpleNamespace(id=log.number) for log in found[name]],
            )
            if name in found
            else _Answer(code=KafkaError.UNKNOWN_TOPIC_OR_PART)
            for name in topics.topic_names
        }

    def list_offsets(self, places: Mapping[Any, Any], *, isolation_level: Any, request_timeout: float) -> Any:
        """The ends of partitions, the first records at or after times, or those with the largest times."""
        assert request_timeout > 0
        self._cluster.begin_request()
        reads_open = isolation_level is IsolationLevel.READ_UNCOMMITTED
        return {
            place: self._listed(log, spec, reads_open=reads_open)
            if (log := self._cluster.log(_key(place))) is not None and self._cluster.has_leader(log)
            else _Answer(code=KafkaError.LEADER_NOT_AVAILABLE)
            for place, spec in places.items()
        }

    def _listed(self, log: Log, spec: Any, *, reads_open: bool) -> _Answer:
        end = log.end(reads_open=reads_open)
        there = [record for record in log.records[log.start : end] if not record.is_compacted]
        if spec is OffsetSpec.latest():
            return _Answer(offset=end)
        if spec is OffsetSpec.max_timestamp() and not self._cluster.tells_latest:
            return _Answer(code=KafkaError.UNSUPPORTED_VERSION)
        if spec is OffsetSpec.max_timestamp():
            found = max(there, key=lambda one: one.time_ms, default=None)
        else:
            found = next((one for one in there if one.time_ms >= spec.timestamp), None)
        if found is None:
            return _Answer(offset=LATEST, timestamp=LATEST)
        return _Answer(offset=found.offset, timestamp=found.time_ms)


class _Answer:
    """The future of an answer, which has arrived.

    Args:
        code: of the error; None for an answer with these fields.
    """

    def __init__(self, *, code: int | None = None, **fields: Any) -> None:
        self._code, self._fields = code, fields

    def result(self) -> Any:
        if self._code is not None:
            raise KafkaException(KafkaError(self._code))
        return SimpleNamespace(**self._fields)


def _key(partition: TopicPartition) -> Key:
    return partition.topic, partition.partition


def _event(key: Key, fetch: _Fetch, code: int) -> Message:
    return Message(topic=key[0], partition=key[1], offset=fetch.position, error=KafkaError(code))


class LogEnumerator(KafkaEnumerator):
    """The kafka enumerator, whose clients are simulated."""

    cluster: ClassVar[SimulatedCluster]
    clock: ClassVar[Clock] = Clock(
        now_s=lambda: LogEnumerator.cluster.now_s,
        wait_s=lambda passed_s: LogEnumerator.cluster.wait(passed_s + 0),
    )

    @staticmethod
    def connect(properties: ClientProperties) -> Cluster:
        return Cluster(replace(properties, clients=LogEnumerator.cluster.clients))


class LogReader(KafkaReader):
    """The kafka reader, whose clients are simulated; its batches are small."""

    most_bytes: ClassVar[int] = 4 * _MOST_KEY
    most_held_bytes: ClassVar[int] = 2 * _MOST_KEY

    def open(self, context: SourceReaderContext) -> None:
        super().open(context)
        cluster = LogEnumerator.cluster
        self.most_rows = cluster.random.choice((3, KafkaReader.most_rows))
        self._properties = replace(self._properties, clients=cluster.clients)

    def read_together(self, splits: Sequence[KafkaSplit]) -> Iterator[pa.RecordBatch]:
        cluster = LogEnumerator.cluster
        cluster.hears_errors, began_s = False, cluster.now_s
        read: list[bytes] = []
        try:
            for batch in super().read_together(splits):
                read += batch.column("value").to_pylist()
                size = sum(len(key or b"") for key in batch.column("key").to_pylist())
                if size > self.most_bytes + _MOST_MESSAGES * _MOST_KEY:
                    cluster.defect = f"a batch has {size} bytes of keys"
                yield batch
                # Whoever takes the rows may be slow, and other tasks run meanwhile.
                cluster.wait(cluster.random.choice((0, 0, 0, 2 * POLL_TIMEOUT_S)))
                cluster.hears_errors, began_s = False, cluster.now_s
        except AccessError as error:
            if "no record from" in error.what:
                if cluster.now_s - cluster.refused_s > POLL_TIMEOUT_S:
                    cluster.defect = f"a task waits for records that the brokers give: {error}"
                if cluster.now_s - began_s < POLL_TIMEOUT_S:
                    cluster.defect = f"a task gives up too early: {error}"
                if cluster.hears_errors and not _CAUSE.search(error.what):
                    cluster.defect = f"an error does not tell its cause: {error}"
            raise
        cluster.read.update(read)
