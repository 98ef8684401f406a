"""How the tests judge a defect that was put back; in two files, so that two processes share the work."""

from __future__ import annotations

from .simulation import simulate

MOST_SEEDS = 1000
"""A defect has to be found within this many seeds."""


def assert_found(life: str | None, act: str = "") -> None:
    """Simulate until a defect is found; with ``act``, one that is seen after this act of an administrator."""
    defects = (simulate(seed, life).defect for seed in range(MOST_SEEDS))
    shown = f"after ['{act}']" if act else ""
    defect = next((found for found in defects if found and found.endswith(shown)), None)
    assert defect is not None, f"none of {MOST_SEEDS} seeds shows it"
    assert not defect.startswith(("AttributeError", "TypeError")), f"it no longer fits the code: {defect}"
