"""Copies of worlds, and keys that show whether two worlds can still behave differently.

A copy is made by pickling; values that never change, and objects that belong to the process, are shared. A
key is made in the same way from a part of the world.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import threading
from collections.abc import Iterator
from typing import Any

from flip27_source.coordination.actions import PendingAction
from flip27_source.coordination.checkpoints import PendingCheckpoint, WaitingEvent
from flip27_source.coordination.context import CoordinatorSettings
from flip27_source.coordination.packing import Assignment
from flip27_source.driver.background import BackgroundRunner
from flip27_source.options import Options
from flip27_source.snapshots.documents import CheckpointDocument, SourceIdentity
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.source import Source
from flip27_source.values.stored_values import StoredValues
from tests.model.documents import Doc
from tests.model.protocol_model import SOURCES, Attempt, World
from tests.model.toys import Known, Piece, Ping

_LOCK = type(threading.Lock())
_VALUES = {
    *(Assignment, Attempt, CheckpointDocument, CoordinatorSettings, Doc, Known, Offset, Options),
    *(PendingAction, PendingCheckpoint, Piece, Ping, PlannedSubtask, Source, SourceIdentity, StoredValues),
    WaitingEvent,
}
"""Types whose values never change: copies share them."""

_shared: dict[str, Any] = {"lock": threading.Lock(), "runner": BackgroundRunner()}
_names: dict[int, str] = {}


def _share(name: str, value: Any) -> str:
    _shared[name] = value
    _names[id(value)] = name
    return name


@contextlib.contextmanager
def shared_values() -> Iterator[None]:
    """Keep the values that copies share until the end of the block."""
    before = len(_shared)
    try:
        yield
    finally:
        _contents.clear()
        for name in list(_shared)[before:]:
            value = _shared.pop(name)
            _names.pop(id(value), None)


for _kind, _source in SOURCES.items():
    _share(f"source {_kind}", _source)
    _share(f"options {_kind}", _source.options)


class Copier(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        kind = type(value)
        if kind is _LOCK:
            return "lock"
        if kind is BackgroundRunner:
            return "runner"
        if kind in _VALUES:
            return _names.get(id(value)) or _share(f"value {len(_shared)}", value)
        if kind is bytes and len(value) > 100:
            return _content(value)
        return None


_contents: dict[bytes, str] = {}


def _content(data: bytes) -> str:
    name = _contents.get(data)
    if name is None:
        name = _contents[data] = f"content {len(_shared)}"
        _shared[name] = data
    return name


class _Reviver(pickle.Unpickler):
    def persistent_load(self, name: Any) -> Any:
        return _shared[name]


def pickled(world: World) -> bytes:
    """The world as bytes, from which copies can be made."""
    buffer = io.BytesIO()
    Copier(buffer, protocol=5).dump(world)
    return buffer.getvalue()


def revived(data: bytes) -> World:
    """A copy of the world that was pickled."""
    world = _Reviver(io.BytesIO(data)).load()
    assert isinstance(world, World)
    return world


def clone(world: World) -> World:
    """A copy that shares only values that never change."""
    return revived(pickled(world))
