"""Findings of ``flip27 check``: one line each, with a remedy if something is wrong."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from flip27_source.errors import Flip27Error, kept_text


class Status(enum.StrEnum):
    """The result of a check; a skipped check says why it could not run."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The finding of one check.

    Attributes:
        check: the name of the check.
        found: what the check found.
        remedy: what to do; None if nothing is wrong.
    """

    check: str
    status: Status
    found: str
    remedy: str | None = None


def ok(check: str, found: str) -> Finding:
    """The check passed."""
    return Finding(check=check, status=Status.OK, found=found)


def warning(check: str, found: str, remedy: str) -> Finding:
    """A query works, but not with every feature, or not well."""
    return Finding(check=check, status=Status.WARNING, found=found, remedy=remedy)


def failed(check: str, found: str, remedy: str | None) -> Finding:
    """A query would fail."""
    return Finding(check=check, status=Status.FAILED, found=found, remedy=remedy)


def skipped(check: str, why: str, remedy: str | None = None) -> Finding:
    """The check could not run."""
    return Finding(check=check, status=Status.SKIPPED, found=why, remedy=remedy)


def finding_of(check: str, look: Callable[[], Finding]) -> Finding:
    """The finding of ``look``; an error is a failed check."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - file systems and readers raise any error
        return failure(check, error)


def failure(check: str, error: Exception) -> Finding:
    """An error as a finding."""
    if isinstance(error, Flip27Error):
        return failed(check, error.what, error.remedy)
    return failed(check, kept_text(error), "fix the cause that the library's message names")
