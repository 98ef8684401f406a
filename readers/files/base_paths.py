"""BasePaths: the directories below which the names of directories are partition columns. No I/O.

What must not live here: the types of partition columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from flip27_source.enumerators.files.globs import NameTest, expand_paths, has_glob, name_test, split_glob
from flip27_source.enumerators.files.options import PATHS
from flip27_source.errors import OptionError
from flip27_source.file_systems.paths import given_name, listed_name, local_path, location
from flip27_source.options import Option, Options, ReadingOption, optional
from flip27_source.source_options import PATH

BASE_PATH: Option[str | None] = ReadingOption(
    name="basePath",
    parse=optional(location),
    default_text="the path",
    doc="Directories named key=value below it are partition columns.",
)


_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePaths:
    """The base path of each file: ``basePath``, or the one of the given paths that contains the file.

    Attributes:
        depth: how many components of a file's path belong to its base path, if ``names`` is empty or no name
            contains the file.
        names: the names of the given paths in their file systems, with globs, if there are several.
    """

    depth: int
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Options) -> BasePaths | None:
        """The base paths of a source; None if names of directories have no meaning."""
        # As in Spark, with this option of the enumerator.
        if options.get("recursiveFileLookup", False):
            return None
        base = options[BASE_PATH]
        given = (options.get(PATH.name), *(options.get(PATHS.name) or ())) if base is None else (base,)
        names = tuple(dict.fromkeys(_name_of(path) for path in given if path is not None))
        depth = len(parts_of(names[0])) if names else 0
        return cls(depth=depth, names=names if len(names) > 1 else ())

    def depth_of(self, folder: Sequence[str]) -> int:
        """How many components of a directory's path belong to its base path.

        A directory in several of the given paths has the partition columns of the shortest one.
        """
        tests = map(_tests_of, self.names)
        return min((len(test) for test in tests if _is_found(folder, test)), default=self.depth)

    def partitions_of(self, folder: str) -> list[tuple[str, str]]:
        """The partition columns in the path of a directory: their names, and their values as in the path."""
        parts = parts_of_listed(folder)
        pairs = (part.partition("=") for part in parts[self.depth_of(parts) :] if "=" in part)
        return [(unescaped(key), raw) for key, _, raw in pairs]


def unescaped(name: str) -> str:
    """A name or a value of a partition column without percent escapes."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), name)


def parts_of_listed(path: str) -> list[str]:
    local = local_path(path)
    return parts_of(listed_name(path) if local is None else local)


def parts_of(name: str) -> list[str]:
    """The components of a name in its file system."""
    return [part for part in name.split("/") if part]


def _name_of(path: str) -> str:
    # A glob is as deep as the path that it matches, unless its braces contain slashes.
    return given_name(path if expand_paths(path) == [path] else split_glob(path)[0])


@lru_cache(maxsize=256)
def _tests_of(name: str) -> tuple[NameTest, ...]:
    return tuple(_test_of(part) for part in parts_of(name))


def _test_of(part: str) -> NameTest:
    try:
        matches = name_test(part) if has_glob(part) else part.__eq__
    except OptionError:  # a directory that a path names literally
        return part.__eq__
    return lambda name: name == part or matches(name)


def _is_found(folder: Sequence[str], tests: Sequence[NameTest]) -> bool:
    """Whether a listing of a path finds files in a folder; the last part of a glob may match files."""
    if not all(test(part) for part, test in zip(folder, tests, strict=False)):
        return False
    return all("=" in part for part in folder[len(tests) :])
