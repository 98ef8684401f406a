"""The kafka enumerator: one split for each partition of the topics, which is read batch by batch.

What lives here: the code that runs on the coordinator's thread. :mod:`.poller` sends requests to the brokers
on another thread; :mod:`.assigner` decides what is read.
"""

from __future__ import annotations

import datetime as dt
import math
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from flip27_source.enumerator import UNKNOWN_BACKLOG, Backlog, BoundedRange, Budget, Division, SplitEnumerator
from flip27_source.enumerator_context import Boundedness, RetryPolicy, SplitEnumeratorContext
from flip27_source.enumerator_mixins import CutsSomeSplits, NamesPositions, PerformsActions, ReadsInStep
from flip27_source.enumerators.kafka import options as opts
from flip27_source.enumerators.kafka.assigner import Assigner, KafkaState, Loss
from flip27_source.enumerators.kafka.client import imported
from flip27_source.enumerators.kafka.client_properties import ClientProperties, Clock, client_properties
from flip27_source.enumerators.kafka.cluster import Cluster
from flip27_source.enumerators.kafka.group_offsets import CommitOffsets, GroupOffsets
from flip27_source.enumerators.kafka.losses import LossReports
from flip27_source.enumerators.kafka.poller import ClusterPoller, PollRequest, PollResult
from flip27_source.enumerators.kafka.progress import looked_at, progress_of
from flip27_source.enumerators.kafka.split import (
    KafkaSplit,
    divided,
    fields_at,
    offsets_between,
    partition_of,
    position_said,
    range_split,
    split_id_of,
)
from flip27_source.enumerators.kafka.start_positions import (
    ON_EXPIRED_START,
    START_AND_END_OPTIONS,
    STARTING_OFFSETS,
    STARTING_STRATEGY,
    ending,
    starting,
)
from flip27_source.enumerators.kafka.time_ladder import PartitionTimes, TimeLadder
from flip27_source.enumerators.kafka.topic_choice import TopicChoice
from flip27_source.event_time import EventTimeRange
from flip27_source.log import LOG
from flip27_source.options import Option, Options
from flip27_source.source_checks import ChecksBeforeStart, ChecksSource, Finding
from flip27_source.source_options import MAX_ROWS_PER_TRIGGER, ON_DATA_LOSS, STATE_LOCATION
from flip27_source.source_progress import LooksIntoSource, ProgressTable, TellsProgress
from flip27_source.values.times import datetime_or_none

_MOST_NAMED = 5
"""The most partitions that a warning names."""

_MOST_POLLS_FOR = 2
"""The most polls for which a batch waits, for one partition: an offset may need a high watermark."""


