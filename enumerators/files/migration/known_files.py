"""Files that another system has read, as the start of a flip27 query. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flip27_source.discovery import DiscoveringState
from flip27_source.enumerators.files.known.hashes import SeenFiles, path_hash
from flip27_source.enumerators.files.known.strategy import NOTHING


def state_with_known(paths: Iterable[str], *, newest_us: int, name_only: bool) -> DiscoveringState[Any]:
    """The state of an enumerator that knows these files and no others, and has none waiting.

    Args:
        newest_us: the modification time of the newest of them, microseconds since the epoch.
        name_only: files are identified only by their names (``fileNameOnly``).
    """
    hashes = list(dict.fromkeys(path_hash(path.rpartition("/")[2] if name_only else path) for path in paths))
    seen = SeenFiles()
    if hashes:
        seen.add(hashes)
    position = replace(NOTHING, seen=seen.runs, files=len(hashes), newest_us=newest_us)
    return DiscoveringState(position=position, pages=())
