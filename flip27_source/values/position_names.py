"""Names of the fields of stored splits, also of nested ones, for people: in summaries and in edits.

A nested field is named by its path, ``log.first``, unless the author of the source gives the path another
name (``SplitEnumerator.position_names``). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec


def position_text(split: Any, names: Mapping[str, str]) -> str:
    """The fields of a stored split except ids, such as ``next=500``; only fields that are set."""
    if not isinstance(split, Mapping):
        return _text(split)
    return " ".join(f"{name}={_text(value)}" for name, value in _named(split, names, "", ""))


def path_of(name: str, split: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, ...] | None:
    """The path of a field of a stored split, given by name or path; None if the split has no such field."""
    by_name = {shown: path for path, shown in names.items()}
    first, dot, rest = name.partition(".")
    for path in (by_name.get(name), by_name.get(first, first) + dot + rest, name):
        keys = () if path is None else tuple(path.split("."))
        if keys and _has(split, keys):
            return keys
    return None


def with_value(fields: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """The fields with another value at a path that they have."""
    first, *rest = path
    return {**fields, first: with_value(fields[first], rest, value) if rest else value}


def _named(
    fields: Mapping[str, Any], names: Mapping[str, str], path: str, shown: str
) -> Iterator[tuple[str, Any]]:
    """The fields that are set, by name; ``path`` and ``shown`` are the path of ``fields`` and its name."""
    for field, value in fields.items():
        if field == "split_id":
            continue
        name = names.get(f"{path}{field}", f"{shown}{field}")
        if isinstance(value, Mapping):
            yield from _named(value, names, f"{path}{field}.", f"{name}.")
        elif value not in (None, []):
            yield name, value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _has(fields: Any, path: Sequence[str]) -> bool:
    if not path:
        return True
    return isinstance(fields, Mapping) and path[0] in fields and _has(fields[path[0]], path[1:])
