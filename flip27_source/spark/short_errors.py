"""Errors in Spark's messages, without the calls of flip27 that led to them: an error says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flip27_source.errors import Flip27Error

T = TypeVar("T")


def shortly(work: Callable[[], T], kind: type[Flip27Error] = Flip27Error) -> T:
    """What ``work`` returns; its error, if it is of this kind, has no traceback and no cause."""
    try:
        return work()
    except kind as error:
        raise error.with_traceback(None) from None
