"""Defects that were put back are found, except those of PostgreSQL."""

from __future__ import annotations

import pytest

from tests.mutating import Patch
from tests.simulator.mutations import LIVES, MUTATIONS
from tests.simulator.put_back import assert_found


@pytest.mark.slow  # a test of the simulator
@pytest.mark.parametrize("put_back", MUTATIONS, ids=lambda patch: patch.__name__)
def test_a_reintroduced_defect_is_found(put_back: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    put_back(monkeypatch)
    assert_found(LIVES.get(put_back))
