"""Checks every source that is registered by an entry point."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import RegistryError
from ..registry import ENUMERATOR_GROUP, find_enumerator, registered_names
from .source_laws import check_source
from .under_test import GivenSource, under_test


def registered_sources(*, distribution: str | None = None) -> list[str]:
    """Names of the enumerators registered by installed packages, without the built-in ones.

    Args:
        distribution: only those of this package, by its name on PyPI.
    """
    return registered_names(ENUMERATOR_GROUP, distribution=distribution)


def check_registered_sources(
    examples: Mapping[str, GivenSource], *, distribution: str | None = None, fast: bool = False
) -> list[str]:
    """Check that every registered source is found by its name and delivers every row once.

    Args:
        examples: for each name the source for ``check_source``; the name sets ``enumerator``. The reader
            is named by an option, or is the enumerator's default.
        distribution: only the sources of this package, by its name on PyPI.
        fast: as for ``check_source``: every law is checked, in fewer runs.

    Returns:
        The checked names.

    Raises:
        LawBroken, TrivialInput: as ``check_source``.
        RegistryError: no source is registered, a source has no example, or an example has no source.
    """
    names = registered_sources(distribution=distribution)
    if not names:
        raise RegistryError(
            "no installed package registers a source"
            if distribution is None
            else f"package {distribution!r} registers no source",
            remedy=f'add it to the entry points of group "{ENUMERATOR_GROUP}" and install the package '
            "(pip install -e .)",
        )
    without = [name for name in names if name not in examples]
    unknown = [name for name in examples if name not in names]
    if without or unknown:
        raise RegistryError(
            f"registered sources without an example: {', '.join(without) or 'none'}; "
            f"examples of sources that are not registered: {', '.join(unknown) or 'none'}",
            remedy="give one example for each registered source, and reinstall the package "
            "after a change of its entry points",
        )
    for name in names:
        find_enumerator(name)
        check_source(under_test(examples[name]).with_options(enumerator=name), fast=fast)
    return names
