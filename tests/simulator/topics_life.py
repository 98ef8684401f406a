"""The kafka source in a simulation: its records, and which of them must be delivered or reported as lost."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import ClassVar

from flip27_source.enumerators.kafka.cluster import DESCRIPTIONS_UNTIL_GONE
from flip27_source.testing.under_test import SourceUnderTest

from .lives import DefectFound, Life
from .sources import LINE
from .topics import LogEnumerator, LogReader, SimulatedCluster

_LOST_RANGE = re.compile(r"offsets (\d+) to (\d+)|offset (\d+) (?:on|was to be read next)")


class TopicsLife(Life):
    """The kafka source: records, transactions, new partitions, expiry, and topics that are recreated."""

    OPTIONS: ClassVar = {
        "onDataLoss": (None, "report", "report"), "maxOffsetsPerTrigger": (None, "3", "20"),
        "maxOffsetsPerPartition": (None, None, "2"), "maxRecordsPerPartition": (None, None, "2"),
        "taskReports": (None, "always"), "discoveryRetries": ("0", "3"), "parallelism": (None, "1", "3"),
    }  # fmt: skip

    def begin(self) -> None:
        draw = self.random
        self.cluster = LogEnumerator.cluster = SimulatedCluster(draw)
        self.cluster.trouble = draw.choice((0.0, 0.02, 0.1))
        self.cluster.forgetfulness = draw.choice((0.0, 0.4))
        # Power cuts repeat batches: records may expire after a batch was read and before it is repeated.
        self.of.outage_rate = max(self.of.outage_rate, draw.choice((0.0, 0.15)))
        self.options = {
            "kafka.bootstrap.servers": "simulated:9092",
            "subscribePattern": "orders-[0-9]",
            "startingOffsets": "earliest",
            "discoveryInterval": "0ms",
            "requestInterval": "1s",
        }
        self.options |= self.drawn(self.OPTIONS)

    def given(self) -> SourceUnderTest:
        return SourceUnderTest(options=self.options, enumerator=LogEnumerator, reader=LogReader, schema=LINE)

    def arrive(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.of.tell(self.cluster.change())
        if self.of.query.logs.has_uncommitted:
            # Records that its tasks have read and reported may be gone when the batch is repeated.
            self.of.tell(self.cluster.expire())

    def ask(self) -> None:
        self.ask_for_a_savepoint()

    def calm(self) -> None:
        self.cluster.calm()
        # Apply the remedy of the error about lost data.
        self.options["onDataLoss"] = "report"

    def check(self) -> None:
        # A partition counts as gone once several descriptions in a row do not contain it.
        for _ in range(DESCRIPTIONS_UNTIL_GONE):
            self.of.run_to_the_end()
        present = {log.name for topic in self.cluster.topics.values() for log in topic.logs}
        found = Counter(self.of.query.rows)
        losses = self._losses()
        lost = []
        for split_id, log in self.cluster.logs.values():
            delivered = [offset for offset in range(len(log.records)) if found[f"{log.name}/{offset}"]]
            for offset, record in enumerate(log.records):
                if record is None or record in found or offset >= log.stable:
                    continue
                is_there = log.name in present and offset >= log.start
                # The query does not have to report records that were gone before it knew the partition.
                was_seen = record in self.cluster.read or (bool(delivered) and offset > delivered[0])
                is_reported = any(first <= offset <= last for first, last in losses.get(split_id, ()))
                if is_there or (was_seen and not is_reported):
                    lost.append(record)
        more = [record for record, times in found.items() if times > 1]
        self.of.outcome.rows = found.total()
        self.of.outcome.lost, self.of.outcome.duplicated = len(lost), len(more)
        if lost or more:
            raise DefectFound(f"lost and not reported: {lost}; duplicated: {more}; losses: {losses}")

    def _losses(self) -> dict[str, list[tuple[int, float]]]:
        """The ranges of offsets that were reported as lost, by split: first and last offset of each."""
        found: dict[str, list[tuple[int, float]]] = {}
        for loss in self.of.losses():
            lost = _LOST_RANGE.search(loss.what)
            if lost is None or loss.split_id is None:
                raise DefectFound(f"a loss does not say what is lost: {loss}")
            first, last = lost[1] or lost[3], lost[2]
            found.setdefault(loss.split_id, []).append((int(first), int(last) if last else math.inf))
        return found
