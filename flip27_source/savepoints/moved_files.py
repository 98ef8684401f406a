"""Rewrites a savepoint's snapshot and reports after the files that they name were moved. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from ..coordination.checkpoints import LedgerState, QuarantinedSplit, Snapshot
from ..coordination.data_losses import DataLoss
from ..coordination.packing import Plan
from ..coordination.subtask_reports import SplitResult, SubtaskReport
from ..errors import OptionError
from ..file_systems.moved_paths import PathRewrite, RewritesPaths
from ..source import Source
from ..source_options import PATH_REWRITE
from ..values.stored_values import stored_splits


class MovedFiles:
    """Replaces the paths of moved files with their new paths.

    Args:
        snapshot: the savepoint's snapshot, as stored.

    Raises:
        OptionError: the source's enumerator cannot rewrite paths.
    """

    def __init__(self, source: Source, rewrite: PathRewrite, snapshot: Snapshot[Any]) -> None:
        kind: Any = source.enumerator_type
        if not issubclass(kind, RewritesPaths):
            raise OptionError(
                f"option {PATH_REWRITE.name} is set, but {kind.__name__} cannot rewrite paths",
                remedy=f"remove the option, or write class {kind.__name__}(RewritesPaths[YourSplit], ...) "
                "with a method rewrite_split",
            )
        self._kind: type[RewritesPaths[Any]] = kind
        self._stored = stored_splits(kind)
        self._source = source
        self._rewrite = rewrite
        self._before = snapshot
        planned = [split for item in snapshot.plan.assignments for split in item.splits]
        self._ids = {
            split.split_id: self._split(split).split_id
            for split in (*snapshot.ledger.live, *snapshot.ledger.ranges, *planned)
        }

    def snapshot(self) -> Snapshot[Any]:
        before = self._before
        return replace(
            before,
            enumerator_state=self._kind.rewrite_state(
                before.enumerator_state, self._rewrite, self._source.options
            ),
            ledger=self._ledger(before.ledger),
            plan=self._plan(before.plan),
        )

    def report(self, report: SubtaskReport[Any]) -> SubtaskReport[Any]:
        results = tuple(self._result(result) for result in report.results)
        return replace(report, results=results, losses=self._losses(report.losses))

    def _losses(self, losses: tuple[DataLoss, ...]) -> tuple[DataLoss, ...]:
        return tuple(
            structs.replace(loss, split_id=self._ids.get(loss.split_id, loss.split_id)) for loss in losses
        )

    def _ledger(self, ledger: LedgerState[Any]) -> LedgerState[Any]:
        return replace(
            ledger,
            live=tuple(self._split(split) for split in ledger.live),
            pins={self._ids.get(name, name): subtask for name, subtask in ledger.pins.items()},
            waiting=tuple(replace(item, split=self._split(item.split)) for item in ledger.waiting),
            ranges=tuple(self._split(cut) for cut in ledger.ranges),
            quarantined=self._items(ledger.quarantined),
            ignored=self._items(ledger.ignored),
            losses=self._losses(ledger.losses),
        )

    def _plan(self, plan: Plan[Any]) -> Plan[Any]:
        assignments = (
            replace(item, splits=tuple(self._split(split) for split in item.splits))
            for item in plan.assignments
        )
        return replace(plan, assignments=tuple(assignments))

    def _items(self, items: tuple[QuarantinedSplit[Any], ...]) -> tuple[QuarantinedSplit[Any], ...]:
        return tuple(structs.replace(item, split=self._split(item.split)) for item in items)

    def _result(self, result: SplitResult[Any]) -> SplitResult[Any]:
        position = None if result.position is None else self._split(result.position)
        return replace(result, split_id=self._ids.get(result.split_id, result.split_id), position=position)

    def _split(self, split: Any) -> Any:
        moved = self._kind.rewrite_split(split, self._rewrite)
        self._stored.check_split(moved)
        return moved
