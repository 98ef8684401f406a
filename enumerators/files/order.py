"""The order in which files are read: within one listing, and between listings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from flip27_source.discovery import Page
from flip27_source.enumerators.files.split import FileSplit

_ORDERS: dict[str, Callable[[FileSplit], Any]] = {
    "modified": lambda file: (file.modified_us, file.path),
    "name": lambda file: file.path,
    "size": lambda file: (file.length, file.path),
}


def put_in_order(files: list[FileSplit], order: str, *, latest_first: bool) -> None:
    """Sort whole files, before they are cut into ranges."""
    files.sort(key=_ORDERS[order], reverse=latest_first)


def merged_latest_first(pages: Iterable[Page[FileSplit]]) -> deque[Page[FileSplit]]:
    """The pages, newest first; small pages are joined to the next older page.

    A page is joined to the older page unless that is at least twice as large, as for pages in discovery
    order. So each split is rewritten at most a logarithmic number of times.
    """
    merged: deque[Page[FileSplit]] = deque()
    for page in reversed(list(pages)):
        merged.appendleft(page)
        while len(merged) > 1 and merged[1].left < 2 * merged[0].left:
            newer, older = merged.popleft(), merged.popleft()
            merged.appendleft(Page([*newer.splits[newer.taken :], *older.splits[older.taken :]]))
    return merged
