"""The unread chunks of a state, for edits and for the state tables. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from flip27_source.enumerators.postgres.assigner import (
    AssignerState,
    Horizon,
    TableProgress,
    chunk_split,
)
from flip27_source.enumerators.postgres.split import PostgresSplit
from flip27_source.enumerators.postgres.state import PostgresState
from flip27_source.enumerators.postgres.visibility import TransactionSnapshot

_SEES_NOTHING = str(TransactionSnapshot(xmin=1, xmax=1))
_NO_HORIZON = Horizon(lsn=0, xid=0)


def held_chunks(state: PostgresState) -> list[PostgresSplit]:
    """The unread chunks whose bounds are known, assigned or not."""
    settled = state.assigner.settled or _NO_HORIZON
    return [
        chunk_split(progress, number, settled)
        for progress in state.assigner.tables
        for number in _missing(progress)
    ]


def without_chunks(state: PostgresState, split_ids: Collection[str]) -> PostgresState:
    """The state in which these chunks count as read and empty.

    Every change of their rows is delivered from the current position in the log on.
    """
    tables = tuple(_without(progress, split_ids) for progress in state.assigner.tables)
    assigner: AssignerState = replace(state.assigner, tables=tables)
    returned = tuple(split for split in state.returned if split.split_id not in split_ids)
    return replace(state, assigner=assigner, returned=returned)


def _missing(progress: TableProgress) -> Iterator[int]:
    for number in range(len(progress.snapshots)):
        is_cut = number < len(progress.bounds) or progress.is_cut
        if is_cut and progress.is_missing(number):
            yield number


def _without(progress: TableProgress, split_ids: Collection[str]) -> TableProgress:
    skipped = {number for number in _missing(progress) if progress.split_id(number) in split_ids}
    return replace(
        progress,
        snapshots=tuple(
            snapshot or (_SEES_NOTHING if number in skipped else None)
            for number, snapshot in enumerate(progress.snapshots)
        ),
        again=tuple(number for number in progress.again if number not in skipped),
        assigned={name: lsn for name, lsn in progress.assigned.items() if name not in split_ids},
    )
