"""The laws for every source that is registered by an entry point."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import RegistryError
from ..registry import ENUMERATOR_GROUP, find_enumerator, registered_names
from .source_laws import check_source
from .under_test import GivenSource, under_test


def registered_sources(*, distribution: str | None = None) -> list[str]:
    """Names of the enumerators that installed packages register, other than the built-in ones.

    Args:
        distribution: only those of this package, by its name on PyPI.
    """
    return registered_names(ENUMERATOR_GROUP, distribution=distribution)


def check_registered_sources(
    examples: Mapping[str, GivenSource], *, distribution: str | None = None
) -> list[str]:
    """Check every registered source, by name: that it is found, and that it delivers every row once.

    Args:
        examples: for each name what it is to be run with, as for ``check_source``; ``enumerator`` is
            set by the name. The reader goes by its name too, or is the enumerator's own.
        distribution: only the sources of this package, by its name on PyPI.

    Returns:
        The names that were checked.

    Raises:
        LawBroken, TrivialInput: as ``check_source``.
        RegistryError: there is nothing to check, a source has no example, or an example no source.
    """
    names = registered_sources(distribution=distribution)
    if not names:
        raise RegistryError(
            "no installed package registers a source"
            if distribution is None
            else f"package {distribution!r} registers no source",
            remedy=f'name it in the entry points of group "{ENUMERATOR_GROUP}" and install the package '
            "(pip install -e .)",
        )
    without = [name for name in names if name not in examples]
    unknown = [name for name in examples if name not in names]
    if without or unknown:
        raise RegistryError(
            f"registered without an example: {', '.join(without) or 'none'}; "
            f"examples of sources that are not registered: {', '.join(unknown) or 'none'}",
            remedy="give one example for each registered source, and install the package anew "
            "after its entry points have changed",
        )
    for name in names:
        find_enumerator(name)
        check_source(under_test(examples[name]).with_options(enumerator=name))
    return names
