"""The laws of stores, and ``check_store``: the guarantees of the five calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ..errors import MissingStateError
from ..snapshots.store import Store
from .law import Disagreement, Law, TrivialInput, agree, enforce

RACERS = 8
"""Number of threads that create the same name at the same time."""
RACES = 5
LARGE = bytes(range(256)) * 4096
"""A megabyte that contains every byte value."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUnderTest:
    """Creates stores at empty locations."""

    make_store: Callable[[], Store]
    reopen: Callable[[Store], Store] | None

    def empty(self) -> Store:
        """A store at a new empty location."""
        store = self.make_store()
        for folder in ("folder", "other", "folder-2"):
            if names := store.list(folder):
                raise TrivialInput(
                    f"make_store returned a store that holds {names[:3]} in {folder!r}: return a store at "
                    "an empty location at every call"
                )
        return store


def _what_is_created_is_read_back(subject: StoreUnderTest) -> None:
    store = subject.empty()
    contents = {
        "folder/a": b"{}",
        "folder/empty": b"",
        "folder/large.bin": LARGE,
        "folder/deep/er/b": b"\x00",
    }
    for name, data in contents.items():
        agree(f"create({name!r}) of a new name", store.create(name, data), True)
    for name, data in contents.items():
        if store.read(name) != data:
            raise Disagreement(f"read({name!r}) returns {store.read(name)[:50]!r}..., not the created data")


def _a_missing_name_is_missing(subject: StoreUnderTest) -> None:
    store = subject.empty()
    _expect_missing(store, "folder/a")
    store.create("folder/a", b"1")
    _expect_missing(store, "folder/b")
    _expect_missing(store, "other/a")
    store.delete("folder/a")
    _expect_missing(store, "folder/a")


def _create_keeps_what_is_there(subject: StoreUnderTest) -> None:
    store = subject.empty()
    store.create("folder/a", b"first")
    agree("create of an existing name", store.create("folder/a", b"second"), False)
    agree("its content", store.read("folder/a"), b"first")


def _exclusive_create_keeps_what_is_there(subject: StoreUnderTest) -> None:
    store = subject.empty()
    agree("exclusive create of a new name", store.create("folder/a", b"first", exclusive=True), True)
    agree("exclusive create of it again", store.create("folder/a", b"first", exclusive=True), False)
    agree("exclusive create with other data", store.create("folder/a", b"second", exclusive=True), False)
    agree("its content", store.read("folder/a"), b"first")


def _exactly_one_creates(subject: StoreUnderTest) -> None:
    store = subject.empty()
    for race in range(RACES):
        name = f"folder/race-{race}"
        stores = [store if subject.reopen is None else subject.reopen(store) for _ in range(RACERS)]

        def create(racer: int, name: str = name, stores: list[Store] = stores) -> bool:
            return stores[racer].create(name, _data_of(racer), exclusive=True)

        winners = [racer for racer, was_first in enumerate(_at_once(create)) if was_first]
        if len(winners) != 1:
            raise Disagreement(f"{len(winners)} of {RACERS} creators of {name!r} got True")
        if store.read(name) != _data_of(winners[0]):
            raise Disagreement(f"{name!r} does not hold the data of its creator")


def _replace_writes_in_any_case(subject: StoreUnderTest) -> None:
    store = subject.empty()
    store.replace("folder/a", b"first")
    agree("read after replace of a new name", store.read("folder/a"), b"first")
    store.replace("folder/a", b"2")
    agree("read after replace", store.read("folder/a"), b"2")
    agree("create after replace", store.create("folder/a", b"third"), False)


def _list_gives_the_names_in_a_folder(subject: StoreUnderTest) -> None:
    store = subject.empty()
    agree("list of a missing folder", store.list("folder"), [])
    for name in ("folder/b", "folder/a", "folder/10-c.json", "folder/sub/d", "folder-2/e", "other/folder/f"):
        store.create(name, b"x")
        folder, _, last = name.rpartition("/")
        if last not in store.list(folder):
            raise Disagreement(f"{name!r} was created and list({folder!r}) is {store.list(folder)}")
    agree("list('folder')", store.list("folder"), ["10-c.json", "a", "b", "sub"])
    agree("list('folder/sub')", store.list("folder/sub"), ["d"])
    agree("list('other')", store.list("other"), ["folder"])


def _delete_is_idempotent(subject: StoreUnderTest) -> None:
    store = subject.empty()
    store.create("folder/a", b"1")
    store.create("folder/b", b"2")
    for _ in range(2):
        store.delete("folder/a")
        agree("list after delete", store.list("folder"), ["b"])
    store.delete("folder/never")
    store.delete("other/never")
    agree("create after delete", store.create("folder/a", b"anew"), True)
    agree("its content after that", store.read("folder/a"), b"anew")


