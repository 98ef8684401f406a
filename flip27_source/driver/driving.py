"""Driving: whether this process drives the lineage, asked before each act that others rely on (R9).

Each restore takes a new epoch, so the documents of an epoch are one line of descent, with increasing ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..errors import kept_words
from ..snapshots.driver_epochs import (
    MOST_FAILED,
    MOST_WRITTEN,
    DriverEpoch,
    FailedCheckpoint,
    WrittenCheckpoint,
    keep_failed_start,
)
from ..snapshots.offsets import Offset
from ..snapshots.store import Store
from .environment import Environment

_CHECKED_FOR_MS = 1000
_LARGEST_STORED = 2**63 - 1
_LONG_ASKED_MS = 60_000
"""From when on a round of discovery is in the record, which is written for it."""


class Driving:
    """The epochs of one run of a query.

    Args:
        store: the state location; None if there is none, or if no other driver can exist.
        is_renewed: whether :meth:`renew` is called regularly.

    Attributes:
        asking: the work of the enumerator that is under way, with the time of its beginning.
    """

    def __init__(self, store: Store | None, environment: Environment, *, is_renewed: bool) -> None:
        self._store = store
        self._environment = environment
        self._is_renewed = is_renewed
        self._epoch: DriverEpoch | None = None
        self._before: DriverEpoch | None = None
        self._given_back: list[DriverEpoch] = []
        self._began_ms = environment.now_ms()
        # When this run has claimed epochs that do not stand: their files may exist all the same.
        self._vain_ms: set[int] = set()
        self._checked_ms: int | None = None
        self.asking: dict[object, int] = {}
        # What the records of this driver show besides; threads replace values, and no key is ever new.
        self._notes: dict[str, Any] = {
            "failed": (), "discovered_ms": None, "asks_since_ms": None, "written": (), "numbers": {},
        }  # fmt: skip

    @property
    def numbers(self) -> Mapping[str, Any]:
        """What was told last."""
        numbers: Mapping[str, Any] = self._notes["numbers"]
        return numbers

    @property
    def epoch(self) -> int:
        """The epoch of the next document; the first document of a lineage is written in its first epoch."""
        return 1 if self._epoch is None else self._epoch.epoch

    def take_over(self, offset: Offset, *, is_first: bool = False) -> None:
        """Claim the lineage, to drive it from this offset on.

        Raises:
            StaleDriverError: another driver has taken over the lineage that this one drove.
        """
        before = self._epoch
        if before is not None and before.lineage == offset.lineage:
            self.check()
        if before is not None:
            before.bring_up_to_date()
        claimed = None
        if self._store is not None and offset.lineage is not None:
            now_ms = self._environment.now_ms()
            self._vain_ms.add(now_ms)
            claimed = DriverEpoch(
                self._store,
                offset.lineage,
                now_ms,
                at="" if is_first else None,
                is_renewed=self._is_renewed,
                notes=self._notes,
                process=self._environment.process,
            )
            self._vain_ms.remove(now_ms)
        self._before, self._epoch = before, claimed
        if before is not None and before.lineage != offset.lineage:
            self._end_before()

    def confirm(self, offset: Offset) -> None:
        """This driver may drive the lineage that it has claimed, from this offset on."""
        if self._epoch is not None:
            self._epoch.confirm(str(offset.name))
        self._end_before()

    def forget_claims(self) -> None:
        """Forget drivers before this one that have only claimed the lineage: their batch has failed."""
        if self._epoch is not None:
            self._epoch.forget_claims()

    def give_back(self) -> None:
        """This driver does not drive the lineage that it has claimed: its epoch must not stand.

        The one before it still stands.
        """
        if self._epoch is not None:
            self._epoch.end()
            self._epoch.give_back()
            self._given_back.append(self._epoch)
            self._vain_ms.add(self._epoch.started_ms)
            self._epoch, self._before = self._before, None

    def _end_before(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            before.end()

    def wrote_first(self, offset: Offset) -> None:
        """The first checkpoint of a new lineage is durable: drive that lineage."""
        if self._epoch is None or self._epoch.lineage != offset.lineage:
            self.take_over(offset, is_first=True)

    def completed(self, offset: Offset) -> None:
        if self._epoch is not None:
            self._epoch.completed(str(offset.name))

    def noted(self, failure: FailedCheckpoint) -> None:
        """A checkpoint has failed: the records of this driver show it."""
        self._notes["failed"] = (*self._notes["failed"], failure)[-MOST_FAILED:]

    def wrote(self, written: WrittenCheckpoint) -> None:
        """A checkpoint is durable: the records of this driver show how long it took."""
        self._notes["written"] = (*self._notes["written"], written)[-MOST_WRITTEN:]

    def discovered(self, now_ms: int) -> None:
        """The enumerator has found out what is new. Runs on any thread."""
        self._notes["discovered_ms"] = now_ms

    def told(self, numbers: Mapping[str, Any]) -> None:
        """What progress events tell: the records of this driver tell it to those who read the state."""
        self._notes["numbers"] = _storable(numbers)

    def check(self) -> None:
        """Raise StaleDriverError if another driver has taken over."""
        if self._epoch is not None:
            self._epoch.check(self._vain_ms)
            self._checked_ms = self._environment.steady_ms()

    def check_lately(self) -> None:
        """Like :meth:`check`, for calls in quick succession: a check is valid for a second."""
        if self._checked_ms is None or self._environment.steady_ms() - self._checked_ms > _CHECKED_FOR_MS:
            self.check()

    def renew(self) -> None:
        """Record that this driver is alive. Runs on any thread."""
        epoch, now_ms = self._epoch, self._environment.now_ms()
        since_ms = min(list(self.asking.values()), default=now_ms)
        self._notes["asks_since_ms"] = since_ms if now_ms - since_ms >= _LONG_ASKED_MS else None
        if epoch is not None:
            epoch.renew(now_ms)

    def end(self, error: BaseException | None, lineage: str | None) -> None:
        """The run is over, by an error or without one. What a claim that was given back has left is deleted
        again.

        Args:
            lineage: the one that was to be driven, if it has not come to that.
        """
        for claim in self._given_back:
            claim.give_back()
        if self._epoch is not None:
            self._epoch.end(self._environment.now_ms(), error)
        elif self._store is not None and lineage is not None and error is not None:
            with suppress(Exception):  # must not hide the error that stops the query
                process = self._environment.process()
                keep_failed_start(
                    self._store, lineage, self._began_ms, self._environment.now_ms(), error, process
                )


def _storable(value: Any) -> Any:
    """The value as JSON in UTF-8 can have it: authors may use any names and numbers."""
    if isinstance(value, Mapping):
        return {kept_words(name): _storable(item) for name, item in value.items()}
    if isinstance(value, str):
        return kept_words(value)
    return float(value) if isinstance(value, int) and abs(value) > _LARGEST_STORED else value
