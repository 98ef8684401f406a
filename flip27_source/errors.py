"""Every error that flip27 raises on purpose.

An error says what is wrong, which value, where, and what to do. Secrets never enter a message:
callers pass names of options, not values of options marked secret, and URLs lose their credentials here.
"""

from __future__ import annotations

import functools
from typing import ClassVar

from .file_systems.url_credentials import masked


class Flip27Error(Exception):
    """Base of all errors raised by flip27.

    Args:
        what: what is wrong, with the value and the place.
        remedy: what the user can do about it; printed after the message.
    """

    def __init__(self, what: str, *, remedy: str | None = None) -> None:
        # It quotes options, and what libraries say, which quote URLs whole.
        self.what = masked(what)
        self.remedy = None if remedy is None else masked(remedy)
        super().__init__(self.what if remedy is None else f"{self.what}\n  What to do: {self.remedy}")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.remedy)


def _rebuild(kind: type[Flip27Error], what: str, remedy: str | None) -> Flip27Error:
    return kind(what, remedy=remedy)


LONGEST_KEPT = 2000
"""Characters of an error that are kept in the state."""


def kept_text(error: BaseException) -> str:
    """What is kept of an error in the state: its type, and the beginning of what it says."""
    said = masked(f"{type(error).__name__}: {error}")[:LONGEST_KEPT]
    # File names of other bytes than UTF-8 hold surrogates, which cannot be stored.
    return said.encode("utf-8", "backslashreplace").decode()


def said_of(error: BaseException) -> str:
    """What people are told of an error: our own say what to do, of others the type says most."""
    return str(error) if isinstance(error, Flip27Error) else kept_text(error)


class OptionError(Flip27Error):
    """An option is unknown, missing, or has a value that cannot be used."""


class RegistryError(Flip27Error):
    """An enumerator or reader cannot be found or is not what it should be."""


class ContractError(Flip27Error):
    """Author code (an enumerator or a reader) broke its contract; the message names the rule."""


class ProtocolError(Flip27Error):
    """A call that the checkpoint protocol forbids: a bug in the runtime, not in author code."""


class DiscoveryError(Flip27Error):
    """Discovery of splits failed more often than ``discoveryRetries`` allows."""


class SchemaError(Flip27Error):
    """The schema is missing, or the data cannot be given the shape of the schema."""


class NewColumnsError(SchemaError):
    """A file has columns that the schema does not have, and ``schemaEvolutionMode`` does not pass over them.

    Attributes:
        columns: them, as DDL; of a column that has new fields inside, the whole type.
    """

    def __init__(self, what: str, *, columns: str, remedy: str | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.columns = columns

    def __reduce__(self) -> tuple[object, ...]:
        return functools.partial(NewColumnsError, columns=self.columns, remedy=self.remedy), (self.what,)


class SplitReadError(Flip27Error):
    """A split cannot be read; the message names it (for files: the path and the position).

    Attributes:
        ignored_by: name of the boolean option that leaves out splits that fail so, where there is one.
    """

    ignored_by: ClassVar[str | None] = None


_REPORT_LOSS = (
    "set onDataLoss=report to go on with the data that is there; the loss is then counted and listed"
)


class DataLossError(SplitReadError):
    """Data is gone before it was read: retention removed it, its table or topic was removed or made anew, or
    its file vanished. Raised by ``read`` for a split of which nothing is left.
    """

    def __init__(self, what: str, *, remedy: str | None = None) -> None:
        if remedy is None or "onDataLoss" not in remedy:
            remedy = _REPORT_LOSS if remedy is None else f"{remedy}; or {_REPORT_LOSS}"
        super().__init__(what, remedy=remedy)


class AttemptError(Flip27Error):
    """Another attempt of the same subtask reported first, and this one did not read the same rows."""


class HeldRowsError(Flip27Error):
    """Rows that are held back, because the rest of their split may fail, do not fit anywhere."""


class QuarantineError(Flip27Error):
    """More splits cannot be read than ``maxQuarantinedSplits`` allows."""


class ActionError(Flip27Error):
    """A side effect that is due after a checkpoint failed more often than ``maxActionAttempts``."""


class EditError(Flip27Error):
    """An edit of the state cannot be made; the message says what it asks for and why not."""


class StopError(Flip27Error):
    """A query could not be stopped; the message names the savepoint that was made nevertheless."""


class StateError(Flip27Error):
    """Base of errors about stored state: documents, segments and the state location."""


class StateLocationError(StateError):
    """The state location is missing, not writable, or cannot do what is asked of it."""


class CorruptStateError(StateError):
    """Stored state is cut off, altered, or otherwise not what its digest promises."""


class MissingStateError(StateError):
    """A document or segment that an offset refers to is not there."""


class IncompatibleStateError(StateError):
    """Stored state belongs to another source, or to a version that this library cannot read."""


class MissingReportError(StateError):
    """A batch is complete and a subtask of it, whose report is required, has written none."""


class StaleDriverError(StateError):
    """Another driver has taken over; this one must not go on."""


def is_final(error: BaseException) -> bool:
    """Whether trying the same again cannot help."""
    return isinstance(error, _FINAL) or not isinstance(error, Exception)


_FINAL = (ContractError, DataLossError, CorruptStateError, MissingStateError, IncompatibleStateError)