def _nothing_half_written_is_seen(subject: StoreUnderTest) -> None:
    store = subject.empty()
    versions = [bytes([number]) * 300_000 for number in range(4)]
    store.replace("folder/a", versions[0])
    seen: list[bytes] = []
    written = threading.Event()

    def write() -> None:
        try:
            for number in range(8):
                store.replace("folder/a", versions[number % 4])
                store.create(f"folder/new-{number}", versions[number % 4])
        finally:
            written.set()

    def read() -> None:
        while not written.is_set():
            seen.extend(store.read(f"folder/{name}") for name in store.list("folder"))

    _at_once(lambda number: write() if number == 0 else read(), 3)
    for data in seen:
        if data not in versions:
            raise Disagreement(f"a reader saw {len(data)} bytes that no write contained")
    agree("the names in the folder", store.list("folder"), ["a", *(f"new-{number}" for number in range(8))])


def _others_see_it_at_once(subject: StoreUnderTest) -> None:
    if subject.reopen is None:
        return
    store = subject.empty()
    other = subject.reopen(store)
    agree("list of a second store at the same location, before", other.list("folder"), [])
    store.create("folder/a", b"1")
    agree("its list after create", other.list("folder"), ["a"])
    agree("its read after create", other.read("folder/a"), b"1")
    agree("its create of that name", other.create("folder/a", b"2"), False)
    other.replace("folder/a", b"3")
    agree("read after the other's replace", store.read("folder/a"), b"3")
    other.delete("folder/a")
    _expect_missing(store, "folder/a")
    agree("list after the other's delete", store.list("folder"), [])


def _a_listing_hides_nothing(subject: StoreUnderTest) -> None:
    """What a store has listed or missed must not come from a memory of it: others write, too."""
    if subject.reopen is None:
        return
    store = subject.empty()
    other = subject.reopen(store)
    other.create("folder/a", b"1")
    agree("list of a second store at the same location", store.list("folder"), ["a"])
    agree("list of its root", store.list(""), ["folder"])
    _expect_missing(store, "folder/b")
    other.create("folder/b", b"2")
    other.create("other/c", b"3")
    agree("read of a name created since its folder was listed", store.read("folder/b"), b"2")
    agree("list of the root since then", store.list(""), ["folder", "other"])
    other.replace("folder/a", b"1, but longer")
    agree("read of a name replaced since its folder was listed", store.read("folder/a"), b"1, but longer")
    other.delete("folder/a")
    _expect_missing(store, "folder/a")
    agree("create of a name deleted since then", store.create("folder/a", b"4"), True)


STORE_LAWS: tuple[Law[StoreUnderTest], ...] = (
    Law("created data is read back byte for byte", _what_is_created_is_read_back),
    Law("reading a missing name raises a MissingStateError that names it", _a_missing_name_is_missing),
    Law("create keeps existing data and returns False", _create_keeps_what_is_there),
    Law("replace writes whether or not the name exists", _replace_writes_in_any_case),
    Law("list returns the names directly in a folder, sorted", _list_gives_the_names_in_a_folder),
    Law("deleting is idempotent and leaves nothing", _delete_is_idempotent),
    Law("a second store at the same location sees every change at once", _others_see_it_at_once),
    Law("a listing hides nothing that another process writes after it", _a_listing_hides_nothing),
)
"""Laws of every store."""

WHOLE_LAWS: tuple[Law[StoreUnderTest], ...] = (
    Law("a reader sees all of a file or nothing", _nothing_half_written_is_seen),
)
"""Laws of every store that is used by more than one thread or process."""

EXCLUSIVE_LAWS: tuple[Law[StoreUnderTest], ...] = (
    Law("exclusive create keeps existing data and returns False", _exclusive_create_keeps_what_is_there),
    Law("of several concurrent creators of a name exactly one gets True", _exactly_one_creates),
)
"""Laws of stores that hold reports (rule R5)."""


def check_store(
    make_store: Callable[[], Store], *, reopen: Callable[[Store], Store] | None = None, shared: bool = True
) -> None:
    """Check that a store keeps the laws of stores.

    Args:
        make_store: returns a store at an empty location, a new one at every call.
        reopen: returns a second store object at the location of a given one, as in another process.
        shared: whether the store supports more than one thread or process; reports of tasks need that.

    Raises:
        LawBroken: a law is broken; names the law and the finding.
        TrivialInput: the location is not empty.
    """
    laws = (*STORE_LAWS, *WHOLE_LAWS, *EXCLUSIVE_LAWS) if shared else STORE_LAWS
    enforce(laws, StoreUnderTest(make_store=make_store, reopen=reopen))


def _expect_missing(store: Store, name: str) -> None:
    try:
        data = store.read(name)
    except MissingStateError as error:
        if name not in str(error):
            raise Disagreement(f"the error does not name {name!r}: {error}") from None
        return
    raise Disagreement(f"read({name!r}) of a missing name returns {data[:50]!r}")


def _data_of(racer: int) -> bytes:
    return f"racer {racer} ".encode() * 100


def _at_once(work: Callable[[int], ResultT], threads: int = RACERS) -> list[ResultT]:
    """The results of ``work(0)``, ``work(1)``, ..., all started together."""
    together = threading.Barrier(threads)

    def run(number: int) -> ResultT:
        together.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))
