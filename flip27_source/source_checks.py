"""Checks of a source before it runs: the findings of ``flip27 check``, and the mix-in of enumerators."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import Flip27Error, kept_text
from .options import Options

if TYPE_CHECKING:
    import pyarrow as pa


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


def ok_unless(check: str, found: str, work: Callable[[], object]) -> Finding:
    """The check passed, unless ``work``, which a query does too, raises one of flip27's errors."""
    try:
        work()
    except Flip27Error as error:
        return failed(check, error.what, error.remedy)
    return ok(check, found)


def skipped(check: str, why: str, remedy: str | None = None) -> Finding:
    """The check could not run."""
    return Finding(check=check, status=Status.SKIPPED, found=why, remedy=remedy)


def failure(check: str, error: Exception) -> Finding:
    """The finding for an error."""
    if isinstance(error, Flip27Error):
        return failed(check, error.what, error.remedy)
    return failed(check, kept_text(error), "fix the cause that the library's message names")


def finding_of(check: str, look: Callable[[], Finding]) -> Finding:
    """Call ``look`` and return its finding; if it raises an error, the check has failed."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - file systems and readers raise any error
        return failure(check, error)


class ChoosesReader(ABC):
    """Optional mix-in of an enumerator: it chooses a built-in reader if the user names none."""

    @classmethod
    @abstractmethod
    def choose_reader(cls, options: Options) -> str:
        """The name of the reader. Called once for a state, which keeps it; I/O is allowed.

        Raises:
            OptionError: the user has to set the option ``reader``.
        """


class ChecksBeforeStart(ABC):
    """Optional mix-in of an enumerator or a reader: what is checked besides the options, before a start."""

    @classmethod
    @abstractmethod
    def check_before_start(cls, options: Options) -> None:
        """Raise an error if no start can succeed: a package is missing, or the path does not exist.

        It is called before each start, also of a query that continues, so it must not refuse what is
        unreachable only for a moment, and what the run itself would wait for.
        """


class ChecksGivenSchema(ABC):
    """Optional mix-in of an enumerator: a schema that the user gives has to fit."""

    @classmethod
    @abstractmethod
    def check_given_schema(cls, schema: pa.Schema, options: Options) -> None:
        """Refuse a schema that cannot be read. Called before each start; no I/O.

        Raises:
            SchemaError: the schema does not fit.
        """


class ChecksSource(ABC):
    """Optional mix-in of an enumerator, or else of a reader: ``flip27 check`` asks if a source is ready."""

    @classmethod
    @abstractmethod
    def check_source(cls, options: Options) -> Iterable[Finding]:
        """The findings, in the order in which they are shown. It may do I/O, but changes nothing.

        The first finding has to come within ten seconds; so a server that is down is reported soon.
        An error that it raises becomes a failed check after the findings that it has yielded. Findings
        contain no secrets.
        """
