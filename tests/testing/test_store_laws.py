"""Every law of stores fails for a store that breaks it.

``tests/file_systems/test_scenarios.py`` checks that the real stores keep the laws."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from flip27_source.snapshots.store import MemoryStore, Store
from flip27_source.testing import LawBroken, TrivialInput, check_store, laws
from flip27_source.testing.store_laws import RACERS


class CutsOff(MemoryStore):
    def read(self, name: str, limit: int | None = None) -> bytes:
        return super().read(name, limit)[:1000]


class GivesNothingForMissing(MemoryStore):
    def read(self, name: str, limit: int | None = None) -> bytes:
        return self.files.get(name, b"")


class CreatesOver(MemoryStore):
    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        self.replace(name, data)
        return True


class ReplacesOnlyWhatIsThere(MemoryStore):
    def replace(self, name: str, data: bytes) -> None:
        if name in self.files:
            super().replace(name, data)


class ListsLikeNames(MemoryStore):
    def list(self, folder: str) -> list[str]:
        return sorted({name.split("/")[-1] for name in self.files if name.startswith(folder)})


class DeletesOnce(MemoryStore):
    def delete(self, name: str) -> None:
        del self.files[name]


class RemembersLists(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.lists: dict[str, list[str]] = {}

    def list(self, folder: str) -> list[str]:
        return self.lists.setdefault(folder, super().list(folder))


class ReadsThroughLists(RemembersLists):
    """Lists a folder with names once, until it writes there itself; what was not listed does not exist."""

    def list(self, folder: str) -> list[str]:
        if not self.lists.get(folder):
            self.lists[folder] = MemoryStore.list(self, folder)
        return self.lists[folder]

    def read(self, name: str, limit: int | None = None) -> bytes:
        folder, _, last = name.rpartition("/")
        if last not in self.lists.get(folder, [last]):
            return super().read(f"{name} is not listed", limit)
        return super().read(name, limit)

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        self.lists.clear()
        return super().create(name, data, exclusive=exclusive)

    def replace(self, name: str, data: bytes) -> None:
        self.lists.clear()
        super().replace(name, data)

    def delete(self, name: str) -> None:
        self.lists.clear()
        super().delete(name)


class WritesInTwoParts(MemoryStore):
    """Shows the first half of a concurrent write to readers; writes on the main thread have no readers."""

    def __init__(self) -> None:
        super().__init__()
        self.half: bytes | None = None
        self.looked = threading.Event()

    def read(self, name: str, limit: int | None = None) -> bytes:
        data = super().read(name, limit)
        if data == self.half:
            self.looked.set()
        return data

    def replace(self, name: str, data: bytes) -> None:
        if threading.current_thread() is not threading.main_thread() and self.half is None:
            self.half = self.files[name] = data[: len(data) // 2]
            self.looked.wait(10)
        super().replace(name, data)


class IsExclusiveOnlyWhenAsked(MemoryStore):
    """Misunderstands ``exclusive`` and overwrites existing data."""

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        if exclusive:
            self.replace(name, data)
            return True
        return super().create(name, data)


class LooksThenWrites(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.looking = threading.Barrier(RACERS)

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        if name in self.files:
            return False
        if exclusive and threading.current_thread() is not threading.main_thread():
            self.looking.wait(10)
        self.files[name] = data
        return True


def same(store: Store) -> Store:
    return store


def with_its_own_lists(store: Store) -> Store:
    assert isinstance(store, RemembersLists)
    other = type(store)()
    other.files = store.files
    return other


BROKEN: dict[str, tuple[Callable[[], Store], Callable[[Store], Store]]] = {
    "created data is read back byte for byte": (CutsOff, same),
    "reading a missing name raises a MissingStateError that names it": (GivesNothingForMissing, same),
    "create keeps existing data and returns False": (CreatesOver, same),
    "replace writes whether or not the name exists": (ReplacesOnlyWhatIsThere, same),
    "list returns the names directly in a folder, sorted": (ListsLikeNames, same),
    "deleting is idempotent and leaves nothing": (DeletesOnce, same),
    "a second store at the same location sees every change at once": (MemoryStore, lambda _: MemoryStore()),
    "a listing hides nothing that another process writes after it": (ReadsThroughLists, with_its_own_lists),
    "a reader sees all of a file or nothing": (WritesInTwoParts, same),
    "exclusive create keeps existing data and returns False": (IsExclusiveOnlyWhenAsked, same),
    "of several concurrent creators of a name exactly one gets True": (LooksThenWrites, same),
}


@pytest.mark.parametrize("law", BROKEN)
def test_a_store_that_breaks_a_law_fails_with_the_name_of_the_law(law: str) -> None:
    make_store, reopen = BROKEN[law]
    with pytest.raises(LawBroken) as caught:
        check_store(make_store, reopen=reopen)
    assert caught.value.law == law
    assert law in str(caught.value)


def test_every_law_of_stores_has_an_example_that_breaks_it() -> None:
    assert set(BROKEN) == set(laws()["store"])


def test_a_cached_list_is_detected() -> None:
    with pytest.raises(LawBroken, match="was created and list"):
        check_store(RemembersLists, reopen=with_its_own_lists)


def test_a_store_that_is_not_empty_is_refused() -> None:
    store = MemoryStore()
    store.create("folder/a", b"")
    with pytest.raises(TrivialInput, match="empty location at every call"):
        check_store(lambda: store)


def test_the_memory_store_keeps_the_laws() -> None:
    check_store(MemoryStore, reopen=same)
