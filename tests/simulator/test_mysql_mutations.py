"""Defects of the mysql source are found, and without them no life of it shows a defect."""

from __future__ import annotations

import pytest

from tests.mutating import Patch
from tests.simulator.mysql_mutations import MYSQL_MUTATIONS
from tests.simulator.put_back import assert_found
from tests.simulator.simulation import simulate


@pytest.mark.slow  # a test of the simulator
@pytest.mark.parametrize("put_back", MYSQL_MUTATIONS)
def test_a_defect_that_was_put_in_is_found(put_back: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    put_back(monkeypatch)
    assert_found("mysql")


@pytest.mark.slow
def test_a_life_of_mysql_is_the_same_every_time_without_a_defect() -> None:
    for seed in range(10):
        first, second = simulate(seed, "mysql"), simulate(seed, "mysql")
        assert (first.defect, first.story) == (None, second.story)
