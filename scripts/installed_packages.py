"""The packages of this environment that others require, directly or indirectly."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[1]


def installed(name: str) -> Distribution:
    """A package that this Python imports; a checkout in the import path has metadata of its own.

    Raises:
        PackageNotFoundError: it is not installed.
    """
    path = [entry for entry in sys.path if Path(entry).resolve() != CHECKOUT]
    found = next(iter(distributions(name=name, path=path)), None)
    if found is None:
        raise PackageNotFoundError(name)
    return found


def required(requirements: Iterable[Requirement]) -> dict[str, Distribution]:
    """These packages and all that they require, by their canonical names.

    Raises:
        PackageNotFoundError: one of them is not installed.
    """
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    wanted = list(requirements)
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        for extra in sorted(requirement.extras) or [""]:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            found[name] = installed(name)
            wanted += (
                needed
                for needed in map(Requirement, found[name].requires or ())
                if needed.marker is None or needed.marker.evaluate({"extra": extra})
            )
    return found
