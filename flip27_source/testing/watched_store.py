"""WatchedStore: a store as seen by one process. Writes are steps; calls of a dead process have no effect."""

from __future__ import annotations

from collections.abc import Callable

from ..file_systems.durable_files import ABANDONED_AFTER_S
from ..snapshots.store import Store
from .steps import Killed


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

    def read(self, name: str, limit: int | None = None) -> bytes:
        return self._living.read(name, limit)

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        store = self._living
        self._before()
        created = store.create(name, data, exclusive=exclusive)
        self._after()
        return created

    def check_exclusive(self, name: str, data: bytes) -> None:
        self._living.check_exclusive(name, data)

    def replace(self, name: str, data: bytes) -> None:
        store = self._living
        self._before()
        store.replace(name, data)
        self._after()

    def list(self, folder: str) -> list[str]:
        return self._living.list(folder)

    def delete(self, name: str) -> None:
        self._living.delete(name)

    def make_durable(self, name: str) -> None:
        self._living.make_durable(name)

    def remove_empty(self, folder: str) -> None:
        self._living.remove_empty(folder)

    def remove_abandoned(self, folder: str, *, older_than_s: float = ABANDONED_AFTER_S) -> int:
        return self._living.remove_abandoned(folder, older_than_s=older_than_s)

    def check_inside(self, name: str) -> None:
        self._living.check_inside(name)

    @property
    def _living(self) -> Store:
        """The store, unless the process is dead."""
        if self._dead:
            raise Killed("a call of a dead process to its store")
        return self._store
