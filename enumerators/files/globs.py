"""Hadoop's globs: ``*``, ``?``, ``[a-z]``, ``[^a]``, ``{a,b}``. Pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

NameTest = Callable[[str], object]
"""Returns a true value if a name matches."""


def name_test(pattern: str) -> NameTest:
    """The test whether a whole name matches the glob."""
    # Hadoop writes [^a] for what fnmatch writes [!a].
    parts = expand_braces(pattern.replace("[^", "[!"))
    expressions = [fnmatch.translate(part) for part in parts]
    return re.compile("|".join(f"(?:{expression})" for expression in expressions)).match


def any_name(_name: str) -> bool:
    return True


def expand_braces(pattern: str) -> list[str]:
    """``a{b,c}d`` as ``abd`` and ``acd``; fnmatch does not support braces."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        return [pattern]
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [expanded for choice in match[1].split(",") for expanded in expand_braces(before + choice + after)]


def has_glob(path: str) -> bool:
    """True if Spark treats the path as a glob."""
    return re.search(r"[*?\[{]", path) is not None


def split_glob(path: str) -> tuple[str, list[str]]:
    """Split a path into the directory before the first glob, and the parts from that glob on.

    Braces that contain slashes must be expanded first (:func:`expand_paths`).
    """
    parts = path.split("/")
    first = next((i for i, part in enumerate(parts) if has_glob(part)), len(parts))
    root = "/".join(parts[:first]) or ("/" if path.startswith("/") else ".")
    return root, [part for part in parts[first:] if part]


def expand_paths(path: str) -> list[str]:
    """The paths of a glob whose braces contain slashes (``/a/{b/c,d}``), one for each choice.

    The last part of each path stays a glob, because it may be a file.
    """
    if re.search(r"\{[^{}]*/[^{}]*\}", path) is None:
        return [path]
    return [_as_glob(choice) for choice in expand_braces(path)]


def _as_glob(path: str) -> str:
    parent, slash, name = path.rstrip("/").rpartition("/")
    return path if has_glob(path) else f"{parent}{slash}[{name[:1]}]{name[1:]}"
