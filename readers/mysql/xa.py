"""XA transactions in the log, which has their rows where they are prepared, long before the commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from flip27_source.enumerators.mysql.errors import START_AGAIN
from flip27_source.enumerators.mysql.event_blocks import GTID
from flip27_source.enumerators.mysql.split import TableName, position_text
from flip27_source.errors import SplitReadError
from flip27_source.readers.mysql.log import STATEMENTS, TABLE_MAP, Part
from flip27_source.readers.mysql.table_maps import name_in

_GROUP_COMMIT, _PREPARES, _COMPLETES = 2, 64, 128
"""Flags of the GTID with which a transaction begins."""
_FLAGS_AT = 12


@dataclass(slots=True, kw_only=True)
class XaTransactions:
    """Stops the query where the log has, or lacks, changes of wanted tables in XA transactions.

    Attributes:
        prepared: by their xids, the transactions that are neither committed nor rolled back, with the tables
            that they have changed.
    """

    prepared: dict[str, tuple[TableName, ...]]
    is_wanted: Callable[[TableName], bool]
    report_loss: Callable[[str], None]
    _open: str | None = field(init=False, default=None)

    def check(self, part: Part) -> None:
        """Check a part of the log before its rows are delivered.

        Raises:
            SplitReadError: a wanted table was changed.
        """
        block, begins = part.block, part.begins
        bounds = [*begins.tolist(), part.stop]
        if self._open is not None:
            self._prepare(part, self._open, range(bounds[0]))
        flags = np.where(block.kinds[begins] == GTID, block.data[block.starts[begins] + _FLAGS_AT], 0)
        if len(begins):
            self._open = None
        for number in np.flatnonzero(flags & (_PREPARES | _COMPLETES)).tolist():
            begin, end = bounds[number : number + 2]
            xid = _xid(block.body(begin))
            if flags[number] & _PREPARES:
                self._prepare(part, xid, range(begin, end))
                self._open = xid if number == len(begins) - 1 else None
            else:
                self._complete(part, xid, range(begin, end))

    def _prepare(self, part: Part, xid: str, events: range) -> None:
        block = part.block
        changed = dict.fromkeys(self.prepared.get(xid, ()))
        for event in events:
            if block.kinds[event] == TABLE_MAP:
                changed[name_in(block.body(event)[8:])] = None
        self.prepared[xid] = tuple(changed)
        if any(map(self.is_wanted, changed)):
            where = position_text(int(block.positions[events.start]))
            raise SplitReadError(
                f"the transaction at {where} of the log is a part of an XA transaction, {xid}, which the "
                "mysql source does not read",
                remedy=f"do not change these tables in XA transactions; {START_AGAIN}",
            )

    def _complete(self, part: Part, xid: str, events: range) -> None:
        block = part.block
        changed = self.prepared.pop(xid, None)
        statements = (part.statement(event) for event in events if block.kinds[event] in STATEMENTS)
        if any(statement.is_rollback for statement in statements):
            return
        if changed is None or any(map(self.is_wanted, changed)):
            where = position_text(int(block.positions[events.start]))
            self.report_loss(
                f"the XA transaction {xid} was committed at {where} of the log, and its changes were not "
                "read: it was prepared before the tables were found"
            )


def _xid(body: bytes) -> str:
    """The id of an XA transaction, as SQL has it."""
    at = _FLAGS_AT + 1 + 8 * (body[_FLAGS_AT] & _GROUP_COMMIT > 0)
    middle = at + 6 + body[at + 4]
    first, second = body[at + 6 : middle], body[middle : middle + body[at + 5]]
    return f"X'{first.hex()}',X'{second.hex()}',{int.from_bytes(body[at : at + 4], 'little')}"
