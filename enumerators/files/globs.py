"""Hadoop's globs: ``*``, ``?``, ``[a-z]``, ``[^a]``, ``{a,b}``, and a backslash before a literal. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from flip27_source.errors import OptionError

NameTest = Callable[[str], object]
"""Returns a true value if a name matches."""


_PART = re.compile(r"\\(.)|\[([!^]?)((?:\\.|[^\\])(?:\\.|[^\]\\])*)\]|(.)", re.DOTALL)
"""A part of a glob: a character after a backslash, a class of characters, or another character."""
_IN_CLASS = re.compile(r"\\(.)|([^-])", re.DOTALL)


def name_test(pattern: str) -> NameTest:
    """The test whether a whole name matches the glob.

    Raises:
        OptionError: the glob is malformed.
    """
    parts: list[str] = []
    braces = 0
    for escaped, negation, characters, other in _PART.findall(pattern):
        meanings = {"*": ".*", "?": ".", "{": "(?:"} | ({"}": ")", ",": "|"} if braces else {})
        if characters:
            literal = _IN_CLASS.sub(lambda match: re.escape(match[1] or match[2]), characters)
            parts.append(f"[{negation and '^'}{literal}]")
        elif other in ("[", "\\"):
            raise _malformed(pattern, "has an unclosed [" if other == "[" else "ends with a backslash")
        else:
            parts.append(meanings.get(other) or re.escape(escaped or other))
        braces += {"{": 1, "}": -1 if braces else 0}.get(other, 0)
    if braces:
        raise _malformed(pattern, "has an unclosed {")
    try:
        return re.compile("".join(parts), re.DOTALL).fullmatch
    except re.error as error:
        raise _malformed(pattern, f"is malformed: {error}") from None


def _malformed(pattern: str, problem: str) -> OptionError:
    return OptionError(
        f"the glob {pattern!r} {problem}",
        remedy="correct it, or write a backslash before a character that stands for itself",
    )


def any_name(_name: str) -> bool:
    return True


def expand_braces(pattern: str) -> list[str]:
    """``a{b,c}d`` as ``abd`` and ``acd``."""
    match = re.search(r"(?<!\\)\{([^{}]*)\}", pattern)
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
    if re.search(r"(?<!\\)\{[^{}]*/[^{}]*\}", path) is None:
        return [path]
    return [_as_glob(choice) for choice in expand_braces(path)]


def _as_glob(path: str) -> str:
    parent, slash, name = path.rstrip("/").rpartition("/")
    return path if has_glob(path) else f"{parent}{slash}[\\{name[:1]}]{name[1:]}"
