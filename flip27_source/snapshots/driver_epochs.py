"""Driver epochs: the highest epoch drives a lineage; a driver that finds a higher epoch stops (R9).

A stale driver's files do no harm, because documents, segments and reports are named by their content or by
their document. The epoch stops a stale driver, and keeps it from cleaning up files that others need.

A driver that checks for requests also records periodically that it is alive. ``driver_condition`` reads these
records; correctness does not depend on them.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from ..errors import CorruptStateError, MissingStateError, StaleDriverError, StateError, kept_parts
from ..log import LOG
from ..values.stored_json import decode_json
from ..values.times import datetime_or_none
from . import file_names
from .store import Store

STOP_ONE = (
    "two queries run on the same checkpoint: stop one of them; a second query needs its own checkpoint "
    "location"
)
"""The remedy if another driver has taken over."""
RENEWED_EVERY_MS = 10_000
MISSED_RENEWALS = 3
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PIDS_OF_HOST = "pid:[4026531836]"
"""The PID namespace outside of all containers, by a constant of Linux."""


MOST_FAILED = 10
"""How many failures the record of a driver keeps."""


class FailedCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that could not be planned, or whose checkpoint could not be written.

    Attributes:
        at_ms: when. error: why.
    """

    at_ms: int
    error: str


MOST_WRITTEN = 30
"""Of how many checkpoints the record of a driver keeps how long they took."""
_DISCOVERED_EVERY_MS = 60_000
"""How often a record is written if nothing is new except that discovery goes on."""


class WrittenCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that a driver has written.

    Attributes:
        planning_ms, write_ms: how long it took to plan its batch, and to store it.
    """

    checkpoint_id: int
    planning_ms: int
    write_ms: int


class DriverRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The driver that took over.

    Attributes:
        at: the newest checkpoint that it knows to be complete: the one that it continues after, at first.
            Renewals and the driver's end bring it up to date. Empty if it wrote the first one; None if it
            does not know yet whether it may drive the lineage.
        ended_ms: when it ended; None if it has not, or could not say so, or is of a version before 0.3.
        error, remedy: the error with which it ended, and what to do about it.
        failed: the newest checkpoints that failed, the newest last.
        discovered_ms: when its enumerator has last found out what is new; up to a minute old.
        asks_since_ms: since when a round of discovery has been going on that takes long; None: there is none.
        written: the newest checkpoints that it has written, the newest last.
        numbers: what the last progress event of the run told, or would have told.
    """

    host: str
    process: int
    started_ms: int
    at: str | None = None
    ended_ms: int | None = None
    error: str | None = None
    remedy: str | None = None
    failed: tuple[FailedCheckpoint, ...] = ()
    discovered_ms: int | None = None
    asks_since_ms: int | None = None
    written: tuple[WrittenCheckpoint, ...] = ()
    numbers: dict[str, Any] = {}

    @property
    def last_failure(self) -> str | None:
        """When the newest failed checkpoint failed, and why."""
        if not self.failed:
            return None
        newest = self.failed[-1]
        at = datetime_or_none(newest.at_ms)
        return newest.error if at is None else f"{at.isoformat(timespec='seconds')} {newest.error}"

    def ended(self, now_ms: int | None, error: BaseException | None) -> Self:
        """The record after the driver's end; the same if it is known to have ended, or has not (None)."""
        if self.ended_ms is not None or now_ms is None:
            return self
        text, remedy = (None, None) if error is None else kept_parts(error)
        return msgspec.structs.replace(self, ended_ms=now_ms, error=text, remedy=remedy)


class FailedStart(DriverRecord, frozen=True, kw_only=True, omit_defaults=True):
    """A run that was to follow a driver, and has ended before it drove.

    Attributes:
        after_ms: what that driver had said last, by its own clock: clocks of two hosts cannot be compared.
    """

    after_ms: int | None = None


class Driver(NamedTuple):
    """A driver's epoch, and its record; None if that cannot be read."""

    epoch: int
    record: DriverRecord | None

    @property
    def who(self) -> str:
        record = self.record
        return "an unknown process" if record is None else f"process {record.process} on {record.host}"


