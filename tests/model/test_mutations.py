"""The check of every invariant fails when the code that keeps the invariant is broken on purpose."""

from __future__ import annotations

import pytest

from tests.model.exploring import Found, explore, replay
from tests.model.invariants import CHECKS
from tests.model.mutations import MUTATIONS, Mutation
from tests.model.protocol_model import World


def explored(mutation: Mutation) -> Found:
    world = World(mutation.kind)
    assert replay(world, mutation.begins.split()) == {}
    return explore(world, mutation.moves.split(), mutation.length)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_breaking_the_code_breaks_the_invariant(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    assert explored(mutation).broken is None
    mutation.patch(monkeypatch)
    found = explored(mutation)
    assert set(found.broken or ()) == mutation.breaks, f"{' '.join(found.order)}: {found.broken}"


def test_every_invariant_is_broken_by_some_mutation() -> None:
    assert set(CHECKS) == frozenset().union(*(mutation.breaks for mutation in MUTATIONS))
