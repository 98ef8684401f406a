"""I1-I14 in every order of moves: exhaustive up to a length, and at random beyond it.

    FLIP27_MODEL=long python -m pytest tests/model

explores every move, to length 8 with pieces that are read whole and 7 with paged ones, and plays long
random games, which takes some twenty minutes. Without the variable, `make test` explores to lengths of 4 to
6, and `make test-long` explores further.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flip27_source.coordination.batch_limits import Limits
from tests.model.exploring import explore, replay, undisturbed
from tests.model.invariants import broken
from tests.model.protocol_model import World

LONG = os.environ.get("FLIP27_MODEL") == "long"

NAMED = "T e1 r0 A0 A1 X C F0 D Z"
"""The most common moves: trigger and freeze, an event in either direction, reports, abort, completion, task
failure, a crash of the driver with its restart, a stale driver."""

ALL = "T X K G Q H C N D Z L e0 e1 r0 r1 A0 A1 F0 F1"

CRASHES = "T e1 A1 A0 C N D K"
ATTEMPTS = "T A0 A1 F0 L D C"


@pytest.mark.parametrize(
    ("kind", "moves", "length"),
    [
        pytest.param("whole", NAMED, 5, id="whole-named"),
        pytest.param("whole", NAMED, 8 if LONG else 7, id="whole-named-7", marks=pytest.mark.long),
        pytest.param("paged", NAMED, 8 if LONG else 5, id="paged-named"),
        pytest.param("paged", NAMED, 6, id="paged-named-6", marks=pytest.mark.long),
        pytest.param("whole", ALL, 8 if LONG else 4, id="whole-all"),
        pytest.param("whole", ALL, 5, id="whole-all-5", marks=pytest.mark.long),
        pytest.param("paged", ALL, 7 if LONG else 4, id="paged-all"),
        pytest.param("paged", ALL, 5, id="paged-all-5", marks=pytest.mark.long),
        pytest.param("whole", CRASHES, 6, id="whole-crashes"),
        pytest.param("whole", CRASHES, 8, id="whole-crashes-8", marks=pytest.mark.long),
        pytest.param("paged", ATTEMPTS, 6, id="paged-attempts"),
        pytest.param("paged", ATTEMPTS, 8, id="paged-attempts-8", marks=pytest.mark.long),
    ],
)
def test_the_invariants_hold_in_every_order_of_moves_I1_I14(kind: str, moves: str, length: int) -> None:
    found = explore(World(kind), moves.split(), length)
    assert found.broken is None, f"{' '.join(found.order)}: {found.broken}"
    print(f"{kind}: {found.orders} orders up to {length}, {found.worlds} worlds, {found.steps} steps")  # noqa: T201


@pytest.mark.slow
@pytest.mark.parametrize("length", [5, pytest.param(9 if LONG else 6, marks=pytest.mark.long)])
def test_an_edit_is_in_one_checkpoint_in_every_order_of_moves(length: int) -> None:
    world = World()
    assert replay(world, ["T", "A0", "A1", "C"]) == {}
    found = explore(world, ["S", "W", "T", "A0", "A1", "C", "X", "D", "K", "H", "Z"], length)
    assert found.broken is None, f"{' '.join(found.order)}: {found.broken}"
    print(f"edits: {found.orders} orders, {found.worlds} worlds, {found.steps} steps")  # noqa: T201


class Games(RuleBasedStateMachine):
    """Random games: more subtasks, limits, and pieces that cannot be read; any legal move at any time."""

    @initialize(
        kind=st.sampled_from(["whole", "paged", "quarantine"]),
        subtasks=st.integers(2, 4),
        files=st.sampled_from([None, None, 1, 2]),
    )
    def begin(self, kind: str, subtasks: int, files: int | None) -> None:
        self.world = World(kind, subtasks=subtasks, limits=Limits(files=files))

    def play(self, move: str) -> None:
        with undisturbed():
            step = self.world.play(move)
            assert broken(self.world, step) == {}, move

    def play_one_of(self, moves: list[str], which: int) -> None:
        legal = self.world.legal(moves)
        if legal:
            self.play(legal[which % len(legal)])

    @rule(which=st.integers(0, 3))
    def event(self, which: int) -> None:
        self.play_one_of([f"e{i}" for i in range(self.world.subtasks)], which)

    @precondition(lambda self: self.world.running)
    @rule(what=st.sampled_from("rAF"), which=st.integers(0, 3))
    def attempt(self, what: str, which: int) -> None:
        self.play_one_of([f"{what}{i}" for i in sorted(self.world.running)], which)

    @precondition(lambda self: not self.world.pending)
    @rule()
    def trigger(self) -> None:
        self.play("T")

    @precondition(lambda self: self.world.pending)
    @rule()
    def rest_of_the_batch(self) -> None:
        while going := [i for i, attempt in sorted(self.world.running.items()) if not attempt.ended]:
            self.play(f"A{going[0]}")
        self.play("C")

    @precondition(lambda self: self.world.chain or self.world.pending)
    @rule(which=st.integers(0, 8))
    def trouble(self, which: int) -> None:
        self.play_one_of(list("XKDZLNGQH"), which)


Games.TestCase.settings = settings(
    max_examples=3000 if LONG else 40,
    stateful_step_count=80 if LONG else 40,
    derandomize=not LONG,
    database=None,
    suppress_health_check=list(HealthCheck),
)
test_the_invariants_hold_in_long_games_of_random_moves = Games.TestCase
