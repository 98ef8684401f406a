"""Queries on random APIs: whatever happens to an endpoint, each record is read once, or the query stops."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import msgspec
import pytest

from flip27_source.enumerators.http_api.enumerator import HttpEnumerator, HttpSplit
from flip27_source.errors import AccessError
from tests.http_api import Cuts, Fails, HangsUp, HttpApi, Misbehaviour, Repeats, Says, http_api
from tests.readers.http_api.reading import ENDLESS, KINDS, Share, read, records, split_of

SEEDS = range(*map(int, os.environ.get("FLIP27_HTTP_LIVES", "0:50").split(":")))
"""``FLIP27_HTTP_LIVES=1000:2000`` plays others."""

ODD: tuple[Callable[[], Misbehaviour], ...] = (
    Fails, HangsUp, Cuts, Repeats,
    lambda: Cuts("chunked"),
    lambda: Cuts("close"),
    lambda: Says(b"<html>maintenance</html>", headers=(("Content-Type", "text/html"),)),
    lambda: Says(b""),
    lambda: Says(b'{"error": "maintenance"}'),
    lambda: Says(b'{"error": "maintenance"}', framing="close"),
    lambda: Says(b'"down"', framing="chunked"),
    lambda: Says(b'[{"id": 1, "at": "2026"', framing="close"),
)  # fmt: skip
"""One wrong answer, after which the API is right again."""

NUMBERED = ("page", "strict_page", "sized_page")
FIRST_IS_NOTICED = (*NUMBERED, "cursor", "link", "body_link", "none", *ENDLESS)
"""Ways of paging in which records that come before those that were read are noticed at the end of the API."""


class Life:
    """An endpoint, what happens to it, and a query that is restarted after each batch."""

    def __init__(self, api: HttpApi, seed: int) -> None:
        self.random = random.Random(seed)
        self.api = api
        self.kind = self.random.choice([*KINDS, *ENDLESS])
        self.options = {"idField": "id"} if self.random.random() < 0.5 else {}
        if self.kind == "since_without_ids":
            self.options = {}
        self.checks = self.random.random() < 0.7
        self.position: HttpSplit = split_of(api, self.kind)
        self.found: list[int] = []
        self.ends: list[tuple[HttpSplit, int]] = []
        self.told: list[str] = [self.kind, *self.options]
        api.records = records(*range(self.random.randint(0, 20)))
        api.page_size = 4
        api.misbehaviours.clear()

    def play(self) -> None:
        for _ in range(self.random.randint(2, 8)):
            self.arrive()
            self.restart()
            self.edit()
            self.trouble()
            self.batch()
        self.rest()
        assert self.found == list(range(len(self.api.records))), self.story

    def arrive(self) -> None:
        count = self.random.choice((0, 0, 1, 2, 5))
        first = len(self.api.records)
        self.api.records += records(*range(first, first + count))
        self.tell(f"{count} records arrive")

    def restart(self) -> None:
        """Options and the server's page size may be others in the next run."""
        # Pages of since have to be larger than the number of records with one time.
        if self.random.random() < 0.4 and self.kind not in ENDLESS:
            self.api.page_size = self.random.choice((3, 4, 5, 9) if "since" in self.kind else (1, 2, 3, 4, 7))
        if self.kind == "sized_page" and self.random.random() < 0.5:
            self.options["pageSize"] = str(self.random.randint(1, 9))
        if "since" in self.kind:
            self.options["pageSize"] = str(self.api.page_size)
        # Without checks, the page size of a server that nobody has told is not noticed.
        knows_size = self.kind not in NUMBERED or self.kind == "sized_page"
        self.checks = self.random.random() < 0.7 if knows_size else True
        self.options["checkRecords"] = str(self.checks).lower()
        self.tell(f"restart with pages of {self.api.page_size} and {self.options}")

    def edit(self) -> None:
        """``flip27 edit set-position`` to the end of an earlier batch."""
        # A page has another number by now if pages had another size then.
        ends = [end for end in self.ends if end[0].page_size == self.position.page_size]
        if ends and "since" not in self.kind and self.kind not in NUMBERED[:2] and self.random.random() < 0.3:
            then, rows = self.random.choice(ends)
            now = msgspec.to_builtins(self.position)
            fields = HttpEnumerator.completed_position({"at": then.at, "taken": then.taken}, now)
            self.position = msgspec.convert({**now, **fields}, HttpSplit)
            del self.found[rows:]
            self.ends = [end for end in self.ends if end[1] <= rows]
            self.tell(f"back to {then.at} after {then.taken} records, after {rows} rows")

    def trouble(self) -> None:
        if self.random.random() < 0.5:
            after = self.random.randint(0, 4)
            how = self.random.choice(ODD)()
            if isinstance(how, Repeats) and not self.checks:
                return
            self.api.misbehaves(*[None] * after, how)
            self.tell(f"after {after} requests {how}")

    def batch(self) -> None:
        """A batch, which may be read twice."""
        start = self.position
        pages = self.random.choice((1, 1, 2, None))
        share = self.read(start, pages=pages)
        self.tell(f"batch of {share.ids}")
        self.found += share.ids
        if not share.marks:
            return
        assert share.position is not None
        self.position = share.position
        self.ends.append((self.position, len(self.found)))
        if self.random.random() < 0.4:
            self.arrive()
            self.restart()
            self.trouble()
            again = self.read(start, end=self.position)
            self.tell(f"read again: {again.ids}")
            assert (again.ids, again.position) == (share.ids, self.position), self.story

    def rest(self) -> None:
        """Read until there is nothing more."""
        for _ in range(100):
            share = self.read(self.position)
            self.found += share.ids
            if not share.marks:
                return
            assert share.position is not None
            self.position = share.position
        raise AssertionError(f"no end: {self.story}")

    def read(self, split: HttpSplit, **how: object) -> Share:
        repeats = any(isinstance(one, Repeats) for one in self.api.misbehaviours)
        try:
            return read(self.api, self.kind, split, **how, **self.options)  # type: ignore[arg-type]
        except AccessError:
            # A page in place of the one with the last record looks like records that have moved.
            if not repeats:
                raise
            return read(self.api, self.kind, split, **how, **self.options)  # type: ignore[arg-type]
        finally:
            self.api.misbehaviours.clear()
            self.api.last_answer = None

    def tell(self, what: str) -> None:
        self.told.append(what)

    @property
    def story(self) -> str:
        return "; ".join(self.told)


