"""Chunks of tables, then the log of their changes: which is read when, and which of the two has a change.

Open :mod:`.assigner` first, whose docstring has the rules. :mod:`.tables` is the part of an enumerator's
state that it needs, and :mod:`.delivery` applies the rules to changes. Pure: a source brings positions in its
log, and texts for the marks of its snapshots.
"""

from .assigner import PositionAssigner, SnapshotThenLog
from .delivery import are_delivered, is_emptied_between
from .tables import Cut, Key, TableProgress, TablesState

__all__ = [
    "Cut",
    "Key",
    "PositionAssigner",
    "SnapshotThenLog",
    "TableProgress",
    "TablesState",
    "are_delivered",
    "is_emptied_between",
]
