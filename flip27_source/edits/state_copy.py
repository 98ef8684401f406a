"""StateCopy: a copy of a source's stored state, as the next edit will find it: after its newest batch.

Where the classes of the source can be imported, the copy has their values. Otherwise splits stay opaque: an
edit can move them, but nothing that only a class knows can be told.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec

from ..coordination.actions import PendingAction
from ..coordination.checkpoints import PendingCheckpoint, Snapshot, WaitingSplit
from ..coordination.edit_effects import Edited, Editing
from ..coordination.edit_values import EditRequest
from ..coordination.ledger import Ledger
from ..coordination.packing import Plan
from ..coordination.report_results import ReportResults
from ..coordination.split_rules import SplitRules
from ..coordination.subtask_reports import ReportDemand, SubtaskReport
from ..enumerator import SplitEnumerator
from ..enumerator_mixins import NamesPositions
from ..errors import EditError, StateError
from ..reader import YieldsProgress
from ..segment import Segment
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import CheckpointDocument
from ..snapshots.file_names import CheckpointName
from ..snapshots.late_reports import LateReports, ids_in_reports, with_late
from ..snapshots.locations import Lineage
from ..snapshots.report_files import results_of
from ..snapshots.request_mailbox import Mailbox
from ..state_tables.history import Ancestry, History, StoredSplit
from ..state_tables.unassigned_splits import class_of, reader_of, stored_options, unassigned_splits
from ..values.position_names import position_text
from .engine import EditEngine


class StateCopy:
    """The state of one source.

    Attributes:
        kind: the class of the enumerator; None if it cannot be imported here.
        line: the retained checkpoints; ``name`` is the newest one, ``head`` its document.
        unreported: ids of whole splits that ``standing`` has as waiting because their tasks have not
            reported: the newest batch reads them now, or they are read again.
    """

    def __init__(self, lineage: Lineage, storage_options: Mapping[str, Any]) -> None:
        self.lineage, self.storage_options = lineage, storage_options
        self.history = History(lineage.store(storage_options), lineage)
        self.line: Ancestry = self.history.line()
        head = self.history.head(self.line)
        if head is None:
            raise EditError(f"{lineage.name} has no checkpoint yet", remedy="wait for the first batch")
        self.head: CheckpointDocument = head
        self.kind = class_of(head)
        self.unreported: frozenset[str] = frozenset()
        self._reader = reader_of(head)
        self.codec = OpaqueCodec(head.raw.position_names) if self.kind is None else SnapshotCodec(self.kind)

    @property
    def name(self) -> CheckpointName:
        return self.line.names[-1]

    @cached_property
    def standing(self) -> Snapshot[Any]:
        """The state after the newest batch and the edits that wait; a batch that runs counts as read."""
        standing = self.state_after(self.name)
        for request in self.waiting_edits:
            with contextlib.suppress(EditError, StateError):  # the query will refuse it
                standing = self.applied(request, standing).snapshot
        return standing

    @cached_property
    def waiting_edits(self) -> tuple[EditRequest, ...]:
        """The edits that the query applies first."""
        recorded = {*self.head.raw.answered, *(edit.request_id for edit in self.head.raw.edits)}
        stored = self.history.stored
        waiting = Mailbox(stored.store, stored.folder).waiting().edits
        return tuple(request for request in waiting if request.request_id not in recorded)

    def applied(self, request: EditRequest, standing: Snapshot[Any]) -> Edited[Any]:
        engine = EditEngine(self.editing, self.codec)
        return engine.apply(request, standing, self.history.stored, self.name, self.state_after)

    @cached_property
    def editing(self) -> Editing[Any]:
        bounded = self._reader_bounds_splits
        live = () if bounded or self.kind is not None else map(StoredSplit.of, self.head.raw.ledger.live)
        rules: SplitRules[Any] = SplitRules(
            enumerator_type=self._enumerator_type,
            reader_bounds_splits=bounded,
            read_in_ranges=frozenset(split.split_id for split in live),
        )
        return Editing(rules=rules, options=stored_options(self.head))

    def state_after(self, name: CheckpointName) -> Snapshot[Any]:
        stored = self.history.stored
        document = stored.document(name)
        snapshot = self.codec.decode(
            document, stored.segment_loader(document), with_plan=True, with_events=False
        )
        reports = self._reports(name, snapshot.plan)
        unread: list[Any] = []
        if document.raw.reports is ReportDemand.REQUIRED:
            # The batch still runs: what its other tasks will report is not known.
            missing = [item for item in snapshot.plan.assignments if item.subtask_id not in reports]
            unread = [split for item in missing for split in item.splits if self._is_whole(split)]
            self.unreported = frozenset(split.split_id for split in unread)
            known = tuple(item for item in snapshot.plan.assignments if item.subtask_id in reports)
            snapshot = replace(snapshot, plan=replace(snapshot.plan, assignments=known))
        ledger = Ledger(snapshot.ledger)
        pending = PendingCheckpoint(snapshot=snapshot, reports=reports)
        folded = ReportResults(pending, ledger, self.editing.rules).fold()
        unread += [split for split, _ in folded.returned]
        again = (WaitingSplit(split=split, subtask_id=None) for split in unread)
        waiting = (*snapshot.ledger.waiting, *again)
        return replace(snapshot, ledger=ledger.state(waiting=waiting, events=()), plan=Plan())

    def _is_whole(self, split: Any) -> bool:
        rules = self.editing.rules
        return not (rules.reader_bounds_splits or rules.is_range(split))

    def split_of(self, stored: StoredSplit) -> Any:
        raw = msgspec.Raw(stored.text.encode())
        return self.codec.decode_split(self.head.source.split_version, raw)

    def text_of(self, split: Any) -> str:
        return bytes(self.codec.encode_split(split)).decode()

    def position_of(self, split: Any) -> str:
        """The split at its position: in words, by the names that its source gives fields, or as JSON."""
        text, names = self.text_of(split), self.codec.position_names
        fields = msgspec.json.decode(text)
        named = self.kind is not None and issubclass(self.kind, NamesPositions)
        said = self.kind.position_said(fields) if named else None  # type: ignore[union-attr]
        return said or (position_text(fields, names) if names else text)

    def unassigned(self) -> Iterator[Any]:
        """The splits that the enumerator holds, as far as they can be told here."""
        return map(self.split_of, unassigned_splits(self.history, self.name, self.head))

    def _reports(self, name: CheckpointName, plan: Plan[Any]) -> dict[int, SubtaskReport[Any]]:
        stored = self.history.stored
        late = LateReports(stored.store, stored.folder, name).read()
        reports: dict[int, SubtaskReport[Any]] = {}
        for assignment in plan.assignments:
            subtask = assignment.subtask_id
            report = stored.report(name, subtask)
            if report is not None:
                read: SubtaskReport[Any] = SubtaskReport(
                    checkpoint_id=name.checkpoint_id,
                    subtask_id=subtask,
                    results=results_of(report, self.codec),
                    losses=tuple(report.losses),
                )
                ids = ids_in_reports(assignment.splits, self._enumerator_type)
                reports[subtask] = with_late(read, late, ids)
        return reports

    @property
    def _enumerator_type(self) -> Any:
        return self.kind or OpaqueEnumerator

    @property
    def _reader_bounds_splits(self) -> bool:
        if self._reader is not None:
            return issubclass(self._reader, YieldsProgress)
        # A split that its reader bounds is live at the position where its batch starts.
        live = {StoredSplit.of(raw).text for raw in self.head.raw.ledger.live}
        load = self.history.stored.segment_loader(self.head)
        planned = (
            StoredSplit.of(raw).text
            for _, segment in self.head.plan_segments(load)
            for raw in segment.values(msgspec.Raw)
        )
        return self.kind is None and any(text in live for text in planned)


class OpaqueEnumerator(SplitEnumerator[StoredSplit]):
    """Stands for an enumerator whose class cannot be imported; it is never created."""


class OpaqueCodec(SnapshotCodec):
    """Leaves the values of authors as they are stored."""

    def __init__(self, position_names: Mapping[str, str]) -> None:
        kind: Any = OpaqueEnumerator
        super().__init__(kind)
        self.position_names = position_names

    def decode_split(self, version: int, raw: msgspec.Raw) -> StoredSplit:
        return StoredSplit.of(raw)

    def decode_splits(self, version: int, segment: Segment) -> list[StoredSplit]:
        return [StoredSplit.of(raw) for raw in segment.values(msgspec.Raw)]

    def encode_split(self, split: StoredSplit) -> msgspec.Raw:
        return msgspec.Raw(split.text.encode())

    def decode_state(self, document: CheckpointDocument, load: Any) -> msgspec.Raw:
        return document.raw.enumerator.state

    def decode_actions(self, segment: Segment) -> tuple[PendingAction, ...]:
        """The actions; only their number and their time are known."""
        stored = segment.values(dict[str, Any])
        return tuple(PendingAction(action=item["action"], due_checkpoint_id=item["due"]) for item in stored)