class LifeOfChanges(Life):
    """The API also moves records that were read."""

    def play(self) -> None:
        self.options.pop("pageSize", None)
        self.rest()
        gone = self.change()
        try:
            self.rest()
        except AccessError:
            return
        wanted = [record["id"] for record in self.api.records]
        assert sorted({*self.found} - gone) == sorted(wanted), (self.found, self.story)
        assert len(self.found) == len({*self.found}), (self.found, self.story)

    def change(self) -> set[int]:
        """Returns the ids of records that were removed."""
        count = self.next_id = len(self.api.records)
        gone: set[int] = set()
        if self.kind in NUMBERED and count and self.random.random() < 0.5:
            gone = {self.api.records.pop(self.random.randrange(count))["id"]}
        elif self.kind in FIRST_IS_NOTICED:
            for number in range(self.random.randint(1, 6)):
                self.api.records.insert(0, records(100 + number)[0])
        self.arrive()
        # Two changes at once can bring the last record to a place where it would also be without them.
        if self.random.random() < 0.3 and self.kind not in (*NUMBERED, *ENDLESS):
            self.api.page_size = self.random.choice((1, 2, 3, 5, 7)) if "since" not in self.kind else 5
        self.tell(f"now {[record['id'] for record in self.api.records]} in pages of {self.api.page_size}")
        return gone

    def arrive(self) -> None:
        count = self.random.choice((0, 1, 3))
        self.api.records += records(*range(self.next_id, self.next_id + count))


@pytest.fixture(scope="module")
def running() -> Iterator[HttpApi]:
    with http_api() as api:
        yield api


@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_is_read_once_whatever_happens_to_the_api(running: HttpApi, seed: int) -> None:
    Life(running, seed).play()


@pytest.mark.parametrize("seed", SEEDS)
def test_records_that_the_api_moves_are_read_once_or_stop_the_query(running: HttpApi, seed: int) -> None:
    LifeOfChanges(running, seed).play()
