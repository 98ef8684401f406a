"""Stores for looking again and again: what is read again, and what is kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from flip27_source.errors import MissingStateError
from flip27_source.snapshots import kept_store
from flip27_source.snapshots.kept_store import KeptStores
from flip27_source.snapshots.store import LocalStore, Store

DOCUMENT = "a-0123456789abcdef/checkpoints/1-x.json"
DRIVER = "a-0123456789abcdef/drivers/1.json"


class Counting(LocalStore):
    """A store on disk that counts what is read and listed."""

    asked: Counter[str]

    def read(self, name: str, limit: int | None = None) -> bytes:
        self.asked[name] += 1
        return super().read(name, limit)

    def list(self, folder: str) -> list[str]:
        self.asked[f"{folder}/"] += 1
        return super().list(folder)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    store = Counting(str(tmp_path))
    store.asked = Counter()
    monkeypatch.setattr(kept_store, "open_store", lambda *_: store)
    return store


def look(stores: KeptStores) -> Store:
    stores.look()
    return stores.open("anywhere", {})


def test_what_never_changes_is_read_once_and_the_rest_once_for_each_look(disk: Counting) -> None:
    disk.create(DOCUMENT, b"1")
    disk.create(DRIVER, b"1")
    stores = KeptStores()
    for number in range(3):
        store = look(stores)
        disk.replace(DRIVER, b"%d" % number)
        for _ in range(2):
            assert store.read(DOCUMENT) == b"1"
            assert store.read(DRIVER) == b"%d" % number
            assert store.list("a-0123456789abcdef") == ["checkpoints", "drivers"]
    assert disk.asked == {DOCUMENT: 1, DRIVER: 3, "a-0123456789abcdef/": 3}


def test_the_content_that_is_kept_is_bounded_and_the_oldest_goes_first(
    disk: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_store, "MOST_KEPT_BYTES", 250)
    names = [f"a/segments/{number}" for number in range(3)]
    for name in names:
        disk.create(name, b"x" * 100)
    stores = KeptStores()
    for name in (*names, *names[1:], names[0]):
        look(stores).read(name)
    assert disk.asked == {names[0]: 2, names[1]: 1, names[2]: 1}


def test_after_a_file_was_missed_its_folder_is_listed_again(disk: Counting) -> None:
    disk.create(DOCUMENT, b"1")
    store = look(KeptStores())
    folder = DOCUMENT.rpartition("/")[0]
    assert store.list(folder) == ["1-x.json"]
    disk.delete(DOCUMENT)
    with pytest.raises(MissingStateError):
        store.read(DOCUMENT)
    assert store.list(folder) == []


def test_an_offset_log_whose_end_was_deleted_and_written_again_is_read_again(disk: Counting) -> None:
    for number in range(6):
        disk.create(f"offsets/{number}", b"old %d" % number)
    stores = KeptStores()

    def logged() -> list[str]:
        store = look(stores)
        return [store.read(f"offsets/{name}").decode().split()[0] for name in store.list("offsets")]

    assert logged() == ["old"] * 6
    disk.asked.clear()
    assert logged() == ["old"] * 6
    assert disk.asked == {"offsets/": 1, "offsets/4": 1, "offsets/5": 1}
    for number in range(3, 9):
        disk.replace(f"offsets/{number}", b"new %d" % number)
    assert logged()[-2:] == ["new"] * 2
    assert logged() == ["old"] * 3 + ["new"] * 6


def test_nothing_can_be_written(disk: Counting) -> None:
    store = look(KeptStores())
    for write in (store.create, store.replace):
        with pytest.raises(AssertionError, match="looking writes"):
            write(DOCUMENT, b"")
    with pytest.raises(AssertionError, match="looking deletes"):
        store.delete(DOCUMENT)
