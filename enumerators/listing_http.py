"""Listing a web server: the links of its pages are all that it says of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flip27_source.enumerators.listing import FsspecLister


class HttpLister(FsspecLister):
    """Follows the links of a directory's page; size and time of a new file are asked for one by one."""

    def _entries(self, folder: str, *, recursive: bool) -> Iterator[Mapping[str, Any]]:
        for info in super()._entries(folder, recursive=recursive):
            # Pages also link to themselves in another order, and write the = of partitions in two ways.
            if "?" not in info["name"]:
                yield {**info, "name": info["name"].replace("%3D", "=").replace("%3d", "=")}
