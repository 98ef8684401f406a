"""Aligned sources survive every fault, and defects that are put into them are found."""

from __future__ import annotations

import pytest

from tests.mutating import Patch
from tests.simulator.put_back import assert_found
from tests.simulator.simulation import simulate
from tests.simulator.tracks_mutations import TRACKS_MUTATIONS


def test_no_life_of_an_aligned_source_loses_or_duplicates_a_row() -> None:
    for seed in range(60):
        assert (seed, simulate(seed, "tracks").defect) == (seed, None)


def test_a_life_of_an_aligned_source_is_the_same_every_time() -> None:
    for seed in range(5):
        assert simulate(seed, "tracks").story == simulate(seed, "tracks").story


@pytest.mark.slow  # a test of the simulator
@pytest.mark.parametrize("put_in", TRACKS_MUTATIONS)
def test_a_defect_that_was_put_in_is_found(put_in: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch)
    assert_found("tracks")
