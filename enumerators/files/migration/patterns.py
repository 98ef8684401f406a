"""Finds the path that contains all files of a list, for the options of a query. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flip27_source.enumerators.files.globs import has_glob


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPattern:
    """Where the files of a list are.

    Attributes:
        path: a directory or a glob; None if the files have no directory in common.
        is_recursive: whether the files are in directories at different depths.
    """

    path: str | None
    is_recursive: bool


def pattern_of(paths: Iterable[str]) -> FoundPattern:
    """The narrowest path that finds all of these files.

    Directories of partitions (``day=1``) belong to the directory above them. A directory that contains all
    files is preferred to a glob if the directories below it have different depths.
    """
    folders = sorted({_above_partitions(folder) for folder in {path.rpartition("/")[0] for path in paths}})
    parts = [folder.split("/") for folder in folders]
    common = _common(parts)
    top = "/".join(common)
    if not top.strip("/") or top.endswith((":", ":/")):
        return FoundPattern(path=None, is_recursive=False)
    depths = {len(one) for one in parts}
    if depths == {len(common)}:
        return FoundPattern(path=top, is_recursive=False)
    if len(depths) > 1 or has_glob(top):
        return FoundPattern(path=top, is_recursive=True)
    levels = zip(*(one[len(common) :] for one in parts), strict=True)
    globs = [names[0] if len(set(names)) == 1 and not has_glob(names[0]) else "*" for names in levels]
    return FoundPattern(path="/".join([top, *globs]), is_recursive=False)


def _above_partitions(folder: str) -> str:
    while "=" in (name := folder.rpartition("/"))[2]:
        folder = name[0]
    return folder


def _common(parts: list[list[str]]) -> list[str]:
    common: list[str] = []
    for names in zip(*parts, strict=False):
        if len(set(names)) > 1:
            break
        common.append(names[0])
    return common
