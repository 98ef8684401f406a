"""SimulatedObjects: an object store in memory with the faults of real ones.

A request may fail, or succeed with its answer lost. The client may send a conditional put twice, and the
second one is refused. A listing may lack the newest writes, if ``stale_lists`` allows it.
"""

from __future__ import annotations

import random

from flip27_source.errors import MissingStateError, StateLocationError
from flip27_source.file_systems.durable_files import TEMPORARY_PREFIX
from flip27_source.file_systems.regular_files import within
from flip27_source.snapshots.store import Store

from .process import Process

_REMEDY = "check the object store; it is tried again when the query is restarted"


class SimulatedObjects:
    """All objects of one bucket.

    Attributes:
        trouble: probability that an answer is lost, or that a conditional put is sent twice.
        stale_lists: probability that a listing lacks the newest names.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.objects: dict[str, bytes] = {}
        self.trouble = 0.0
        self.stale_lists = 0.0
        self.newest: list[str] = []

    def seen_by(self, process: Process, root: str) -> ObjectStore:
        """The store below ``root`` as seen by one process."""
        return ObjectStore(self, process, root)

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        self.objects[key] = data
        self.newest = [*self.newest[-3:], key]


class ObjectStore(Store):
    """The store of one process."""

    def __init__(self, bucket: SimulatedObjects, process: Process, root: str) -> None:
        self.location = root
        self._bucket = bucket
        self._process = process

    def read(self, name: str, limit: int | None = None) -> bytes:
        self._enter("read", name)
        try:
            return within(limit, self._bucket.objects[self._key(name)], name, self.location)
        except KeyError:
            raise MissingStateError(f"{name} is missing from {self.location}", remedy=_REMEDY) from None

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        self._enter("create", name)
        created = self._key(name) not in self._bucket.objects
        if created:
            self._bucket.put(self._key(name), data)
        if self._happens():
            return False  # the client has sent the put a second time, because the first answer was late
        self._answer("create", name)
        return created

    def replace(self, name: str, data: bytes) -> None:
        self._enter("replace", name)
        self._bucket.put(self._key(name), data)
        self._answer("replace", name)

    def list(self, folder: str) -> list[str]:
        self._enter("list", folder)
        prefix = self._key(folder).rstrip("/") + "/" if folder else f"{self.location}/"
        keys = set(self._bucket.objects)
        if self._bucket.random.random() < self._bucket.stale_lists:
            keys -= set(self._bucket.newest)
        names = {key[len(prefix) :].partition("/")[0] for key in keys if key.startswith(prefix)}
        return sorted(name for name in names if name and not name.startswith(TEMPORARY_PREFIX))

    def delete(self, name: str) -> None:
        self._enter("delete", name)
        self._bucket.objects.pop(self._key(name), None)
        self._answer("delete", name)

    def _key(self, name: str) -> str:
        return f"{self.location}/{name}"

    def _happens(self) -> bool:
        return self._bucket.random.random() < self._bucket.trouble

    def _answer(self, call: str, name: str) -> None:
        if self._happens():
            raise StateLocationError(f"the answer to {call} {name} was lost", remedy=_REMEDY)

    def _enter(self, call: str, name: str) -> None:
        try:
            self._process.gate(call, name)
        except OSError as error:
            raise StateLocationError(
                f"cannot {call} {name} in {self.location}: {error}", remedy=_REMEDY
            ) from error
