"""Every error that flip27 raises on purpose.

An error says what is wrong, names the value and the place, and gives a remedy. A message never contains a
secret: callers pass the names of secret options, not their values, and credentials in URLs are masked here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .file_systems.url_credentials import masked


class Flip27Error(Exception):
    """Base of all errors raised by flip27.

    Args:
        what: what is wrong, with the value and the place.
        remedy: what the user can do about it; printed after the message.
    """

    def __init__(self, what: str, *, remedy: str | None = None) -> None:
        # Options and messages of other libraries, both quoted in errors, can contain URLs with credentials.
        self.what = masked(what)
        self.remedy = None if remedy is None else masked(remedy)
        super().__init__(self.what if remedy is None else f"{self.what}\n  What to do: {self.remedy}")

    def __reduce__(self) -> tuple[object, ...]:
        return functools.partial(type(self), remedy=self.remedy), (self.what,)

    def advised(self, first: str) -> Flip27Error:
        """The same error with this advice before its remedy."""
        reduced: Any = self.__reduce__()
        remedy = first if self.remedy is None else f"{first}; or {self.remedy}"
        error: Flip27Error = functools.partial(reduced[0], remedy=remedy)(*reduced[1])
        return error

    def placed(self, where: str) -> Flip27Error:
        """The same error with the place that it concerns in front of its text."""
        make, given, *_ = tuple(self.__reduce__())
        error: Flip27Error = make(f"{where}: {self.what}", *given[1:])  # type: ignore[operator, index]
        return error


LONGEST_KEPT = 2000
"""Maximum length, in characters, of an error text that is stored in the state."""


def kept_text(error: BaseException, hide: Callable[[str], str] = str) -> str:
    """The text of an error as stored in the state: its type, and the beginning of its message.

    Args:
        hide: removes secrets, before the end of the text is cut off: a part of one would not be found.
    """
    return kept_words(hide(f"{type(error).__name__}: {text_of(error)}"))


def kept_parts(error: BaseException, hide: Callable[[str], str] = str) -> tuple[str, str | None]:
    """The text of an error as stored in the state, and apart from it what to do, if the error says so."""
    if not isinstance(error, Flip27Error):
        return kept_text(error, hide), None
    remedy = None if error.remedy is None else kept_words(hide(error.remedy))
    return kept_words(hide(f"{type(error).__name__}: {error.what}")), remedy


def text_of(error: BaseException) -> str:
    """The text of an error, also of one of a library that asks a server for it, which may be gone."""
    try:
        return str(error)
    except Exception as failed:  # noqa: BLE001 - whatever it is, the error itself counts
        return f"its text raises {type(failed).__name__}"


def kept_words(text: str) -> str:
    """The beginning of a text about an error, as stored in the state."""
    # File names that are not valid UTF-8 contain surrogates, which cannot be stored.
    return masked(text)[:LONGEST_KEPT].encode("utf-8", "backslashreplace").decode()


def said_of(error: BaseException, hide: Callable[[str], str] = str) -> str:
    """The text of an error for people: flip27's own errors as they are, others with their type in front.

    Args:
        hide: as for :func:`kept_text`.
    """
    return hide(str(error)) if isinstance(error, Flip27Error) else kept_text(error, hide)


class OptionError(Flip27Error):
    """An option is unknown, missing, or has a value that cannot be used."""


class RegistryError(Flip27Error):
    """An enumerator or reader cannot be found, or is not a valid enumerator or reader."""


class ContractError(Flip27Error):
    """Author code (an enumerator or a reader) broke its contract; the message names the rule."""


class ProtocolError(Flip27Error):
    """A call that the checkpoint protocol forbids: a bug in the runtime, not in author code."""


class DiscoveryError(Flip27Error):
    """Discovery of splits failed more often than ``discoveryRetries`` allows."""


class SchemaError(Flip27Error):
    """The schema is missing, or the data cannot be converted to the schema."""


class NewColumnsError(SchemaError):
    """A file has columns that the schema does not have, and ``schemaEvolutionMode`` does not ignore them.

    Attributes:
        columns: the new columns, as DDL; for a column with new nested fields or a wider type, its whole new
            type.
    """

    def __init__(self, what: str, *, columns: str, remedy: str | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.columns = columns

    def __reduce__(self) -> tuple[object, ...]:
        return functools.partial(NewColumnsError, columns=self.columns, remedy=self.remedy), (self.what,)


class SplitReadError(Flip27Error):
    """A split cannot be read; the message names it (for files: the path and the position).

    Attributes:
        ignored_by: name of the boolean option that skips splits with this error; None if there is none.
    """

    ignored_by: ClassVar[str | None] = None


class AccessError(SplitReadError):
    """Data cannot be reached: credentials, permission, the network, a server, a disk, a missing package.

    The data itself may be fine, so a split is never quarantined or ignored for this (R21): the task fails.
    """


_REPORT_LOSS = (
    "set onDataLoss=report to continue with the remaining data; the loss is then counted and listed"
)


class DataLossError(SplitReadError):
    """Data was lost before it was read: retention removed it, its table or topic was removed or recreated, or
    its file vanished. Raised by ``read`` for a split of which nothing is left.
    """

    def __init__(self, what: str, *, remedy: str | None = None) -> None:
        if remedy is None or "onDataLoss" not in remedy:
            remedy = _REPORT_LOSS if remedy is None else f"{remedy}; or {_REPORT_LOSS}"
        super().__init__(what, remedy=remedy)


class AttemptError(Flip27Error):
    """Another attempt of the same subtask reported first, and this attempt did not read the same rows."""


class HeldRowsError(Flip27Error):
    """Rows are buffered because the rest of their split may fail, and there is no room for them."""


class QuarantineError(Flip27Error):
    """The number of unreadable splits exceeds ``maxQuarantinedSplits``."""


class ActionError(Flip27Error):
    """A side effect that is due after a checkpoint failed ``maxActionAttempts`` times."""


class EditError(Flip27Error):
    """The state cannot be edited as requested; the message names the edit and the reason."""


class StartError(Flip27Error):
    """Some of the queries of ``start_in_turn`` could not be started; the others were.

    Attributes:
        queries: the started queries by the order of the functions; None for one that could not be started,
            and for each once the error was pickled.
        reasons: why not, one error for each of these, in the same order.
    """

    def __init__(
        self, what: str, *, queries: Sequence[Any], reasons: Sequence[Exception], remedy: str | None = None
    ) -> None:
        super().__init__(what, remedy=remedy)
        self.queries, self.reasons = queries, reasons

    def __reduce__(self) -> tuple[object, ...]:
        make = functools.partial(StartError, queries=self.queries, reasons=self.reasons, remedy=self.remedy)
        return make, (self.what,)

    def __reduce_ex__(self, protocol: Any) -> tuple[object, ...]:
        # Pickle asks for this one; a query of Spark belongs to its process.
        return StartError(
            self.what, queries=[None] * len(self.queries), reasons=self.reasons, remedy=self.remedy
        ).__reduce__()


class StopError(Flip27Error):
    """A query could not be stopped; the message names the savepoint, which exists."""


class StateError(Flip27Error):
    """Base of errors about stored state: documents, segments and the state location."""


class StateLocationError(StateError):
    """The state location is missing, is not writable, or lacks a required operation."""


class CorruptStateError(StateError):
    """Stored state is truncated, altered, or does not match its digest."""


class MissingStateError(StateError):
    """A document or segment that an offset refers to does not exist."""


class IncompatibleStateError(StateError):
    """Stored state belongs to another source, or to a version that this library cannot read."""


class MissingReportError(StateError):
    """A batch is complete, and one of its subtasks has not written the report that is required of it."""


class StaleDriverError(StateError):
    """Another driver has taken over the query; this driver must stop."""


def is_final(error: BaseException) -> bool:
    """Whether a retry cannot succeed."""
    return isinstance(error, _FINAL) or not isinstance(error, Exception)


_FINAL = (ContractError, DataLossError, CorruptStateError, MissingStateError, IncompatibleStateError)


def quotation(value: str | bytes, most: int = 200) -> str:
    """The value in quotation marks; only its start and its size if it is longer than ``most``."""
    start = value[:most]
    text = repr(start if isinstance(start, str) else start.decode("utf-8", "replace"))
    if len(value) <= most:
        return text
    return f"{text}... ({len(value)} {'characters' if isinstance(value, str) else 'bytes'})"


def some_of(names: Sequence[str], most: int) -> str:
    """The first ``most`` names, separated by commas, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
