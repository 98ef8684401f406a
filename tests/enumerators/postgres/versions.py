"""The versions of PostgreSQL that tests run on."""

from __future__ import annotations

import importlib.util

import pytest

from tests.postgres_server import NEWEST, WHEELS

OLDER = pytest.param(
    16,
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif(
            importlib.util.find_spec(WHEELS[16]) is None, reason="PostgreSQL 16 has no wheel for this Python"
        ),
    ],
)

ON_EACH_VERSION = pytest.mark.parametrize("shop", [NEWEST, OLDER], indirect=True)
"""Run a test of a shop on PostgreSQL 16 too."""
