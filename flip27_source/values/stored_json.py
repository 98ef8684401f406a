"""Decodes stored JSON: damaged and malicious data raise the same kind of error. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, overload

import msgspec

ValueT = TypeVar("ValueT")
Stored: TypeAlias = bytes | str | msgspec.Raw
Hook: TypeAlias = Callable[[type, Any], Any]


@overload
def decode_json(data: Stored) -> Any: ...
@overload
def decode_json(data: Stored, kind: type[ValueT], dec_hook: Hook | None = None) -> ValueT: ...
@overload
def decode_json(data: Stored, kind: Any, dec_hook: Hook | None = None) -> Any: ...
def decode_json(data: Stored, kind: Any = Any, dec_hook: Hook | None = None) -> Any:
    """Decode JSON.

    Raises:
        msgspec.MsgspecError: the data is truncated, does not match, or is nested too deep for the stack.
    """
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=dec_hook)
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deep") from error


class _Format(msgspec.Struct):
    format: int


def format_of(data: Stored) -> int:
    """The number of the format in which a value is stored.

    Raises:
        msgspec.MsgspecError: as for :func:`decode_json`.
    """
    return decode_json(data, _Format).format


def compact_json(data: bytes) -> bytes:
    """The JSON without insignificant whitespace.

    Raises:
        msgspec.MsgspecError: as for :func:`decode_json`.
    """
    try:
        return msgspec.json.format(data, indent=-1)
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deep") from error
