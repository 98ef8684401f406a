"""Reads the annotations of author classes: types of splits, states and events.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..errors import ContractError
from ..events import SourceEvent


def annotation_of(cls: type, method: str, name: str, attribute: str) -> Any:
    """The value of a class's ``attribute``, or else the annotation ``name`` of a method.

    It is that of the nearest class whose annotation is not Any.

    Raises:
        ContractError: a name in the annotation cannot be resolved.
    """
    given = getattr(cls, attribute, None)
    if given is not None:
        return given
    for klass in cls.__mro__:
        function = klass.__dict__.get(method)
        if function is None or name not in function.__annotations__:
            continue
        # Only this annotation is resolved: names in the others may not exist where this runs.
        only = type("only", (), {"__annotations__": {name: function.__annotations__[name]}})
        try:
            annotation = get_type_hints(only, function.__globals__, dict(vars(klass)))[name]
        except NameError as error:
            raise ContractError(
                f"the annotation of {klass.__qualname__}.{method} cannot be resolved: {error}",
                remedy=f"set {attribute} = TheType in the body of {cls.__name__}",
            ) from error
        if annotation is not Any:
            return annotation
    return Any


def type_argument_of(cls: type, base: type) -> Any:
    """The class or union that is the type argument of a subclass of ``base``; None if there is none."""
    for klass in cls.__mro__:
        for generic in klass.__dict__.get("__orig_bases__", ()):
            origin = get_origin(generic)
            if isinstance(origin, type) and issubclass(origin, base):
                for argument in get_args(generic):
                    if isinstance(argument, type | UnionType) or get_origin(argument) is Union:
                        return argument
    return None


def handled_events(cls: type, base: type) -> tuple[type[SourceEvent], ...]:
    """The events that ``cls`` takes; empty if it does not override ``handle_source_event`` of ``base``.

    Raises:
        ContractError: the method exists, but its annotation does not declare the events.
    """
    given: tuple[Any, ...] | None = getattr(cls, "event_types", None)
    if given is None:
        if getattr(cls, "handle_source_event", None) is getattr(base, "handle_source_event", None):
            return ()
        found = annotation_of(cls, "handle_source_event", "event", "event_types")
        given = get_args(found) if get_origin(found) in (Union, UnionType) else (found,)
    names = [getattr(item, "__name__", str(item)) for item in given]
    wrong = [item for item in given if not (isinstance(item, type) and issubclass(item, SourceEvent))]
    if wrong or SourceEvent in given or len(set(names)) < len(names):
        raise ContractError(
            f"the events that {cls.__qualname__} takes cannot be derived from {', '.join(names)}",
            remedy="annotate the event of handle_source_event with subclasses of SourceEvent with "
            "different names (event: Pause | Resume), or set event_types = (Pause, Resume)",
        )
    return given
