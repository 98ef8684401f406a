"""Fixtures of the simulator's tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    log = logging.getLogger("flip27_source")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)
