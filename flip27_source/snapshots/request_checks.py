"""Validation of requests, when they are created and again when they are read. Pure.

The content of a request goes into checkpoint documents and to the tasks of a batch, so an invalid request
would stop the query at every restart.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..coordination.edit_values import EditOperation, EditRequest
from ..file_systems.paths import redacted
from ..values.differences import unstorable
from ..values.stored_values import is_unicode
from .file_names import CheckpointName

MOST_BYTES = 64 * 1024 * 1024
"""Larger requests are neither written nor read."""

_LONGEST_TARGET = 4096
_LONGEST_TEXT = 10_000
_LONGEST_POSITION_BYTES = 64 * 1024
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, the latest time that Python's datetime supports."""


def target_problem(target: str) -> str | None:
    """Why no savepoint can be taken in a directory with this name; None if no reason is known."""
    if not target:
        return "the target is empty"
    if "\0" in target:
        return f"the target {target!r} contains a NUL character"
    if not is_unicode(target):
        return f"the target {target!r} is not Unicode"
    if len(target) > _LONGEST_TARGET:
        return f"the target has {len(target)} characters, more than {_LONGEST_TARGET}"
    if redacted(target) != target:
        return f"the target {redacted(target)} contains a user name or password, which would be stored"
    return None


def time_problem(name: str, milliseconds: float) -> str | None:
    """Why a number of milliseconds is not a valid time of a request; None if it is valid."""
    if 0 <= milliseconds <= LATEST_MS:
        return None
    return f"{name} is not a valid time"


def edit_problem(edit: EditRequest) -> str | None:
    """Why an edit is invalid for any state; None if it is valid."""
    return next(_problems(edit), None)


def _problems(edit: EditRequest) -> Iterator[str]:
    texts = {"who": edit.who, "why": edit.why, "selected": edit.selected}
    for name, text in texts.items():
        if not is_unicode(text):
            yield f"{name} is not Unicode: {text!r:.200}"
        if len(text) > _LONGEST_TEXT:
            yield f"{name} has {len(text)} characters, more than {_LONGEST_TEXT}"
    found = time_problem("requested_us", edit.requested_us / 1000)
    if found is not None:
        yield found
    if not all(map(is_unicode, edit.split_ids)):
        yield "split_ids contain an id that is not Unicode"
    if (edit.operation is EditOperation.REWIND) != (edit.checkpoint is not None) or (
        edit.checkpoint is not None and CheckpointName.parse(edit.checkpoint) is None
    ):
        yield f"checkpoint is {edit.checkpoint!r:.200}: a rewind needs a checkpoint's name, other edits none"
    wrong = [name for name in edit.plans if CheckpointName.parse(name) is None]
    if wrong:
        yield f"plans contains an invalid checkpoint name: {wrong[0]!r:.200}"
    yield from _position_problems(edit)


def _position_problems(edit: EditRequest) -> Iterator[str]:
    if (edit.operation is EditOperation.SET_POSITION) != (edit.position is not None):
        yield f"{edit.operation} " + ("needs a position" if edit.position is None else "takes no position")
    if edit.position is None:
        return
    found = unstorable(edit.position)
    if found is not None:
        yield f"the position cannot be stored as JSON: {found}"
        return
    size = len(msgspec.json.encode(edit.position))
    if size > _LONGEST_POSITION_BYTES:
        yield f"the position has {size} bytes, more than {_LONGEST_POSITION_BYTES}"
