"""The law that a split is a value: its class is frozen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import msgspec

from ..enumerator import SplitEnumerator
from .law import Disagreement

SPLITS_ARE_VALUES = "a split is a value that nobody changes"


def check_frozen(enumerator_type: type[SplitEnumerator[Any]]) -> None:
    """Raise Disagreement if the class of the splits, or one of them, is not frozen."""
    for kind in _classes_in(enumerator_type.resolve_split_type()):
        parameters: Any = getattr(kind, "__dataclass_params__", None)
        thawed = dataclasses.is_dataclass(kind) and not parameters.frozen
        if not thawed and not (issubclass(kind, msgspec.Struct) and not kind.__struct_config__.frozen):
            continue
        way, replace = "frozen=True", "msgspec.structs.replace"
        if thawed:
            way, replace = "@dataclass(frozen=True, slots=True, kw_only=True)", "dataclasses.replace"
        raise Disagreement(
            f"{kind.__qualname__}, the class of the splits of {enumerator_type.__qualname__}, is not "
            f"frozen: a change of a split also changes it in the coordinator's state. Write {way} for it and "
            f"{replace}(split, position=...) for the split at another position"
        )


def _classes_in(declared: Any) -> Iterator[type]:
    """The classes in the type of splits: several in a union."""
    origin = get_origin(declared)
    if isinstance(declared, type):
        yield declared
    elif isinstance(origin, type) and (
        dataclasses.is_dataclass(origin) or issubclass(origin, msgspec.Struct)
    ):
        yield origin
    else:
        for part in get_args(declared):
            yield from _classes_in(part)
