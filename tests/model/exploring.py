"""Plays every order of moves up to a length, and explores each distinct world once.

If two orders lead to worlds with equal keys, only one of the worlds is explored further. A key contains
everything that a later move can depend on: Spark's two logs, the attempts that run or may still run, the
reports and their contents, and for each driver the whole memory of its coordinator (gateways, ledger,
actions, enumerator), its position and its epoch. A key leaves out copies of something in the key that are
found by a name made from their content (documents and their caches). It also leaves out documents that no
log, driver or attempt refers to: their names contain digests, so only writing the same bytes again can lead
to them. Worlds are explored in the order of the number of moves that lead to them, so each world is explored
from one of the shortest orders, with the most moves left.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from flip27_source.executor import retries
from tests.model.copies import KeyMaker, pickled, revived, shared_values
from tests.model.invariants import broken
from tests.model.observing import observe_gateways
from tests.model.protocol_model import World

IDLE_MOVES = "rF"
"""Moves that do not call the code under test, so they cannot break anything as the last move of an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of exploring.

    Attributes:
        worlds: the number of distinct worlds. steps: the number of moves that were made and checked.
        orders: the number of orders of moves that this covers, including the shorter ones.
        order: the moves that broke an invariant. broken: how they broke it, by invariant.
    """

    worlds: int
    steps: int
    orders: int
    order: tuple[str, ...] = ()
    broken: dict[str, str] | None = None


@dataclass(slots=True)
class _Met:
    """A world that was reached: a copy, one of the shortest orders that lead to it, and how many do so."""

    copy: bytes
    legal: list[str]
    order: tuple[str, ...]
    ways: int


def explore(world: World, moves: Sequence[str], length: int) -> Found:
    """Play every legal order of ``moves`` up to ``length``; stop at the first that breaks an invariant."""
    with undisturbed(), shared_values():
        return _explore(world, moves, length)


def _explore(world: World, moves: Sequence[str], length: int) -> Found:
    level = {key(world): _Met(pickled(world), world.legal(moves), (), 1)}
    seen = set(level)
    steps = orders = 0
    for left in reversed(range(length)):
        following: dict[bytes, _Met] = {}
        for met in level.values():
            for move in met.legal:
                if not left and move[0] in IDLE_MOVES:
                    orders += met.ways
                    continue
                at = revived(met.copy)
                step = at.play(move)
                steps += 1
                orders += met.ways
                order = (*met.order, move)
                if wrong := broken(at, step):
                    return Found(worlds=len(seen), steps=steps, orders=orders, order=order, broken=wrong)
                if not left:
                    continue
                name = key(at)
                if name in following:
                    following[name].ways += met.ways
                elif name not in seen:
                    seen.add(name)
                    following[name] = _Met(pickled(at), at.legal(moves), order, met.ways)
        level = following
        # What is kept now is kept to the end, so garbage collection need not look at it again.
        gc.freeze()
    return Found(worlds=len(seen), steps=steps, orders=orders)


def replay(world: World, order: Iterable[str]) -> dict[str, str]:
    """Play an order without its illegal moves; return what the first step that breaks an invariant breaks."""
    with undisturbed():
        for move in order:
            if world.is_legal(move) and (wrong := broken(world, world.play(move))):
                return wrong
    return {}


_LINEAGE = re.compile(rb"-[0-9a-f]{16}(?=/)")


def key(world: World) -> bytes:
    """A key that is equal for worlds that can no longer behave differently."""
    referred = _referred(world)
    buffer = io.BytesIO()
    maker = KeyMaker(buffer, protocol=5)
    maker.fast = True
    maker.dump(
        (
            [offset["state"].get("file") for offset in (world.committed, world.logged, *world.zombie_at)],
            sorted(world.running.items()),
            world.late,
            [item for item in sorted(world.first.items()) if item[0][0] in referred],
            [item for item in sorted(world.tags.items()) if any(item[0][0] in file for file in referred)],
            [world.delivered.get(attempt.key) for attempt in world.running.values()],
            [item for item in sorted(world.files.files.items()) if _is_read(item[0], referred)],
            world.frozen,
            sorted(world.held),
            sorted(world.performed),
            world.asked,
            world.older_poll is None,
            world.holder,
            world.zombie,
        )
    )
    # Lineages are numbered in the order in which they were made; the numbers themselves do not matter.
    names: dict[bytes, bytes] = {}
    data = _LINEAGE.sub(lambda m: names.setdefault(m[0], b"-%016d" % len(names)), buffer.getvalue())
    return hashlib.blake2b(data, digest_size=16).digest()


def _referred(world: World) -> set[str]:
    """The documents that a log or an attempt refers to."""
    offsets = [world.committed, world.logged, *world.zombie_at]
    files = {str(offset["state"].get("file")) for offset in offsets}
    files |= {attempt.doc.file for attempt in (*world.late, *world.running.values())}
    return files - {"None"}


def _is_read(file: str, referred: set[str]) -> bool:
    """Whether a file is a request, or a report of a document that is referred to."""
    lineage, _, rest = file.partition("/")
    if rest.startswith("requests/"):
        return True
    if not rest.startswith("reports/"):
        return False
    name = rest.removeprefix("reports/").partition(".")[0]
    return f"{lineage}/checkpoints/{name}.json" in referred


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Observe the gateways, stop the clock, so that equal attempts write equal reports, and log little."""
    logger, rounds = logging.getLogger("flip27_source"), gc.get_threshold()
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    gc.set_threshold(50_000, 20, 100)  # there are very many objects and little garbage
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(retries, "time", _StandsStill)
            observe_gateways(patch)
            yield
    finally:
        logger.setLevel(level)
        gc.set_threshold(*rounds)
        gc.unfreeze()


class _StandsStill:
    @staticmethod
    def monotonic() -> float:
        return 0.0