def keep_failed_start(
    store: Store, lineage: str, started_ms: int, now_ms: int, error: BaseException, process: int
) -> None:
    """Record the error of a run that has ended before it drove a lineage, beside the newest driver."""
    listed = listed_drivers(store, lineage)
    if listed.newest:  # otherwise nothing may be there any more
        after_ms = said_ms(listed, read_record(store, lineage, listed.newest))
        start = FailedStart(host=_host(), process=process, started_ms=started_ms, after_ms=after_ms)
        file = file_names.failed_start_file(lineage, listed.newest)
        store.replace(file, _encoded(start.ended(now_ms, error)))


def drivers(store: Store, lineage: str) -> Iterator[Driver]:
    """The drivers of a lineage that are known, newest first."""
    for epoch in sorted(listed_drivers(store, lineage).epochs, reverse=True):
        yield Driver(epoch, read_record(store, lineage, epoch))


class DriverEpoch:
    """The epoch of one driver in one lineage; the constructor claims it.

    Args:
        started_ms: the current time.
        at: empty if the driver wrote the first checkpoint.
        is_renewed: whether :meth:`renew` will be called every ``RENEWED_EVERY_MS``.
        notes: values of the record by their names, from ``failed`` on, which it has once it is written
            again; the owner changes them.
        process: returns the id of this process.
    """

    def __init__(
        self,
        store: Store,
        lineage: str,
        started_ms: int,
        *,
        at: str | None = None,
        is_renewed: bool = False,
        notes: Mapping[str, Any] | None = None,
        process: Callable[[], int] = os.getpid,
    ) -> None:
        self._store = store
        self.lineage = lineage
        self._notes = notes or {}
        self._record = DriverRecord(
            host=_host(),
            process=process(),
            started_ms=started_ms,
            at=at,
            failed=self._notes.get("failed", ()),
            numbers=self._notes.get("numbers", {}),
        )
        self._completed = at
        taken = listed_drivers(store, lineage)
        self.epoch = taken.newest + 1
        while not store.create(file_names.driver_file(lineage, self.epoch), _encoded(self._record)):
            self.epoch += 1
        self._is_renewed = is_renewed
        self._is_unwritten = False
        self._changing = threading.Lock()
        # Renewal files that this driver has written or is writing; empty once it has ended.
        self._said: set[str] = set()
        # Those that could not be deleted yet.
        self._remaining: set[str] = set()
        if is_renewed:
            try:
                self._say(started_ms)
            except StateError as error:  # correctness does not depend on it, and it is renewed later
                LOG.warning("this driver could not record that it is alive: %s", error)
        self._older = [old for old in taken.epochs if old < self.epoch - 1]
        self._older_renewals = taken.renewals
        self._failed_starts = taken.failed_starts

    @property
    def started_ms(self) -> int:
        return self._record.started_ms

    def completed(self, at: str) -> None:
        """Note that a checkpoint is complete. Only a later checkpoint or the record proves it to others."""
        self._completed = at

    def confirm(self, at: str) -> None:
        """Record that this driver continues after a checkpoint, and forget older drivers."""
        self.completed(at)
        self._write()
        self._forget_renewals()
        while self._older:
            self._forget(file_names.driver_file(self.lineage, self._older.pop()))

    def forget_claims(self) -> None:
        """Forget older drivers that have only claimed the lineage, back to one that has continued it."""
        self._forget_renewals()
        for epoch, record in drivers(self._store, self.lineage):
            if epoch in self._older:
                if record is not None and record.at is not None:
                    return
                self._older.remove(epoch)
                self._forget(file_names.driver_file(self.lineage, epoch))

    def _forget_renewals(self) -> None:
        """Only once this driver may drive: a claim in vain must not make a living driver seem lost."""
        while self._older_renewals:
            self._forget(file_names.renewal_file(self.lineage, *self._older_renewals.pop()))
        while self._failed_starts:
            self._forget(file_names.failed_start_file(self.lineage, self._failed_starts.pop()))

    def renew(self, now_ms: int) -> None:
        """Record that this driver is alive, unless it has ended, no longer drives, or its lineage is gone.

        Runs on any thread, and on several at once. A renewal file always exists: the previous one is deleted
        once the next one is written.
        """
        if self._is_renewed and listed_drivers(self._store, self.lineage).newest == self.epoch:
            self._say(now_ms)
            self._write()

    def end(self, now_ms: int | None = None, error: BaseException | None = None) -> None:
        """Delete this driver's renewal files, so that no sender of a request waits for it.

        If that fails, a sender waits until the driver has missed its renewals. For the arguments see
        :meth:`bring_up_to_date`.
        """
        self.bring_up_to_date(now_ms, error)
        with self._changing:
            self._is_renewed = False
            said, self._said = self._said, set()
            said |= self._remaining
        for name in said:
            self._forget(name)

    def bring_up_to_date(self, now_ms: int | None = None, error: BaseException | None = None) -> None:
        """Write the record if something has changed; failures are logged.

        Args:
            now_ms: the current time, if the run of the query is over. error: what has ended it.
        """
        try:
            ended = self._present(self._record.ended(now_ms, error))
            is_new = self._is_news(ended) or self._is_unwritten
            if is_new and listed_drivers(self._store, self.lineage).newest == self.epoch:
                self._write(now_ms, error)
        except Exception as failed:  # noqa: BLE001 - must not hide the error that stops the query
            LOG.warning(
                "that this driver has completed checkpoint %s, or has ended, cannot be recorded: %s",
                self._completed,
                failed,
            )

    def give_back(self) -> None:
        """Delete the claim of a driver that has written nothing; called again, what has remained of it."""
        for name in {self._file, *self._remaining}:
            self._forget(name)

    @property
    def _file(self) -> str:
        return file_names.driver_file(self.lineage, self.epoch)

    def _is_own(self, record: DriverRecord | None, started_ms: Collection[int]) -> bool:
        """Whether a record is of this process, and of a claim that was made at one of these times."""
        if record is None or record.started_ms not in started_ms:
            return False
        return (record.host, record.process) == (self._record.host, self._record.process)

    def _forget(self, name: str) -> None:
        """Delete a file; it does no harm if it remains until the driver ends."""
        try:
            # The epoch of a claim whose file was deleted, although with an error, may be that of another.
            if name != self._file or self._is_own(
                read_record(self._store, self.lineage, self.epoch), (self.started_ms,)
            ):
                self._store.delete(name)
        except Exception as error:  # noqa: BLE001 - must not hide the error that stops the query
            self._remaining.add(name)
            LOG.warning("%s cannot be deleted: %s: %s", name, type(error).__name__, error)

    def _present(self, record: DriverRecord) -> DriverRecord:
        return msgspec.structs.replace(record, at=self._completed, **self._notes)

    def _is_news(self, record: DriverRecord) -> bool:
        """Whether a record differs enough from the one that is written to be written too."""
        was = self._record
        if msgspec.structs.replace(record, discovered_ms=was.discovered_ms) != was:
            return True
        return (record.discovered_ms or 0) - (was.discovered_ms or 0) >= _DISCOVERED_EVERY_MS

    def _write(self, now_ms: int | None = None, error: BaseException | None = None) -> None:
        with self._changing:
            record = self._present(self._record.ended(now_ms, error))
            if not (self._is_news(record) or self._is_unwritten):
                return
            self._record, self._is_unwritten = record, True
        while self._is_unwritten:
            self._store.replace(self._file, _encoded(record))
            with self._changing:
                # A slow renewal may have undone what was written meanwhile, such as the end: write it again.
                self._is_unwritten = record != self._record
                record = self._record

    def _say(self, now_ms: int) -> None:
        name = file_names.renewal_file(self.lineage, self.epoch, now_ms)
        with self._changing:
            if not self._is_renewed:
                return
            older = self._said - {name}
            self._said.add(name)
        gone: set[str] = set()
        try:
            self._store.create(name, _boot())
            gone = older
        finally:  # the file may exist even if creating it failed
            with self._changing:
                # If the driver has ended in the meantime, or a later renewal has dropped this file before it
                # existed, delete the file itself.
                gone = gone if name in self._said else {name}
                self._said -= gone
            for old in gone:
                self._forget(old)

    def check(self, vain_ms: Collection[int] = ()) -> None:
        """Check that this driver still drives the lineage.

        Args:
            vain_ms: when this run has claimed epochs that do not stand; their files may exist all the same.

        Raises:
            StaleDriverError: another driver has taken over.
            MissingStateError: the state was moved or deleted.
        """
        newest = listed_drivers(self._store, self.lineage).newest
        if newest > self.epoch:
            record = read_record(self._store, self.lineage, newest)
            if self._is_own(record, vain_ms):
                return
            raise StaleDriverError(
                f"another driver ({Driver(newest, record).who}) has taken over {self.lineage} in "
                f"{self._store.location}: its epoch is {newest}, this driver's epoch is {self.epoch}",
                remedy=STOP_ONE,
            )
        if newest < self.epoch:  # a listing may be late: the file itself decides
            try:
                self._store.read_surely(self._file)
            except MissingStateError:
                raise MissingStateError(
                    f"{self._file} is no longer in {self._store.location}: the state was moved or deleted "
                    "while the query ran",
                    remedy="move the state back, or restore it from a backup, and restart the query",
                ) from None


