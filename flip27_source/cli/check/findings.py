"""The findings of errors: what a check of ``flip27 check`` finds if it cannot be completed."""

from __future__ import annotations

from collections.abc import Callable

from flip27_source.errors import Flip27Error, kept_text
from flip27_source.source_checks import Finding, failed


def finding_of(check: str, look: Callable[[], Finding]) -> Finding:
    """Call ``look`` and return its finding; if it raises an error, the check has failed."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - file systems and readers raise any error
        return failure(check, error)


def failure(check: str, error: Exception) -> Finding:
    """The finding for an error."""
    if isinstance(error, Flip27Error):
        return failed(check, error.what, error.remedy)
    return failed(check, kept_text(error), "fix the cause that the library's message names")
