"""Packages that only some sources need: the error if one of them is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import Flip27Error, RegistryError


@contextmanager
def needed(
    package: str,
    *,
    by: str,
    extra: str,
    also: str | None = None,
    where: str = "on the driver and on every executor node",
    error_type: type[Flip27Error] = RegistryError,
) -> Iterator[None]:
    """Import the package in this block.

    Args:
        by: what needs it.
        extra: the extra of this project with which pip installs it, ``where`` it is imported.
        also: what pip has to install in addition; empty for the module that is missing.

    Raises:
        Flip27Error: it is not installed; an error of ``error_type``.
    """
    try:
        yield
    except ImportError as error:
        packages = f"'flip27-source[{extra}]'" + ("" if also is None else f" {also or error.name}")
        raise error_type(
            f"{by} needs the package {package}, which cannot be imported: {error}",
            remedy=f"pip install {packages} {where}",
        ) from None
