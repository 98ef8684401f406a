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
        self._check_alive()
        return self._store.read(name, limit)

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        self._check_alive()
        self._before()
        created = self._store.create(name, data, exclusive=exclusive)
        self._after()
        return created

    def check_exclusive(self, name: str, data: bytes) -> None:
        self._check_alive()
        self._store.check_exclusive(name, data)

    def replace(self, name: str, data: bytes) -> None:
        self._check_alive()
        self._before()
        self._store.replace(name, data)
        self._after()

    def list(self, folder: str) -> list[str]:
        self._check_alive()
        return self._store.list(folder)

    def delete(self, name: str) -> None:
        self._check_alive()
        self._store.delete(name)

    def make_durable(self, name: str) -> None:
        self._check_alive()
        self._store.make_durable(name)

    def remove_empty(self, folder: str) -> None:
        self._check_alive()
        self._store.remove_empty(folder)

    def remove_abandoned(self, folder: str, *, older_than_s: float = ABANDONED_AFTER_S) -> int:
        self._check_alive()
        return self._store.remove_abandoned(folder, older_than_s=older_than_s)

    def check_inside(self, name: str) -> None:
        self._check_alive()
        self._store.check_inside(name)

    def _check_alive(self) -> None:
        if self._dead:
            raise Killed("a call of a dead process to its store")
