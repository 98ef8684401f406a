"""What a request has to be, when it is made and again when it is read. Pure.

What a request says goes into checkpoint documents and to the tasks of a batch, so one that makes no sense
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
"""A larger request is neither written nor read."""

_LONGEST_TARGET = 4096
_LONGEST_TEXT = 10_000
_LONGEST_POSITION_BYTES = 64 * 1024
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, behind which Python knows no time."""


def target_problem(target: str) -> str | None:
    """Why a savepoint can never be made in a directory of this name; None where that is not known."""
    if not target:
        return "the target is empty"
    if "\0" in target:
        return f"the target {target!r} has a NUL character in it"
    if not is_unicode(target):
        return f"the target {target!r} is not Unicode"
    if len(target) > _LONGEST_TARGET:
        return f"the target has {len(target)} characters, more than {_LONGEST_TARGET}"
    if redacted(target) != target:
        return f"the target {redacted(target)} has a user name or password in it, which would be stored"
    return None


def time_problem(name: str, milliseconds: float) -> str | None:
    """Why a number of milliseconds is no time of a request; None where it is one."""
    if 0 <= milliseconds <= LATEST_MS:
        return None
    return f"{name} is no time"


def edit_problem(edit: EditRequest) -> str | None:
    """What is wrong with an edit, whatever state it meets; None where nothing is."""
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
        yield "split_ids have a text that is not Unicode"
    if (edit.operation is EditOperation.REWIND) != (edit.checkpoint is not None) or (
        edit.checkpoint is not None and CheckpointName.parse(edit.checkpoint) is None
    ):
        yield f"checkpoint is {edit.checkpoint!r:.200}: a rewind needs the name of one, other edits have none"
    wrong = [name for name in edit.plans if CheckpointName.parse(name) is None]
    if wrong:
        yield f"plans names a checkpoint that has no name of one: {wrong[0]!r:.200}"
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
