"""The names that Hadoop has for files, and which files Spark cannot be given. Pure.

Spark reads a path as a glob, resolves ``.`` and ``..`` in it, and silently leaves out files with hidden
names. A path must name exactly one file, so special characters are escaped and such names are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from flip27_source.enumerators.files.listing.lister import is_hidden
from flip27_source.errors import SplitReadError
from flip27_source.file_systems.paths import local_path, shown_path

_GLOB = re.compile(r"[\\*?\[\]{}]")
_NOT_HADOOPS = frozenset({"az", "http", "https", "memory"})
_SCHEMES = {"s3": "s3a", "gcs": "gs"}


def hadoop_path(path: str, prefixes: Mapping[str, str]) -> str:
    """The path of a file for ``spark.read.load``, which reads it as a glob.

    Args:
        path: the path of a file as flip27 writes it.
        prefixes: prefixes of paths and their replacements; the longest matching prefix is used.

    Raises:
        SplitReadError: Spark cannot read a file with this path.
    """
    named = hadoop_name(path, prefixes)
    _check_name(path, named)
    return _GLOB.sub(r"\\\g<0>", named)


def hadoop_name(path: str, prefixes: Mapping[str, str]) -> str:
    """Hadoop's name of a file or directory: as ``hadoop_path``, but neither checked nor escaped as a glob."""
    local = local_path(path)
    prefix = max((one for one in prefixes if path.startswith(one)), key=len, default=None)
    if prefix is not None:
        return prefixes[prefix] + path[len(prefix) :]
    return _with_hadoops_scheme(path) if local is None else f"file:{local}"


def _with_hadoops_scheme(path: str) -> str:
    scheme, separator, rest = path.partition("://")
    has_no_account = scheme in ("abfs", "abfss") and "@" not in rest.partition("/")[0]
    if scheme in _NOT_HADOOPS or has_no_account:
        raise SplitReadError(
            f"{shown_path(path)} cannot be read by Spark: Hadoop has no file system for {scheme}://",
            remedy="set hadoopPrefixes to a JSON object that replaces the beginning of such paths, such as "
            '{"az://in/": "abfss://in@account.dfs.core.windows.net/"}, or read the files with a reader of '
            "flip27",
        )
    return f"{_SCHEMES.get(scheme, scheme)}{separator}{rest}"


def _check_name(path: str, named: str) -> None:
    parts = named.partition("://")[2].split("/")[1:] if "://" in named else named.split("/")[1:]
    name = parts[-1] if parts else ""
    why = None
    if "\0" in path:
        why = "its name is not valid UTF-8"
    elif "" in parts or "." in parts or ".." in parts:
        why = "Hadoop resolves empty parts, . and .. in a path"
    elif ":" in name and named.startswith("file:"):
        why = "Hadoop cannot open local files whose names contain a colon"
    elif _GLOB.search(named) and any(":" in part for part in parts):
        why = "Hadoop cannot open a path with a colon and one of * ? [ ] { } \\"
    elif is_hidden(name):
        why = "Spark leaves out files whose names begin with _ or . or end with ._COPYING_"
    if why is not None:
        raise SplitReadError(
            f"{shown_path(path)} cannot be read by Spark: {why}",
            remedy="rename the file, exclude it by pathGlobFilter, or read it with a reader of flip27",
        )
