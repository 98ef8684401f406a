"""Skips transactions that were read in the log of another server, which has its domains in another order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from flip27_source.enumerators.mysql.errors import START_AGAIN
from flip27_source.enumerators.mysql.event_blocks import EventBlock
from flip27_source.enumerators.mysql.split import by_domain
from flip27_source.errors import DataLossError
from flip27_source.readers.mysql.log import transactions_of

_UNKNOWN = 0
"""A kind of which no event is."""


class Skipping:
    """Skips transactions up to some that were read before.

    Args:
        skips: of some domains the last transaction to skip.
        end: the window has the transactions that begin before this position.

    Attributes:
        passed: those of ``skips`` that were found.
    """

    def __init__(self, skips: Iterable[str], *, end: int) -> None:
        self._left = by_domain(skips)
        self._end = end
        self._is_skipped = False
        self.passed: list[str] = []

    def blocks(self, blocks: Iterable[EventBlock]) -> Iterator[EventBlock]:
        """The blocks, in which the events of skipped transactions have an unknown kind."""
        for block in blocks:
            if self._left or self._is_skipped:
                self._skip_in(block)
            yield block

    def _skip_in(self, block: EventBlock) -> None:
        begins = block.begins
        bounds = [0, *begins.tolist(), len(block.kinds)]
        begins = begins[: np.searchsorted(block.positions[begins], self._end)]
        self._is_skipped &= not block.begins_file
        gtids = [None, *(transaction.gtid for transaction in transactions_of(block, begins))]
        for gtid, start, stop in zip(gtids, bounds, bounds[1:], strict=False):
            if gtid is not None:
                self._is_skipped = self._skips(gtid)
            if self._is_skipped:
                block.kinds[start:stop] = _UNKNOWN

    def _skips(self, gtid: str) -> bool:
        domain, server, number = gtid.split("-")
        last = self._left.get(domain)
        if last is None:
            return False
        if last == gtid:
            self.passed.append(self._left.pop(domain))
        elif server == last.split("-")[1] and int(number) > int(last.split("-")[2]):
            raise DataLossError(
                f"the log of the server has transaction {gtid}, and not {last}, which was read before",
                remedy=f"{START_AGAIN}; onDataLoss=report does not help",
            )
        return True