class KafkaEnumerator(
    PerformsActions[CommitOffsets],
    NamesPositions,
    CutsSomeSplits,
    ChecksSource,
    ChecksBeforeStart,
    TellsProgress,
    LooksIntoSource,
    ReadsInStep[KafkaSplit],
    SplitEnumerator[KafkaSplit],
):
    """Assigns each partition once, and bounds it at every checkpoint."""

    options: ClassVar[tuple[Option[Any], ...]] = opts.KAFKA_OPTIONS
    default_reader: ClassVar[str | None] = "kafka"
    # A partition without records since the source before has ended starts at its end.
    switch_defaults: ClassVar[Mapping[str, str]] = {
        STARTING_STRATEGY.name: "latest",
        ON_EXPIRED_START.name: "loss",
    }
    clock: ClassVar[Clock] = Clock()
    implied_options = staticmethod(opts.implied_options)
    fields_at = staticmethod(fields_at)
    rows_moved = staticmethod(offsets_between)
    progress = staticmethod(progress_of)
    position_said = staticmethod(position_said)
    set_apart = staticmethod(range_split)

    def __init__(
        self, context: SplitEnumeratorContext[KafkaSplit], options: Options, state: KafkaState | None = None
    ) -> None:
        super().__init__(context, options, state)
        choice = TopicChoice.of(options)
        self._is_bounded = context.boundedness is Boundedness.BOUNDED
        self._assigner = Assigner(state, choice.has)
        self._has_state = self._is_stored = state is not None
        self._first = starting(options, is_batch=context.reads_once)
        self._poller = ClusterPoller(
            options,
            choice,
            first=self._first,
            last=ending(options, is_batch=context.reads_once),
            polls_once=self._is_bounded,
            connect=self.connect,
            clock=self.clock,
        )
        self._marks_losses = (
            options[ON_DATA_LOSS] == "fail" and options[STATE_LOCATION] is not None and not context.reads_once
        )
        self._most_of_partition = options[opts.MAX_OFFSETS_PER_PARTITION]
        self._group_offsets = GroupOffsets(options)
        self._losses = LossReports(context, options, first=self._first.option)
        self._oldest_ms: int | None = None
        self._last_batch_s = -math.inf
        # The number of polls, and after which of them, with how many live splits, there was nothing to read.
        self._polls_done = 0
        self._idle_at: tuple[int, int] | None = None
        self._polls_again = False
        # What polls of their own were made for, where it was, and how many.
        self._polled_for: dict[Hashable, tuple[Hashable, int]] = {}
        step_s = None if context.reads_once else opts.time_step_s(options)
        rows = options[MAX_ROWS_PER_TRIGGER]
        self._ladder = (
            None if step_s is None else TimeLadder(step_ms=max(1, round(step_s * 1000)), most_rows=rows)
        )
        self._has_warned = False
        self._asks_for_times = False
        # A poll that a batch waits for may be made while the periodic one is.
        self._one_at_a_time = threading.Lock()
        self._results: deque[PollResult] = deque()

    @staticmethod
    def connect(properties: ClientProperties) -> Cluster:
        """The cluster that is polled; the simulator replaces it."""
        return Cluster(properties)

    @classmethod
    def check_before_start(cls, options: Options) -> None:
        """Check the client and its properties; brokers may be down for a moment."""
        TopicChoice.of(options)
        imported()
        client_properties(options)

    @classmethod
    def check_source(cls, options: Options) -> Iterator[Finding]:
        from flip27_source.enumerators.kafka.check import findings

        return findings(options)

    @classmethod
    def starts_now(cls, start_options: Mapping[str, str]) -> bool:
        """Whether partitions start at their ends; a place for each is not looked into."""
        given = {option.name for option in START_AND_END_OPTIONS} & start_options.keys()
        offsets = start_options.get(STARTING_OFFSETS.name, "latest").strip().lower()
        return given <= {STARTING_OFFSETS.name, STARTING_STRATEGY.name} and offsets == "latest"

    @classmethod
    def beginning(cls, options: Options) -> dt.datetime | None:
        """The time from which on every partition has its records."""
        from flip27_source.enumerators.kafka.beginning import beginning_of

        return beginning_of(options)

    @classmethod
    def is_cut_off(cls, split: KafkaSplit) -> bool:
        """Whether the split is a range of a partition, whose reading continues after it."""
        return not split.is_quarantined

    def look(self, live: Sequence[KafkaSplit]) -> Iterator[ProgressTable]:
        """What the brokers tell of each partition; it joins no group and commits nothing."""
        result = self._poller.poll(self._next_request(live))
        if result.problem is not None:
            raise result.problem
        yield looked_at([*self._assigner.held, *live], result, self._poller.times_ms)

    def start(self) -> None:
        self._poll(None if self._is_bounded else self.options_given[opts.DISCOVERY_INTERVAL])

    def _poll(self, period_s: float | None) -> None:
        def poll(request: PollRequest) -> None:
            with self._one_at_a_time:
                self._results.append(self._poller.poll(request))

        self._call_async(poll, self._polled, period_s)

    def _poll_times(self) -> None:
        def poll(request: PollRequest) -> TimeLadder | None:
            with self._one_at_a_time:
                return self._poller.times(request, request.ends)

        self._call_async(poll, self._times_polled, None)

    def _call_async(
        self,
        poll: Callable[[PollRequest], Any],
        handler: Callable[[Any, BaseException | None], None],
        period_s: float | None,
    ) -> None:
        given = self.options_given
        retries = given[opts.FETCH_RETRIES]
        self.context.call_async(
            poll,
            handler,
            argument=self._next_request,
            period_s=period_s,
            retry=RetryPolicy(
                retries=given[opts.DISCOVERY_RETRIES] if retries is None else retries,
                first_pause_s=given[opts.FETCH_RETRY_INTERVAL] / 1000,
                longest_pause_s=15.0,
            ),
        )

    def handle_split_request(self, subtask_id: int) -> None:
        split = self._assigner.next_split()
        if split is not None:
            self.context.assign_split(split)

    def add_splits_back(self, splits: Sequence[KafkaSplit], subtask_id: int) -> None:
        self._assigner.returned(splits)

    def wants_checkpoint(self) -> bool:
        """Whether the starts of the partitions must be stored before they are read, or some are forgotten."""
        return not self._is_stored and self._assigner.known is not None

    def snapshot_state(self, checkpoint_id: int) -> KafkaState | None:
        action = self._group_offsets.take()
        if action is not None:
            self.context.perform_after_completion(action)
        state = self._assigner.state()
        if state is not None:
            self._has_state = self._is_stored = True
        return state

    def perform(self, action: CommitOffsets) -> None:
        if not self._group_offsets.commit(client_properties(self.options_given), action):
            self.context.metrics.count("offsetCommitsFailed")

    def readable(self, live: Sequence[KafkaSplit]) -> Sequence[KafkaSplit]:
        """Partitions with records, unless the batch waits until there are more, or for a poll."""
        # On an idle stream this is called many times between two polls.
        if self._idle_at == (self._polls_done, len(live)):
            return ()
        forgotten = self._assigner.forget_skipped(live)
        if forgotten:
            self._is_stored = False
            self._polls_again_for(forgotten[:1])
        behind = [split for split in live if self._assigner.is_behind(split)]
        if not behind:
            self._idle_at = (self._polls_done, len(live))
            return ()
        if unmarked := [split for split in behind if self._marked(split) is not None]:
            # In one batch: the error that follows names them all.
            return unmarked
        open_ = [split.split_id for split in behind if self._is_open(split)]
        if open_ and self._polls_again_for(open_):
            # This may be the only batch of the run.
            return ()
        if self._waits_for_times(behind):
            return ()
        # Only a batch stores the offset of a position that an edit has set.
        edited = [split for split in behind if split.next < 0]
        behind = edited if self._waits_for_more(behind) else [*edited, *(s for s in behind if s.next >= 0)]
        located = map(self._assigner.located, behind)
        self._losses.come_next(at for at in located if isinstance(at, Loss))
        return behind

    def carries_data(self, split: KafkaSplit) -> bool:
        """Whether the split is a quarantined record."""
        return split.record is not None

    def bound_split(self, split: KafkaSplit, budget: Budget) -> BoundedRange[KafkaSplit] | None:
        """The next offsets of the partition; a quarantined range is not cut."""
        if split.is_quarantined:
            return self._quarantined_range(split, budget)
        if (marked := self._marked(split)) is not None:
            return BoundedRange(read=replace(marked, end=marked.next), rest=marked)
        at = self._position(split)
        if at is None:
            return None
        if isinstance(at, Loss):
            # Nothing is left of it: the split ends.
            self._group_offsets.restarted(split.split_id)
            return BoundedRange(read=replace(split, next=0, end=0), rest=None)
        end = max(at.next, self._assigner.ends.get(split.split_id, at.next))
        limits = [most for most in (budget.rows, self._most_of_partition) if most is not None]
        end = min([end, *(at.next + most for most in limits)])
        if self._ladder is not None:
            # Of a time between two milliseconds, records of the first one are not later.
            latest_ms = None if budget.latest_us is None else -(-budget.latest_us // 1000)
            end = self._ladder.end_at(partition_of(at.split_id), at.next, end, latest_ms)
        if end == at.next == split.next and at.topic_id == split.topic_id:
            return None
        self._assigner.planned(at)
        if at.next < split.next:
            self._group_offsets.restarted(split.split_id)
        return BoundedRange(
            read=KafkaSplit(split_id=at.split_id, next=at.next, end=end, topic_id=at.topic_id),
            rest=KafkaSplit(split_id=at.split_id, next=end, topic_id=at.topic_id),
        )

    def event_time_at(self, split: KafkaSplit) -> int | None:
        """The time of the next record of a partition, or an earlier one, as the brokers tell it."""
        times, offset = self._times_of(split), self._offset_of(split)
        reached_ms = None if times is None or offset is None else times.reached_ms(offset)
        return None if reached_ms is None else reached_ms * 1000

    def event_times_in(self, cut: KafkaSplit) -> EventTimeRange | None:
        """The times of a range, from what is known of its partition."""
        times = self._times_of(cut)
        return None if times is None or cut.end is None else times.between(cut.next, cut.end)

    def event_times_after(self, live: Sequence[KafkaSplit]) -> EventTimeRange | None:
        """The times of the records that wait in all partitions."""
        found = [
            times
            for split in (*self._assigner.held, *live)
            if (known := self._times_of(split)) and (offset := self._offset_of(split)) is not None
            and (times := known.between(offset, known.end))
        ]  # fmt: skip
        if not found:
            return None
        return EventTimeRange(min(one.earliest_us for one in found), max(one.latest_us for one in found))

    def _times_of(self, split: KafkaSplit) -> PartitionTimes | None:
        # What is marked for an error is in one batch, whatever its times are.
        if self._ladder is None or split.is_quarantined or self._marked(split) is not None:
            return None
        return self._ladder.partitions.get(partition_of(split.split_id))

    def _offset_of(self, split: KafkaSplit) -> int | None:
        """Where the split is read next; None if an edit has named the position, and no poll has found it."""
        at = self._assigner.located(split)
        if isinstance(at, Loss):
            return at.begins
        offset = split.next if at is None else at.next
        return offset if offset >= 0 else self._assigner.resolved.get(split.split_id)

    def _waits_for_times(self, behind: Sequence[KafkaSplit]) -> bool:
        """Whether a poll for the times at these positions is being made; there are two of them at most."""
        if self._ladder is None or self._asks_for_times:
            return self._asks_for_times
        ends = self._assigner.ends
        at = {
            partition_of(split.split_id): (offset, ends[split.split_id])
            for split in behind
            if not split.is_quarantined
            and split.split_id in ends
            and (offset := self._offset_of(split)) is not None
        }
        self._asks_for_times = self._may_poll_for(self._ladder.unknown(at))
        if self._asks_for_times:
            self._poll_times()
        return self._asks_for_times

    def _may_poll_for(self, wanted: Mapping[Any, Hashable]) -> bool:
        """Whether any of these has not had its polls where it is; counts the poll that the caller makes."""
        due = {
            key: place
            for key, place in wanted.items()
            if self._polled_for.get(key) != (place, _MOST_POLLS_FOR)
        }
        for key, place in due.items():
            before, count = self._polled_for.get(key, (place, 0))
            self._polled_for[key] = place, count + 1 if before == place else 1
        return bool(due)

    def _marked(self, split: KafkaSplit) -> KafkaSplit | None:
        """The split with the successor of its topic, before the query stops; None if it does not lack it.

        The position of an edit that came before is one of the old topic, and is gone with it.
        """
        if not self._marks_losses or split.is_quarantined:
            return None
        successor = self._assigner.successor(split)
        if successor is None:
            return None
        return replace(split, next=max(split.next, 0), at_timestamp_ms=None, successor=successor)

    def _quarantined_range(self, split: KafkaSplit, budget: Budget) -> BoundedRange[KafkaSplit] | None:
        rows = (split.end or split.next) - split.next
        known = self._assigner.known
        if known is None or (budget.rows is not None and rows > budget.rows):
            return None
        topic_id, _ = known.get(split.topic, (None, frozenset()))
        if split.topic_id is not None and topic_id is not None and split.topic_id != topic_id:
            self._losses.report_quarantined(split, rows, topic_id)
            return BoundedRange(read=replace(split, end=split.next), rest=None)
        return BoundedRange(read=split, rest=None)

    def _is_open(self, split: KafkaSplit) -> bool:
        """Whether the next poll is to find out where the partition is read next."""
        # The next poll requests the high watermark of a partition that is short.
        is_short = self._assigner.ends.get(split.split_id, split.next) < split.next
        return (is_short or split.next < 0) and self._assigner.located(split) is None

    def _polls_again_for(self, split_ids: Sequence[str]) -> bool:
        """Poll at once, unless these partitions have had their polls; whether such a poll is being made."""
        if self._polls_done and not self._polls_again and self._may_poll_for(dict.fromkeys(split_ids)):
            self._polls_again = True
            self._poll(None)
        return self._polls_again

    def divide_ranges(self, ranges: Sequence[KafkaSplit]) -> Division[KafkaSplit]:
        """Cut large ranges for ``minPartitions`` and ``maxRecordsPerPartition``."""
        self._group_offsets.planned(ranges)
        given = self.options_given
        most = given[opts.MAX_RECORDS_PER_PARTITION]
        return divided(ranges, min_partitions=given[opts.MIN_PARTITIONS], max_records=most)

    def backlog(self, live: Sequence[KafkaSplit]) -> Backlog:
        """The offsets that are in no batch yet."""
        if self._assigner.known is None:
            return UNKNOWN_BACKLOG
        ends = self._assigner.ends
        splits = (*self._assigner.held, *live)
        rows = [
            end - split.next for split in splits if (end := ends.get(split.split_id, 0)) > split.next >= 0
        ]
        if self.options_given[opts.PARTITION_LAG]:
            lags = {
                split.split_id: max(0, ends[split.split_id] - split.next)
                for split in splits
                if split.split_id in ends and split.next >= 0 and not split.is_quarantined
            }
            self.context.metrics.gauge_parts("partitionLag", lags)
        oldest = None if self._oldest_ms is None else datetime_or_none(self._oldest_ms)
        return Backlog(
            splits=len(rows), rows=sum(rows), bytes=None, oldest_event_time=oldest if rows else None
        )

    def close(self) -> None:
        self._poller.close()
        self._group_offsets.close()

    def _polled(self, _: None, error: BaseException | None) -> None:
        self._polls_again = False
        if error is not None:
            raise error
        while self._results:
            result = self._results.popleft()
            if result.problem is not None:
                raise result.problem
            for key in result.expired:
                self._losses.report_expired(key)
            self._assigner.take(result)
            if result.oldest_ms is not None:
                self._oldest_ms = result.oldest_ms
            self._follow(result.ladder)
            self._polls_done += 1

    def _times_polled(self, ladder: TimeLadder | None, error: BaseException | None) -> None:
        self._asks_for_times = False
        if error is not None:
            raise error
        self._follow(ladder)

    def _follow(self, ladder: TimeLadder | None) -> None:
        """Take what is known of times; warns, once in a run, of partitions whose times say nothing."""
        self._ladder = ladder
        ahead = [] if ladder is None or self._has_warned else ladder.ahead_of_clock()
        if ahead:
            self._has_warned = True
            LOG.warning(
                "records of %s have times that are more than a minute ahead of the driver's clock: behind "
                "them a partition is read without waiting, no other waits for it, and the watermark delay "
                "that is told leaves it out. Check the clocks of the driver, the brokers and the producers",
                ", ".join(split_id_of(*key) for key in ahead[:_MOST_NAMED]),
            )

    def _waits_for_more(self, behind: Sequence[KafkaSplit]) -> bool:
        """Whether the batch waits, as minOffsetsPerTrigger says."""
        least = self.options_given[opts.MIN_OFFSETS_PER_TRIGGER]
        if least is None or self._is_bounded:
            return False
        now, ends = self.clock.now_s(), self._assigner.ends
        waiting = sum(max(0, ends.get(split.split_id, 0) - max(0, split.next)) for split in behind)
        if waiting < least and now - self._last_batch_s < self.options_given[opts.MAX_TRIGGER_DELAY]:
            return True
        self._last_batch_s = now
        return False

    def _position(self, split: KafkaSplit) -> KafkaSplit | Loss | None:
        """The split where it is read next, after reporting losses; a Loss if nothing is left of it."""
        at = self._assigner.located(split)
        while isinstance(at, Loss):
            # A batch query, and a query that starts, have no state yet that an edit could change.
            self._losses.report(at, has_state=self._has_state and not self.context.reads_once)
            behind = self._assigner.after_loss(split, at)
            if behind is None:
                return at
            split = behind
            at = self._assigner.located(split)
        return at

    def _next_request(self, live: Sequence[KafkaSplit]) -> PollRequest:
        planned = {split.split_id: split.next for split in live if split.next >= 0}
        assigner = self._assigner
        request = PollRequest(
            known=assigner.known, planned=assigner.resolved | planned, unresolved=assigner.unresolved
        )
        if self._ladder is None:
            return request
        positions = {
            partition_of(split.split_id): offset
            for split in (*assigner.held, *live)
            if not split.is_quarantined and (offset := self._offset_of(split)) is not None
        }
        ends = {partition_of(split_id): end for split_id, end in assigner.ends.items()}
        return replace(request, positions=positions, ends=ends, ladder=self._ladder)