class ListedDrivers(NamedTuple):
    """The names of a lineage's driver files: epochs, and renewals as pairs of epoch and time in ms.

    ``failed_starts``: the epochs after whose driver a run has failed at its start.
    """

    epochs: list[int]
    renewals: list[tuple[int, int]]
    failed_starts: list[int]

    @property
    def newest(self) -> int:
        return max(self.epochs, default=0)

    @property
    def last_said_ms(self) -> int | None:
        """When the newest driver has last said that it is alive."""
        return max((ms for epoch, ms in self.renewals if epoch == self.newest), default=None)


def listed_drivers(store: Store, lineage: str) -> ListedDrivers:
    names = store.list(f"{lineage}/{file_names.DRIVERS}")
    return ListedDrivers(
        [epoch for name in names if (epoch := file_names.parse_number(name)) is not None],
        [renewal for name in names if (renewal := file_names.parse_renewal(name)) is not None],
        [epoch for name in names if (epoch := file_names.parse_failed_start(name)) is not None],
    )


def said_ms(listed: ListedDrivers, record: DriverRecord | None) -> int | None:
    """When the newest driver, whose record this is, has ended or last said that it is alive."""
    return listed.last_said_ms if record is None or record.ended_ms is None else record.ended_ms


def _encoded(record: DriverRecord) -> bytes:
    return msgspec.json.encode(record, order="sorted")


