"""Kills drivers while files and state are in the cloud: a short ``make soak ARGS="--clouds 50"``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.clouds import CLOUDS, play

KILLS = 2


@pytest.mark.slow  # a short form of the soak
@pytest.mark.parametrize(
    "cloud", [pytest.param(cloud, marks=pytest.mark.long) if cloud == "gcs" else cloud for cloud in CLOUDS]
)
def test_killed_drivers_lose_and_duplicate_nothing_in_the_cloud(cloud: str, tmp_path: Path) -> None:
    outcome = play(cloud, tmp_path / cloud, kills=KILLS, seed=15)
    assert outcome.is_exact, f"{outcome}\n{outcome.misplaced[:10]}"
    assert outcome.kills == KILLS
    assert outcome.batches > 0
