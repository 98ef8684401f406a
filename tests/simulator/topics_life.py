"""The kafka source in a simulation: its records, and which of them must be delivered or reported as lost."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, ClassVar

from flip27_source.coordination.checkpoints import Snapshot
from flip27_source.coordination.edit_values import EditOperation
from flip27_source.enumerator_mixins import NamedPosition
from flip27_source.enumerators.kafka.cluster import DESCRIPTIONS_UNTIL_GONE
from flip27_source.errors import Flip27Error
from flip27_source.readers.kafka.consumers import close_idle_consumers
from flip27_source.testing.spark_query import BatchRead
from flip27_source.testing.spark_side import Row
from flip27_source.testing.steps import Killed
from flip27_source.testing.under_test import SourceUnderTest

from .lives import STATE, DefectFound, Life
from .topics import POLL_TIMEOUT_S, Log, LogEnumerator, LogReader, Record, SimulatedCluster

_LOST_RANGE = re.compile(r"offsets (\d+) to (\d+)|offset (\d+) (?:on|was to be read next)")
_ALL_TOPICS = "orders-[0-9]"
_OF_CLIENTS = {
    "kafka.bootstrap.servers": "simulated:9092",
    "kafkaConsumer.pollTimeoutMs": str(POLL_TIMEOUT_S * 1000),
}


class TopicsLife(Life):
    """The kafka source, while brokers fail and administrators change topics."""

    OPTIONS: ClassVar = {
        "subscribePattern": (_ALL_TOPICS, _ALL_TOPICS, "orders-[01]"),
        "failOnDataLoss": (None, "true", "false", "false"), "maxOffsetsPerTrigger": (None, "3", "20"),
        "maxOffsetsPerPartition": (None, None, "2"), "maxRecordsPerPartition": (None, None, "2"),
        "minPartitions": (None, None, "5"), "kafka.isolation.level": (None, "read_uncommitted"),
        "onSplitError": (None, None, "quarantine"), "maxSplitAttempts": (None, "1"),
        "taskReports": (None, "always"), "discoveryRetries": ("0", "3"), "parallelism": (None, "1", "3"),
        "maxEventTimeDrift": (None, None, "1s", "1 minute"), "eventTimeOrder": (None, None, "true"),
        "alignmentTimeout": (None, "1s"),
    }  # fmt: skip

    def begin(self) -> None:
        draw = self.random
        close_idle_consumers()
        self.cluster = LogEnumerator.cluster = SimulatedCluster(draw, self.of.tell)
        starts_by_time = draw.random() < 0.3
        if not starts_by_time:
            self.cluster.lag_ms = draw.choice((0, 0, 5000, 3_600_000))
            self.cluster.jitter_ms = draw.choice((0, 0, 5000))
        for _ in range(draw.randint(0, 6)):
            self.of.tell(self.cluster.change())
        self.cluster.unrest = draw.choice((0.0, 0.02, 0.2))
        self.cluster.trouble = draw.choice((0.0, 0.02, 0.1))
        self.cluster.forgetfulness = draw.choice((0.0, 0.4))
        # Power cuts repeat batches: records may expire after a batch was read and before it is repeated.
        self.of.outage_rate = max(self.of.outage_rate, draw.choice((0.0, 0.15)))
        self.cluster.time_ms += 1
        self.first_ms = self.cluster.time_ms if starts_by_time else 0
        self.options = {
            **_OF_CLIENTS,
            "stateLocation": STATE,
            "discoveryInterval": "0ms",
            "requestInterval": "1s",
            "retainedCheckpoints": "1000",
            "includeHeaders": draw.choice(("false", "true")),
            **(
                {"startingTimestamp": str(self.first_ms)}
                if self.first_ms
                else {"startingOffsets": "earliest"}
            ),
        }
        self.options |= self.drawn(self.OPTIONS)

    def given(self) -> SourceUnderTest:
        return SourceUnderTest(options=self.options, enumerator=LogEnumerator, reader=LogReader)

    def arrive(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.of.tell(self.cluster.change())
        if self.of.query.logs.has_uncommitted:
            # Records that its tasks have read and reported may be gone when the batch is repeated.
            self.of.tell(self.cluster.expire())

    def repeats(self, rows: list[Row], again: list[Row]) -> bool:
        """Whether no others were read; some may be gone by then, and are reported as lost."""
        return all(self.cluster.records[row[1]].log.has_regrown for row in set(again).difference(rows))

    def ask(self) -> None:
        # The time with which a batch read ends says nothing of records that are out of order. So are those of
        # a partition that had some before it was behind.
        reads = [] if self.cluster.jitter_ms or self.cluster.lag_ms else [self._read_once]
        self.random.choice((*reads, self._change_isolation, self.ask_for_a_savepoint))()

    def calm(self) -> None:
        self.cluster.calm()
        if not self.cluster.topics and not self.of.query.rows:
            self.of.tell(self.cluster.make())  # a pattern that has never matched anything is an error
        if self.first_ms:
            self.of.tell(self.cluster.produce())  # neither is a partition without a record to start at
        self.options["subscribePattern"] = _ALL_TOPICS
        # Apply the remedies: of lost data, and of headers whose names are not UTF-8.
        self.options |= {"failOnDataLoss": "false", "includeHeaders": "false"}

    def _run_to_the_end(self) -> None:
        """Read all: a partition in which nothing waits holds the others back until ``alignmentTimeout``."""
        for _ in range(len(self.cluster.logs()) + 1):
            self.of.run_to_the_end()
            self.of.pass_time(60_000)

    def check_document(self, before: Snapshot[Any] | None, snapshot: Snapshot[Any]) -> None:
        """Check that nothing of a batch is later than its horizon, if brokers have answered all requests."""
        horizon = snapshot.horizon
        if horizon is None or snapshot.metadata.edits or self.cluster.refused_s:
            return
        for cut in (split for item in snapshot.plan.assignments for split in item.splits):
            log = self.cluster.log((cut.topic, cut.partition))
            is_followed = not cut.is_quarantined and cut.split_id != horizon.slowest
            # Without ids, the records may be those of another topic by now.
            if log is None or log.topic_id is None or log.topic_id != cut.topic_id or not is_followed:
                continue
            late = [
                record.offset for record in log.records[cut.next : cut.end]
                if record.is_shown(reads_open=True) and record.time_ms * 1000 > horizon.latest_us
                and record.offset not in log.shrunk
            ]  # fmt: skip
            if late:
                raise DefectFound(
                    f"{late} of {cut} are later than the horizon of checkpoint "
                    f"{snapshot.metadata.checkpoint_id}"
                )

    def check(self) -> None:
        # A partition counts as gone once several descriptions in a row do not contain it.
        for _ in range(DESCRIPTIONS_UNTIL_GONE):
            self._run_to_the_end()
        self.of.retry_quarantined()
        found, wrong = self._values(self.of.query.rows)
        losses = self._losses()
        began: dict[Log, int] = {}
        for value in found:
            log, offset = self.cluster.records[value].log, self.cluster.records[value].offset
            began[log] = min(offset, began.get(log, offset))
        lost = []
        for value, record in self.cluster.records.items():
            if value in found or not self._is_due(record):
                continue
            # The query does not have to report records that were gone before it knew the partition.
            log, offset = record.log, record.offset
            is_known = offset > began.get(log, offset) and offset not in log.shrunk
            ranges = losses.get(log.split_id, ())
            is_reported = any(first <= offset <= last for first, last in ranges)
            if record.is_there or (not is_reported and (is_known or value in self.cluster.read)):
                lost.append(value)
        more = [value for value, times in found.items() if times > 1]
        outcome = self.of.outcome
        outcome.rows = found.total()
        outcome.lost, outcome.duplicated = len(lost), len(more) + len(wrong)
        if lost or more or wrong:
            raise DefectFound(
                f"lost and not reported: {lost}; doubled: {more}; wrong: {wrong}; losses: {losses}"
            )
        if self.cluster.defect is not None:
            raise DefectFound(self.cluster.defect)
        self._change_topics()

    def _change_topics(self) -> None:
        if self.cluster.topics and self.random.random() < 0.5:
            self._edit_partitions()
        # A topic that the last of these has skipped stays skipped.
        kinds = (
            self._wait_at_the_end,
            self._delete_after_an_edit,
            self._recreate_after_an_edit,
            self._lack_leaders,
            self._forget_for_a_while,
        )
        for change in filter(lambda _: self.random.random() < 0.2, kinds):
            if self.cluster.topics:
                change()

    def _edit_partitions(self) -> None:
        """Skip a deleted topic, and move a partition beyond its end: all later records arrive."""
        cluster, draw, mailbox = self.cluster, self.random, self.requests()
        if mailbox is None:
            return
        name = draw.choice(list(cluster.topics))
        cluster.delete(name)
        live = [split for split in self.of.live() if not split.is_quarantined]
        edits = {EditOperation.SKIP: [split for split in live if split.topic == name]}
        others = [split for split in live if split.topic in cluster.topics]
        if others and cluster.has_ids:
            edits[EditOperation.SET_POSITION] = [draw.choice(others)]
        for operation, splits in edits.items():
            is_moved = operation is EditOperation.SET_POSITION
            beyond = NamedPosition(offset=splits[0].next + draw.randint(1, 9)) if is_moved else None
            ids = tuple(split.split_id for split in splits)
            self.of.tell(f"{name} is deleted; {operation} of {ids} to {beyond}")
            position = None if beyond is None else LogEnumerator.fields_at(beyond)
            mailbox.submit(self.edit(mailbox, operation, split_ids=ids, position=position))
        before = set(cluster.records)
        if cluster.has_ids and draw.random() < 0.5:
            self.of.tell(cluster.make(name))
        self.of.restart()
        for _ in range(DESCRIPTIONS_UNTIL_GONE + 1):
            self._run_to_the_end()
        if name not in cluster.topics:
            self.of.tell(cluster.make(name))
        self.of.tell(cluster.produce())
        self.of.restart()
        for _ in range(2):
            self._run_to_the_end()
        self.of.retry_quarantined()
        self._check_later(before)

    def _check_later(self, before: set[bytes], skipped: set[bytes] | frozenset[bytes] = frozenset()) -> None:
        """Check that all records have arrived that were not there before, and nothing that was skipped."""
        found, _ = self._values(self.of.query.rows)
        lost = self.cluster.records.keys() - before - skipped - found.keys()
        more = [value for value, times in found.items() if times > 1 or value in skipped]
        if lost or more:
            raise DefectFound(f"after edits, lost: {sorted(lost)}; doubled: {more}")

    def _edit_topic(
        self, name: str, operation: EditOperation, position: NamedPosition | None = None
    ) -> tuple[str, ...]:
        """Submit an edit of all live partitions of a topic; returns their splits."""
        live = [split for split in self.of.live() if split.topic == name and not split.is_quarantined]
        ids = tuple(split.split_id for split in live)
        return ids if self._submit(ids, operation, position) else ()

    def _submit(
        self, ids: tuple[str, ...], operation: EditOperation, position: NamedPosition | None = None
    ) -> bool:
        mailbox = self.requests()
        if mailbox is None or not ids:
            return False
        fields = None if position is None else LogEnumerator.fields_at(position)
        self.of.tell(f"{operation} of {ids} to {position}")
        mailbox.submit(self.edit(mailbox, operation, split_ids=ids, position=fields))
        return True

    def _rest(self, runs: int = 2) -> None:
        self.of.restart()
        for _ in range(runs):
            self._run_to_the_end()
        self.of.retry_quarantined()

    def _wait_at_the_end(self) -> None:
        """Move a topic to its end while batches wait for more records: those of before a restart arrive."""
        self.options.pop("maxOffsetsPerTrigger", None)
        self.options["minOffsetsPerTrigger"] = "1000"
        name = self.random.choice(list(self.cluster.topics))
        self._edit_topic(name, EditOperation.SET_POSITION, NamedPosition(word="latest"))
        self._rest()
        before = set(self.cluster.records)
        self.of.tell(self.cluster.produce())
        del self.options["minOffsetsPerTrigger"]
        self._rest()
        self._check_later(before)

    def _delete_after_an_edit(self) -> None:
        """Delete a topic that was moved to a word or a time: a later topic is read from its beginning."""
        cluster, draw = self.cluster, self.random
        name = draw.choice(list(cluster.topics))
        cluster.delete(name)
        if draw.random() < 0.8:
            self._edit_topic(name, EditOperation.SET_POSITION, self._word_or_time())
        self.of.tell(f"{name} is deleted")
        self._rest(DESCRIPTIONS_UNTIL_GONE + 1)
        cluster.hides_ids = draw.random() < 0.5
        before = set(cluster.records)
        for _ in range(2):
            if name not in cluster.topics:
                self.of.tell(cluster.make(name))
            self.of.tell(cluster.produce())
            self._rest()
            cluster.hides_ids = False
        self._rest()
        self._check_later(before)

    def _word_or_time(self) -> NamedPosition:
        # Later records of any partition are not before it.
        time = NamedPosition(
            timestamp_ms=self.cluster.time_ms - self.cluster.most_behind_ms - self.random.randint(0, 3000)
        )
        return self.random.choice([time, *(NamedPosition(word=word) for word in ("earliest", "latest"))])

    def _recreate_after_an_edit(self) -> None:
        """Recreate a topic while an edit of it waits: the loss is found, and the new topic is read."""
        cluster = self.cluster
        name = self.random.choice(list(cluster.topics))
        if not cluster.has_ids:
            return
        edited = self._edit_topic(name, EditOperation.SET_POSITION, self._word_or_time())
        if not edited:
            return
        before = set(cluster.records)
        self.of.tell(f"{cluster.make(name)}, {cluster.produce()}")
        if stops := self.random.random() < 0.5:
            self.options["failOnDataLoss"] = "true"
            self.of.restart()
            while not self.of.query.process.is_dead:
                if not self.of.run_batch() and not self.of.query.process.is_dead:
                    raise DefectFound(f"an edit hides that {name} was recreated")
            self.options["failOnDataLoss"] = "false"
            self._submit(edited, EditOperation.SET_POSITION, NamedPosition(word="earliest"))
        self._rest()
        self._check_later(before)
        log = cluster.topics[name][0]
        if not stops and not any(f"and is {log.topic_id})" in loss.what for loss in self.of.losses()):
            raise DefectFound(f"it is not recorded that {name} was recreated")

    def _forget_for_a_while(self) -> None:
        """Let brokers with ids not know a topic for a while: a skipped one is not read again."""
        cluster, draw = self.cluster, self.random
        if not cluster.has_ids:
            return
        name = draw.choice(list(cluster.topics))
        edited = self._edit_topic(name, EditOperation.SKIP) if draw.random() < 0.7 else ()
        self._rest()
        before = set(cluster.records)
        cluster.unknown.add(name)
        self.of.tell(f"the brokers do not know {name} for a while")
        self._rest(DESCRIPTIONS_UNTIL_GONE + 1)
        cluster.unknown.clear()
        self.of.tell(cluster.produce())
        self._rest()
        skipped = {
            value for value, record in cluster.records.items()
            if record.log.split_id in edited and value not in before
        }  # fmt: skip
        self._check_later(before, skipped)

    def _lack_leaders(self) -> None:
        """Create a topic without leaders: the others are read meanwhile."""
        cluster = self.cluster
        before = set(cluster.records)
        self.of.tell(f"{cluster.make()}, and no leader")
        for log in list(cluster.topics.values())[-1]:
            log.leaderless = 1_000_000
        self.of.tell(cluster.produce())
        new = {value for value in cluster.records.keys() - before if cluster.records[value].log.leaderless}
        self._rest()
        self._check_later(before, new)
        cluster.calm()
        self._rest()
        self._check_later(before)

    def _values(self, rows: list[Row]) -> tuple[Counter[bytes], list[Row]]:
        """The values of rows that are as their records, and the other rows."""
        right, wrong = Counter[bytes](), []
        for row in rows:
            record = self.cluster.records.get(row[1])
            if record is not None and row[:7] == record.row and row[7:] in ((), (record.headers,)):
                right[row[1]] += 1
            else:
                wrong.append(row)
        return right, wrong

    def _is_due(self, record: Record) -> bool:
        """Whether a record must be delivered, or reported as lost."""
        log, offset = record.log, record.offset
        is_open = log.is_open and offset >= log.stable
        is_lost_track_of = log.has_regrown and offset in log.shrunk
        is_early = record.time_ms < self.first_ms
        return not (record.is_aborted or record.is_compacted or is_open or is_lost_track_of or is_early)

    def _losses(self) -> dict[str, list[tuple[int, float]]]:
        """The ranges of offsets that were reported as lost, by split: first and last offset of each."""
        found: dict[str, list[tuple[int, float]]] = {}
        for loss in self.of.losses():
            lost = _LOST_RANGE.search(loss.what)
            if lost is None or loss.split_id is None:
                raise DefectFound(f"a loss does not say what is lost: {loss}")
            first, last = lost[1] or lost[3], lost[2]
            split_id = loss.split_id.partition("@")[0]
            found.setdefault(split_id, []).append((int(first), int(last) if last else math.inf))
        return found

    def _change_isolation(self) -> None:
        """Read open transactions, and then only those that are committed."""
        for level in ("read_uncommitted", "read_committed"):
            self.options["kafka.isolation.level"] = level
            self.of.restart()
            self.of.run_batch()

    def _read_once(self) -> None:
        """Read the topics from a place up to a time, as by ``spark.read``."""
        cluster, draw = self.cluster, self.random
        if not cluster.topics or all(record.time_ms < self.first_ms for record in cluster.records.values()):
            return
        since_ms, until_ms = (draw.choice(list(cluster.records.values())).time_ms for _ in range(2))
        first = 0
        if draw.random() < 0.5:
            start = {"startingTimestamp": str(since_ms), "startingOffsetsByTimestampStrategy": "latest"}
        else:
            since_ms, first = 0, draw.choice((0, 5, 1000))
            offsets = {
                name: {str(log.number): first for log in logs} for name, logs in cluster.topics.items()
            }
            start = {"startingOffsets": json.dumps(offsets)}
        options = {
            **_OF_CLIENTS, **start, "subscribe": ",".join(cluster.topics), "endingTimestamp": str(until_ms),
            "failOnDataLoss": draw.choice(("true", "false")),
        }  # fmt: skip

        def is_chosen(record: Record) -> bool:
            return since_ms <= record.time_ms < until_ms and record.offset >= first

        due = {
            value for value, record in cluster.records.items()
            if is_chosen(record) and record.is_there and record.offset < record.log.stable
        }  # fmt: skip
        before = set(cluster.read), cluster.forgetfulness
        # A batch read cannot know a partition that the brokers leave out.
        cluster.forgetfulness = 0.0
        try:
            given = SourceUnderTest(options=options, enumerator=LogEnumerator, reader=LogReader)
            rows = BatchRead(given.resolve(), given.arrow_schema()).plan().rows()
        except Flip27Error as error:
            self.of.tell(f"the batch read fails: {error.what}")
            if f"offset {first} for" in error.what:
                raise DefectFound(f"a batch read must not start after the end: {error}") from error
            return
        except Killed as killed:
            self.of.tell(f"the batch read dies: {killed}")
            return
        finally:
            cluster.read, cluster.forgetfulness = before
        what = f"a batch read from {start} to {until_ms}"
        self.of.tell(f"{what} has {len(rows)} rows")
        found, wrong = self._values(rows)
        records = cluster.records
        # An unclean election in mid-read puts later records at offsets that were chosen.
        others = [
            value for value in found
            if not is_chosen(records[value]) and records[value].offset not in records[value].log.shrunk
        ]  # fmt: skip
        lost = [
            value for value in due.difference(found)
            if records[value].is_there and not records[value].is_aborted and not records[value].is_compacted
        ]  # fmt: skip
        if wrong or others or lost or found.total() > len(found):
            raise DefectFound(f"{what}: {wrong}, {others} and {lost} in {rows}")
