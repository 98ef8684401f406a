"""A subtask: reads one Spark task's part of a batch.

Runs on executors. A task may be repeated or killed at any point: only its report outlives it, if the
plan requests one (see ``retries``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..contract_version import check_contract
from ..coordination.split_rules import SplitErrorPolicy
from ..errors import NewColumnsError
from ..reader import SourceReaderContext, YieldsProgress
from ..savepoints.requested_savepoints import added_to
from ..segment import Segment
from ..snapshots.codec import SnapshotCodec
from ..snapshots.event_codec import EventCodec
from ..snapshots.planned_subtask import PlannedSubtask
from ..snapshots.store import LocalStore, Store
from ..source import Source
from ..source_options import LOG_DATA_LOSS, ON_DATA_LOSS
from .events_and_losses import LossReports, SentEvents
from .quarantine import Quarantine
from .split_read import Item, opened
from .subtask_splits import SplitsOfSubtask
from .task_spans import traced


def read_subtask(
    source: Source, planned: PlannedSubtask, context: SourceReaderContext, store: Store | None = None
) -> Iterator[Item]:
    """The rows of one subtask, in the exact schema of ``context``.

    Args:
        store: where reports are written; None for the source's state location.
    """
    if store is None and planned.state is not None:
        store = LocalStore(planned.state)
    try:
        yield from traced(source, planned, context, _read(source, planned, context, store))
    except NewColumnsError as error:
        from ..schemas.source_schema import with_new_columns

        raise with_new_columns(source, error, store) from None


def _read(
    source: Source, planned: PlannedSubtask, context: SourceReaderContext, store: Store | None
) -> Iterator[Item]:
    check_contract(planned.contract)
    if planned.savepoint is not None:
        context = added_to(planned.savepoint, source, context, store)
    codec = SnapshotCodec(source.enumerator_type, source.reader_type)
    splits = codec.decode_splits(planned.split_version, Segment("splits", data=planned.splits))
    reader = source.reader_type()
    if planned.report is not None:
        from .retries import SubtaskAttempt

        subtask = SubtaskAttempt(source, planned.report, context, codec, store, splits)
        yield from subtask.read(reader, planned.events)
        return
    # Without reports, events of readers are checked but not delivered.
    policy = _policy_without_reports(source, planned)
    losses = LossReports(policy, context.checkpoint_id, source.options)
    events = EventCodec(source.enumerator_type)
    context = replace(context, loss_reporter=losses.report, event_sender=events.check)
    quarantine = None
    if not (policy.fails_always or issubclass(source.reader_type, YieldsProgress)):
        quarantine = Quarantine(policy, None, losses, SentEvents(), context)
    with opened(reader, context, map(codec.events_to_readers.decode, planned.events)):
        yield from SplitsOfSubtask(reader, context, quarantine, reports=False).rows(splits)


def _policy_without_reports(source: Source, planned: PlannedSubtask) -> SplitErrorPolicy:
    """How a task that writes no report handles data that is lost or cannot be read.

    In a batch read it may ignore the data. In a stream nothing is ignored that the options want recorded: the
    batch was planned without a state location, and the options apply from the next batch on.
    """
    policy = SplitErrorPolicy.of(source)
    if not planned.reads_once:
        only_logs = source.options[ON_DATA_LOSS] == LOG_DATA_LOSS
        return replace(policy, on_error="fail", ignored_by=frozenset(), reports_loss=only_logs)
    # There is no state in which a split could be kept.
    return replace(policy, on_error="fail") if policy.on_error == "quarantine" else policy
