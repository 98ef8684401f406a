"""Findings of ``flip27 check``: one line each, with what to do where something is wrong."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from flip27_source.errors import Flip27Error, kept_text


class Status(enum.StrEnum):
    """How a check went; skipped says why it could not be made."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
        check: its name.
        found: what is there.
        remedy: what to do; None where nothing has to be done.
    """

    check: str
    status: Status
    found: str
    remedy: str | None = None


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check=check, status=Status.OK, found=found)


def warning(check: str, found: str, remedy: str) -> Finding:
    """It works, but not everything will, or not well."""
    return Finding(check=check, status=Status.WARNING, found=found, remedy=remedy)


def failed(check: str, found: str, remedy: str | None) -> Finding:
    """A query would fail."""
    return Finding(check=check, status=Status.FAILED, found=found, remedy=remedy)


def skipped(check: str, why: str, remedy: str | None = None) -> Finding:
    """The check could not be made."""
    return Finding(check=check, status=Status.SKIPPED, found=why, remedy=remedy)


def finding_of(check: str, look: Callable[[], Finding]) -> Finding:
    """What a look found; an error is a failed check."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - file systems and readers raise what they like
        return failure(check, error)


def failure(check: str, error: Exception) -> Finding:
    """An error as a finding."""
    if isinstance(error, Flip27Error):
        return failed(check, error.what, error.remedy)
    return failed(check, kept_text(error), "mend what the message of the library names")
