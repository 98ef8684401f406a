"""WatchedStore: a store as seen by one process. Writes are steps; calls of a dead process have no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..snapshots.store import Store
from .steps import Killed


def _passed_on(name: str) -> Any:
    def call(self: WatchedStore, *arguments: Any, **more: Any) -> Any:
        return getattr(self._living, name)(*arguments, **more)

    return call


class WatchedStore(Store):
    """Passes calls to ``store``, and calls back before and after every write.

    Args:
        before, after: called around every write; may raise Killed.
    """

    def __init__(self, store: Store, before: Callable[[], None], after: Callable[[], None]) -> None:
        self.location = store.location
        self._store = store
        self._before = before
        self._after = after
        self._dead = False

    def kill(self) -> None:
        """The process is dead: its clean-up code no longer has an effect."""
        self._dead = True

    read = _passed_on("read")
    exists = _passed_on("exists")
    list = _passed_on("list")
    delete = _passed_on("delete")
    check_exclusive = _passed_on("check_exclusive")
    check_inside = _passed_on("check_inside")
    make_durable = _passed_on("make_durable")
    remove_empty = _passed_on("remove_empty")
    remove_abandoned = _passed_on("remove_abandoned")

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        store = self._living
        self._before()
        created = store.create(name, data, exclusive=exclusive)
        self._after()
        return created

    def replace(self, name: str, data: bytes) -> None:
        store = self._living
        self._before()
        store.replace(name, data)
        self._after()

    @property
    def _living(self) -> Store:
        """The store, unless the process is dead."""
        if self._dead:
            raise Killed("a call of a dead process to its store")
        return self._store
