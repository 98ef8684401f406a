"""Rewriting paths: files that lie elsewhere than where the state says, because they were moved.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic

from ..options import Options
from ..split import SplitT
from .paths import canonical_path


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRule:
    """What was below ``old`` is below ``new``; neither ends in a slash."""

    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRewrite:
    """One move of files: the longest ``old`` that a path begins with says where it went."""

    rules: tuple[PathRule, ...]

    def now(self, path: str) -> str:
        """Where a file is that was at ``path``."""
        return _replaced(path, [(rule.old, rule.new) for rule in self.rules])

    def before(self, path: str) -> str | None:
        """Where a file was that is at ``path``; None for one that lies where others were moved away from.

        Such a file cannot have come by the move: it is another one than the one that was there before.
        """
        former = _replaced(path, [(rule.new, rule.old) for rule in self.rules])
        return former if self.now(former) == path else None


class RewritesPaths(ABC, Generic[SplitT]):
    """Optional power of an enumerator: its state and splits can be told that what they name was moved.

    Called when a query begins with a savepoint and ``pathRewrite`` is set, once; what is changed is
    the state that the enumerator is made from. Pure.
    """

    @classmethod
    @abstractmethod
    def rewrite_split(cls, split: SplitT, rewrite: PathRewrite) -> SplitT:
        """The split at its new place; its position stays."""

    @classmethod
    def rewrite_state(cls, state: Any, rewrite: PathRewrite, options: Options) -> Any:
        """The enumerator's state, with all splits and paths in it rewritten.

        What is known by a hash of its path has to be looked for by :meth:`PathRewrite.before` from
        now on: keep ``rewrite`` in the state. The default is for states that name no path.
        """
        return state


def is_at_or_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it; a URL of HTTP may go on with parameters."""
    ends = ("/", "?") if folder.startswith(("http://", "https://")) else ("/",)
    return path == folder or path.startswith(tuple(folder.rstrip("/") + end for end in ends))


def before_moves(path: str, moves: Iterable[PathRewrite]) -> str:
    """Where a file was before all these moves, the oldest of which comes first.

    A file that came into being between two of them gets a name that no path has.
    """
    for number, move in reversed(list(enumerate(moves))):
        former = move.before(path)
        if former is None:
            return f"\0{number}{path}"
        path = former
    return path


def path_rewrite(value: str) -> PathRewrite:
    """``/old=/new, s3://old-bucket/in=s3://new-bucket/in``, or a JSON object.

    Raises:
        ValueError: it is neither, or it is not clear where a file went or came from.
    """
    rules = tuple(
        PathRule(old=canonical_path(old), new=canonical_path(new)) for old, new in _pairs(value.strip())
    )
    for side in ("old", "new"):
        ends = [getattr(rule, side) for rule in rules]
        if len(set(ends)) < len(ends):
            raise ValueError(f"each {side} path may be given once")
    return PathRewrite(rules=rules)


def _pairs(value: str) -> list[tuple[str, str]]:
    expected = (
        'pairs are expected: /old=/new, /other=/place; where a path holds = or a comma {"/old": "/new"}'
    )
    found: Any
    if value.startswith("{"):
        try:
            found = list(json.loads(value).items())
        except ValueError:
            raise ValueError(expected) from None
    else:
        found = [tuple(side.strip() for side in part.split("=")) for part in value.split(",")]
    if not found or not all(len(pair) == 2 and _are_texts(pair) for pair in found):
        raise ValueError(expected)
    return found  # type: ignore[no-any-return]


def _are_texts(pair: tuple[Any, ...]) -> bool:
    return all(isinstance(side, str) and side for side in pair)


def _replaced(path: str, prefixes: Iterable[tuple[str, str]]) -> str:
    matching = [(old, new) for old, new in prefixes if is_at_or_below(path, old)]
    if not matching:
        return path
    old, new = max(matching, key=lambda pair: len(pair[0]))
    return new.rstrip("/") + path[len(old.rstrip("/")) :]
