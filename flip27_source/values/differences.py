"""Compares a value with its restored form, and finds values that JSON cannot represent.

Walks through all kinds of values that msgspec stores. Every finding names its place; ``$`` is the whole
value. Pure.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ..segment import Segment

DEEPEST = 100
"""Deeper nesting is refused: after a restart, less of the stack may be left to decode the value."""

SCALARS = frozenset({str, int, float, bool, bytes, type(None)})


def difference(given: Any, back: Any) -> str | None:
    """The first difference between a value and its restored form, with its place; None if they are equal."""
    return _difference(given, back, "$", 0)


def non_finite(value: Any) -> str | None:
    """The first NaN or infinity in a value, with its place; None if there is none."""
    places = (
        f"{at} is {item}"
        for at, item in _all_in(value, "$", 0)
        if type(item) is float and not math.isfinite(item)
    )
    return next(places, None)


def _difference(given: Any, back: Any, at: str, depth: int) -> str | None:
    if depth > DEEPEST:
        return f"it is nested deeper than {DEEPEST} levels"
    kind = type(back)
    if kind in SCALARS:
        # An int is a float to every type checker (PEP 484).
        fits = isinstance(given, kind) or (kind is float and type(given) is int)
        return None if fits and given == back else _changed(given, back, at)
    for container, compare in _CONTAINERS.items():
        if isinstance(back, container):
            return compare(given, back, at, depth)
    names = field_names(back)
    if names is None:
        return None if isinstance(given, kind) and _same(given, back) else _changed(given, back, at)
    if type(given) is not kind:
        return _changed(given, back, at)
    return _first(
        _difference(getattr(given, name), getattr(back, name), f"{at}.{name}", depth + 1) for name in names
    )


def _sequence_difference(given: Any, back: Any, at: str, depth: int) -> str | None:
    # A named tuple is restored as one if the declared type is one.
    kind = type(back) if hasattr(back, "_fields") else list if isinstance(back, list) else tuple
    if not isinstance(given, kind) or len(given) != len(back):
        return _changed(given, back, at)
    return _first(_difference(given[i], back[i], f"{at}[{i}]", depth + 1) for i in range(len(back)))


def _dict_difference(given: Any, back: dict[Any, Any], at: str, depth: int) -> str | None:
    if not isinstance(given, dict) or len(given) != len(back):
        return _changed(given, back, at)
    keys = {key: key for key in back}
    for key, value in given.items():
        if key not in keys:
            return f"{at} has the key {key!r:.100}, which is not restored"
        problem = _difference(key, keys[key], f"{at}, a key", depth + 1)
        problem = problem or _difference(value, back[key], f"{at}[{key!r:.100}]", depth + 1)
        if problem is not None:
            return problem
    return None


def _set_difference(given: Any, back: set[Any] | frozenset[Any], at: str, depth: int) -> str | None:
    kind = frozenset if isinstance(back, frozenset) else set
    if not isinstance(given, kind) or len(given) != len(back):
        return _changed(given, back, at)
    items = {item: item for item in back}
    for item in given:
        if item not in items:
            return f"{at} has {item!r:.100}, which is not restored"
        problem = _difference(item, items[item], f"{at}, an item", depth + 1)
        if problem is not None:
            return problem
    return None


_CONTAINERS: dict[Any, Callable[[Any, Any, str, int], str | None]] = {
    dict: _dict_difference,
    (list, tuple): _sequence_difference,
    (set, frozenset): _set_difference,
}


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem is not None), None)


def _same(given: Any, back: Any) -> bool:
    if isinstance(back, dt.datetime | dt.time):
        # The offset is kept, the name of the zone is not. An ambiguous time (fold) never equals a time in
        # another zone, so both parts are compared.
        plain = given.replace(tzinfo=None, fold=0) == back.replace(tzinfo=None, fold=0)
        return bool(plain and given.utcoffset() == back.utcoffset())
    return bool(given == back)


def _changed(given: Any, back: Any, at: str) -> str:
    kinds = type(given).__name__, type(back).__name__
    mine, theirs = shown(given), shown(back)
    if kinds[0] != kinds[1]:
        return f"{at} is {mine}, a {kinds[0]}, and would be restored as {theirs}, a {kinds[1]}"
    return f"{at} is {mine} and would be restored as {theirs}"


def unstorable(value: Any) -> str | None:
    """The innermost value that JSON cannot represent, with its place; None if there is none."""
    try:
        inside = list(_all_in(value, "$", 0))
    except RecursionError as error:
        return str(error)
    for at, item in inside:
        if type(item) is float and not math.isfinite(item):
            return f"{at} is {item}"
        if isinstance(item, dict):
            wrong = [key for key in item if not isinstance(key, str)]
            if wrong:
                return f"{at} has the key {shown(wrong[0])}, but keys in JSON are texts"
        if isinstance(item, Segment) or next(iter(_items(item, at)), None) is not None:
            continue
        try:
            msgspec.json.encode(item)
        except Exception as error:  # noqa: BLE001 - any error means that the value cannot be stored
            return f"{at} is {shown(item)}: {error}"
    return None


def _all_in(value: Any, at: str, depth: int) -> Iterator[tuple[str, Any]]:
    """All values inside a value, with their places, innermost first."""
    if depth > DEEPEST:
        raise RecursionError(f"it is nested deeper than {DEEPEST} levels")
    for place, item in _items(value, at):
        yield from _all_in(item, place, depth + 1)
    yield at, value


def _items(value: Any, at: str) -> Iterable[tuple[str, Any]]:
    """The values directly inside a value, with their places."""
    if isinstance(value, dict):
        return ((f"{at}[{key!r:.100}]", item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ((f"{at}[{index}]", item) for index, item in enumerate(value))
    return ((f"{at}.{name}", getattr(value, name, None)) for name in field_names(value) or ())


def field_names(value: Any) -> tuple[str, ...] | None:
    """The fields of a dataclass, a Struct or an attrs class; None for any other value."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return tuple(item.name for item in dataclasses.fields(kind))
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    attributes = getattr(kind, "__attrs_attrs__", None)
    return None if attributes is None else tuple(item.name for item in attributes)


def shown(value: Any) -> str:
    try:
        return f"{value!r:.200}"
    except Exception as error:  # noqa: BLE001 - the message is not about this error
        return f"a {type(value).__name__} whose repr fails with {type(error).__name__}"