def read_record(store: Store, lineage: str, epoch: int) -> DriverRecord | None:
    return _decoded(store, file_names.driver_file(lineage, epoch), DriverRecord)


def read_failed_start(store: Store, lineage: str, epoch: int) -> FailedStart | None:
    """What is kept of a run that was to follow the driver of this epoch."""
    return _decoded(store, file_names.failed_start_file(lineage, epoch), FailedStart)


RecordT = TypeVar("RecordT", bound=DriverRecord)


def _decoded(store: Store, file: str, kind: type[RecordT]) -> RecordT | None:
    try:
        return decode_json(store.read_surely(file), kind)
    except (MissingStateError, CorruptStateError, msgspec.MsgspecError):
        return None


def _host() -> str:
    """This host, and the PID namespace of a container: in another one, the same process has another id."""
    namespace = _PIDS_OF_HOST
    with suppress(OSError):  # only Linux has namespaces
        namespace = os.readlink("/proc/self/ns/pid")
    return socket.gethostname() + f" ({namespace})" * (namespace != _PIDS_OF_HOST)


def _boot() -> bytes:
    """The id of this start of this machine: another machine may have the same host name."""
    with suppress(OSError):  # only Linux has one
        return _BOOT_ID.read_bytes().strip()
    return b""


def is_gone(store: Store, lineage: str, driver: Driver, said_ms: int) -> bool:
    """Whether the driver ran on this machine since it was started, and its process no longer exists."""
    record = driver.record
    if record is None or record.host != _host() or os.name != "posix":
        return False
    try:
        os.kill(record.process, 0)
    except ProcessLookupError:
        pass
    except (OSError, OverflowError):
        return False  # the process belongs to another user, or the record is damaged
    else:
        return False
    # Another machine may have the same name of the host.
    try:
        said = store.read(file_names.renewal_file(lineage, driver.epoch, said_ms))
    except StateError:
        return False  # it has just been renewed
    return said in (b"", _boot())  # empty before version 0.3, and where the machine does not tell
