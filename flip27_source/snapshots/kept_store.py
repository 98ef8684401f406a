"""Stores for looking again and again: what cannot change is read once, everything else once for each look.

Documents, segments, reports and records of failures never change; Spark's offset log only does if someone has
deleted its end. Nothing can be written through these stores.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from ..errors import MissingStateError
from . import file_names
from .spark_checkpoint import OFFSETS
from .store import Store, open_store

_FINAL = frozenset({file_names.CHECKPOINTS, file_names.SEGMENTS, file_names.REPORTS, file_names.FAILURES})
MOST_KEPT_BYTES = 128 * 1024 * 1024


class KeptStores:
    """Opens stores, and keeps what is read with them: at most ``MOST_KEPT_BYTES`` of content."""

    def __init__(self) -> None:
        self._stores: dict[tuple[str, bytes], KeptStore] = {}
        self._contents: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._bytes = 0

    def open(self, location: str, storage_options: Mapping[str, Any]) -> Store:
        key = location, msgspec.json.encode(storage_options, enc_hook=str, order="sorted")
        if key not in self._stores:
            self._stores[key] = KeptStore(open_store(location, storage_options), self)
        return self._stores[key]

    def look(self) -> None:
        """Begin a new look: listings, and files that can change, are read again."""
        for store in self._stores.values():
            store.forget()

    def keep(self, key: tuple[str, str], content: bytes) -> None:
        self._bytes += len(content) - len(self._contents.pop(key, b""))
        self._contents[key] = content
        while self._bytes > MOST_KEPT_BYTES:
            self._bytes -= len(self._contents.popitem(last=False)[1])

    def kept(self, key: tuple[str, str]) -> bytes | None:
        if key in self._contents:
            self._contents.move_to_end(key)
        return self._contents.get(key)

    def drop(self, location: str, folder: str) -> None:
        for key in [key for key in self._contents if key[0] == location and key[1].startswith(f"{folder}/")]:
            self._bytes -= len(self._contents.pop(key))


class KeptStore(Store):
    """A store of KeptStores; refuses to write."""

    def __init__(self, inner: Store, stores: KeptStores) -> None:
        self.location = inner.location
        self._inner = inner
        self._stores = stores
        self._lists: dict[str, list[str]] = {}
        self._read: set[str] = set()
        # Batches of the offset log that were read when two newer ones existed.
        self._settled: set[str] = set()
        self._newest_offset = -1

    def forget(self) -> None:
        self._lists.clear()
        self._read.clear()

    def read(self, name: str, limit: int | None = None) -> bytes:
        key = self.location, name
        kept = self._stores.kept(key)
        if kept is not None and (name in self._read or self._is_final(name)):
            return kept
        try:
            content = self._inner.read(name, limit)
        except MissingStateError:
            self._lists.clear()  # so that the caller sees whether clean-up has removed it
            raise
        if name.startswith(f"{OFFSETS}/"):
            if kept not in (None, content):  # the end of the log was deleted, and written again
                self._forget_offsets()
            newest = sorted(map(int, filter(str.isdigit, self.list(OFFSETS))), reverse=True)
            if name not in [f"{OFFSETS}/{number}" for number in newest[:2]]:
                self._settled.add(name)
        self._stores.keep(key, content)
        self._read.add(name)
        return content

    def list(self, folder: str) -> list[str]:
        if folder not in self._lists:
            listed = self._lists[folder] = self._inner.list(folder)
            if folder == OFFSETS:
                newest = max(map(int, filter(str.isdigit, listed)), default=-1)
                if newest < self._newest_offset:  # the log was deleted; what is there now may be another one
                    self._forget_offsets()
                self._newest_offset = newest
        return self._lists[folder]

    def _forget_offsets(self) -> None:
        self._stores.drop(self.location, OFFSETS)
        self._settled.clear()

    def exists(self) -> bool:
        return self._inner.exists()

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> NoReturn:
        raise AssertionError(f"looking writes {name}")

    def replace(self, name: str, data: bytes) -> NoReturn:
        raise AssertionError(f"looking writes {name}")

    def delete(self, name: str) -> NoReturn:
        raise AssertionError(f"looking deletes {name}")

    def _is_final(self, name: str) -> bool:
        """Whether the file cannot have changed."""
        folder = name.rpartition("/")[0]
        return name in self._settled if folder == OFFSETS else folder.rpartition("/")[2] in _FINAL
