"""SimulatedObjects: an object store in memory with the faults of real ones and of their clients.

A request may fail, or succeed with its answer lost. The client may send a conditional put twice, and the
second one is refused. A listing may lack the newest writes, if ``stale_lists`` allows it. Each process has
its own client, which keeps listings as s3fs does, unless it is told not to.
"""

from __future__ import annotations

import itertools
import random
from typing import Any, ClassVar

import fsspec
from fsspec.spec import AbstractFileSystem

from flip27_source.snapshots.store import Store, open_store

from .process import Process

PROTOCOL = "flip27bucket"


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
        self._stores: dict[tuple[Process, str], Store] = {}
        fsspec.register_implementation(PROTOCOL, Client, clobber=True)

    def seen_by(self, process: Process, root: str) -> Store:
        """The store below ``root`` as seen by one process."""
        known = self._stores.get((process, root))
        if known is None:
            number = next(_numbers)
            Client.users[number] = (self, process)
            options = {"number": number, "skip_instance_cache": True}
            known = self._stores[process, root] = open_store(f"{PROTOCOL}://bucket{root}", options)
            del Client.users[number]
        return known

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        self.objects[key] = data
        self.newest = [*self.newest[-3:], key]

    def happens(self) -> bool:
        """Whether a fault occurs now."""
        return self.random.random() < self.trouble


_numbers = itertools.count()


class Client(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """The file system of one process."""

    protocol = (PROTOCOL, "s3")
    cachable = False
    users: ClassVar[dict[int, tuple[SimulatedObjects, Process]]] = {}

    def __init__(self, number: int, **more: Any) -> None:
        super().__init__(**more)
        self._bucket, self._process = self.users[number]

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        found = None if refresh else self._ls_from_cache(path)
        if found is None:
            found = self.dircache[path] = self._requested(path)
        return found if detail else [item["name"] for item in found]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        listed = self._ls_from_cache(self._parent(path))
        if listed is None:
            self._process.gate("head", path)
            listed = [self._file(path)] if path in self._bucket.objects else self._requested(path)
        for item in listed:
            if item["name"] == path:
                return dict(item)
        if any(item["name"].startswith(f"{path}/") for item in listed):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        if start is None:
            self.info(path)  # the size decides how the object is read
        self._process.gate("read", path)
        if path not in self._bucket.objects:
            raise FileNotFoundError(path)
        data = self._bucket.objects[path]
        if start is not None and not data:
            raise OSError("416: the requested range is not satisfiable")
        return data[start:end]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)
        self._process.gate("create" if mode == "create" else "replace", path)
        is_new = path not in self._bucket.objects
        if is_new or mode != "create":
            self._bucket.put(path, bytes(value))
        self.invalidate_cache(path)
        if mode == "create" and self._bucket.happens():
            is_new = False  # the client has sent the put a second time, because the first answer was late
        elif self._bucket.happens():
            raise OSError(f"the answer to put {path} was lost")
        if mode == "create" and not is_new:
            raise FileExistsError(path)

    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)
        self._process.gate("delete", path)
        self._bucket.objects.pop(path, None)
        self.invalidate_cache(path)
        if self._bucket.happens():
            raise OSError(f"the answer to delete {path} was lost")

    def invalidate_cache(self, path: str | None = None) -> None:
        if path is None:
            self.dircache.clear()
            return
        path = self._strip_protocol(path)
        while path:
            self.dircache.pop(path, None)
            path = self._parent(path)

    def _requested(self, path: str) -> list[dict[str, Any]]:
        """The answer to a request for a listing."""
        self._process.gate("list", path)
        bucket, prefix = self._bucket, f"{path.rstrip('/')}/"
        keys = set(bucket.objects)
        if bucket.random.random() < bucket.stale_lists:
            keys -= set(bucket.newest)
        found = {}
        for key in sorted(keys):
            if key.startswith(prefix):
                name, _, inside = key[len(prefix) :].partition("/")
                item = {"name": prefix + name, "size": 0, "type": "directory"}
                found[name] = item if inside else self._file(key)
        if not found:
            raise FileNotFoundError(path)
        return list(found.values())

    def _file(self, key: str) -> dict[str, Any]:
        return {"name": key, "size": len(self._bucket.objects[key]), "type": "file"}
