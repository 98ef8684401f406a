"""Driving: whether this process drives the lineage, asked before each act that others rely on (R9).

Each restore takes a new epoch, so the documents of an epoch are one line of descent, with increasing ids.
"""

from __future__ import annotations

from ..snapshots.driver_epochs import MOST_FAILED, DriverEpoch, FailedCheckpoint
from ..snapshots.offsets import Offset
from ..snapshots.store import Store
from .environment import Environment

_CHECKED_FOR_MS = 1000


class Driving:
    """The epochs of one run of a query.

    Args:
        store: the state location; None if there is none, or if no other driver can exist.
        is_renewed: whether :meth:`renew` is called regularly.
    """

    def __init__(self, store: Store | None, environment: Environment, *, is_renewed: bool) -> None:
        self._store = store
        self._environment = environment
        self._is_renewed = is_renewed
        self._epoch: DriverEpoch | None = None
        self._given_back: DriverEpoch | None = None
        self._checked_ms: int | None = None
        self._failed: tuple[FailedCheckpoint, ...] = ()

    @property
    def epoch(self) -> int:
        """The epoch of the next document; the first document of a lineage is written in its first epoch."""
        return 1 if self._epoch is None else self._epoch.epoch

    def take_over(self, offset: Offset, *, is_first: bool = False) -> None:
        """Claim the lineage, to drive it from this offset on.

        Raises:
            StaleDriverError: another driver has taken over the lineage that this one drove.
        """
        if self._epoch is not None:
            if self._epoch.lineage == offset.lineage:
                self._epoch.check()
            self._epoch.end()
            self._epoch = None
        if self._store is None or offset.lineage is None:
            return
        self._epoch = DriverEpoch(
            self._store,
            offset.lineage,
            self._environment.now_ms(),
            at="" if is_first else None,
            is_renewed=self._is_renewed,
            failed=self._failed,
            process=self._environment.process,
        )

    def confirm(self, offset: Offset) -> None:
        """This driver may drive the lineage that it has claimed, from this offset on."""
        if self._epoch is not None:
            self._epoch.confirm(str(offset.name))

    def forget_claims(self) -> None:
        """Forget drivers before this one that have only claimed the lineage: their batch has failed."""
        if self._epoch is not None:
            self._epoch.forget_claims()

    def give_back(self) -> None:
        """This driver does not drive the lineage that it has claimed: its epoch must not stand."""
        if self._epoch is not None:
            self._epoch.end()
            self._epoch.give_back()
            self._given_back, self._epoch = self._epoch, None

    def wrote_first(self, offset: Offset) -> None:
        """The first checkpoint of a new lineage is durable: drive that lineage."""
        if self._epoch is None or self._epoch.lineage != offset.lineage:
            self.take_over(offset, is_first=True)

    def completed(self, offset: Offset) -> None:
        if self._epoch is not None:
            self._epoch.completed(str(offset.name))

    def noted(self, failure: FailedCheckpoint) -> None:
        """A checkpoint has failed: the records of this driver show it."""
        self._failed = (*self._failed, failure)[-MOST_FAILED:]
        if self._epoch is not None:
            self._epoch.failed = self._failed

    def check(self) -> None:
        """Raise StaleDriverError if another driver has taken over."""
        if self._epoch is not None:
            self._epoch.check()
            self._checked_ms = self._environment.steady_ms()

    def check_lately(self) -> None:
        """Like :meth:`check`, for calls in quick succession: a check is valid for a second."""
        if self._checked_ms is None or self._environment.steady_ms() - self._checked_ms > _CHECKED_FOR_MS:
            self.check()

    def renew(self) -> None:
        """Record that this driver is alive. Runs on any thread."""
        epoch = self._epoch
        if epoch is not None:
            epoch.renew(self._environment.now_ms())

    def end(self, error: BaseException | None = None) -> None:
        """The run is over, by an error or without one. What a claim that was given back has left is deleted
        again.
        """
        if self._epoch is not None:
            self._epoch.end(self._environment.now_ms(), error)
        if self._given_back is not None:
            self._given_back.end()
