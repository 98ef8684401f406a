"""The order in which the files of one listing are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flip27_source.enumerators.files.split import FileSplit

_ORDERS: dict[str, Callable[[FileSplit], Any]] = {
    "modified": lambda file: (file.modified_us, file.path),
    "name": lambda file: file.path,
    "size": lambda file: (file.length, file.path),
}


def put_in_order(files: list[FileSplit], order: str, *, latest_first: bool) -> None:
    """Sort whole files, before they are cut into ranges."""
    files.sort(key=_ORDERS[order], reverse=latest_first)
