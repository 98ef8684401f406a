"""Defects of PostgreSQL that were put back are found."""

from __future__ import annotations

import pytest

from tests.mutating import Patch
from tests.simulator.postgres_mutations import POSTGRES_MUTATIONS, SNAPSHOT_MUTATIONS
from tests.simulator.put_back import assert_found

_PUT_BACK = [
    *(("postgres", patch, act) for patch, act in POSTGRES_MUTATIONS),
    *(("snapshot", patch, act) for patch, act in SNAPSHOT_MUTATIONS),
]
_NAMES = ["-".join(filter(None, (patch.__name__, act))) for _, patch, act in _PUT_BACK]


@pytest.mark.slow  # a test of the simulator
@pytest.mark.parametrize(("life", "put_back", "act"), _PUT_BACK, ids=_NAMES)
def test_a_reintroduced_defect_is_found(
    life: str, put_back: Patch, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(monkeypatch)
    assert_found(life, act)
