"""Copies of worlds, and keys that show whether two worlds can still behave differently.

A copy is made by pickling; values that never change, and objects that belong to the process, are shared. A
key is made in the same way from a part of the world.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from flip27_source.coordination.actions import PendingAction
from flip27_source.coordination.checkpoints import PendingCheckpoint, WaitingEvent
from flip27_source.coordination.context import CoordinatorContext, CoordinatorSettings
from flip27_source.coordination.packing import Assignment
from flip27_source.options import Options
from flip27_source.snapshots.documents import CheckpointDocument, SourceIdentity
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.source import Source
from flip27_source.values.stored_values import StoredValues
from tests.driver.batches import SCHEMA
from tests.model.documents import Doc
from tests.model.protocol_model import SOURCES, Attempt, ModelStore, World
from tests.model.toys import Known, Piece, Ping

_LOCK = type(threading.Lock())
_VALUES = {
    *(Assignment, Attempt, CheckpointDocument, CoordinatorSettings, Doc, Known, Offset, Options),
    *(PendingAction, PendingCheckpoint, Piece, Ping, PlannedSubtask, Source, SourceIdentity, StoredValues),
    *(CodeType, WaitingEvent),
}
"""Types whose values never change: copies share them."""

_shared: dict[str, Any] = {"lock": threading.Lock()}
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


_share("schema", SCHEMA)
for _kind, _source in SOURCES.items():
    _share(f"source {_kind}", _source)
    _share(f"options {_kind}", _source.options)


class Copier(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        kind = type(value)
        if kind is _LOCK:
            return "lock"
        if kind in _VALUES or value is SCHEMA:
            return _names.get(id(value)) or _share(f"value {len(_shared)}", value)
        if kind is bytes and len(value) > 100:
            return _content(value)
        return None

    def reducer_override(self, value: Any) -> Any:
        """A function inside a function is copied with its variables."""
        if isinstance(value, FunctionType) and value.__closure__:
            contents = tuple(cell.cell_contents for cell in value.__closure__)
            return _function, (value.__code__, value.__module__, value.__name__, contents)
        return NotImplemented


def _function(code: CodeType, module: str, name: str, contents: tuple[Any, ...]) -> Callable[..., Any]:
    names = vars(sys.modules[module])
    return FunctionType(code, names, name, None, tuple(CellType(content) for content in contents))


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


_MADE_AGAIN = (
    "flip27_source.options", "flip27_source.source", "flip27_source.values.", "flip27_source.file_systems.",
    "flip27_source.snapshots.", "flip27_source.savepoints.", "flip27_source.edits.",
    "flip27_source.driver.environment", "flip27_source.driver.checkpoint_log_lines",
    "flip27_source.driver.background_cleaner", "flip27_source.driver.reports",
)  # fmt: skip
"""Modules whose objects find again what is stored, encode it, measure or count, and decide nothing."""

_KEPT = ("flip27_source.snapshots.offsets", "flip27_source.snapshots.driver_epochs")


class KeyMaker(pickle.Pickler):
    """Leaves out what cannot change a later move, and references that form cycles, so it needs no memo."""

    def persistent_id(self, value: Any) -> Any:
        kind = type(value)
        if kind is Doc:
            return value.file
        if kind in (FunctionType, MethodType):
            return value.__qualname__
        module = kind.__module__
        if kind in (PlannedSubtask, CoordinatorContext, CoordinatorSettings, ModelStore, _LOCK) or (
            module.startswith(_MADE_AGAIN) and not module.startswith(_KEPT)
        ):
            return "made again"
        return None

    def reducer_override(self, value: Any) -> Any:
        """Equal sets give equal bytes, whatever their history."""
        if isinstance(value, set | frozenset):
            return sorted, (sorted(value),)
        return NotImplemented
