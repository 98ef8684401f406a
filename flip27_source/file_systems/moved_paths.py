"""Rewriting paths: files that have moved since the state was written.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic

from ..options import Options, maybe_json
from ..split import SplitT
from .paths import canonical_path


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRule:
    """Files below ``old`` are now below ``new``; neither ends in a slash."""

    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRewrite:
    """One move of files: the rule with the longest matching ``old`` applies to a path."""

    rules: tuple[PathRule, ...]

    def now(self, path: str) -> str:
        """The new path of the file that was at ``path``."""
        return _replaced(path, [(rule.old, rule.new) for rule in self.rules])

    def before(self, path: str) -> str | None:
        """The former path of the file at ``path``; None if files were moved away from that place.

        A file at such a path did not take part in the move: it is a new file under an old path.
        """
        former = _replaced(path, [(rule.new, rule.old) for rule in self.rules])
        return former if self.now(former) == path else None


class RewritesPaths(ABC, Generic[SplitT]):
    """Optional power of an enumerator: rewrites the paths in its state and splits after files were moved.

    Called once, when a query starts from a savepoint with ``pathRewrite`` set. The enumerator is made
    from the rewritten state. Pure.
    """

    @classmethod
    @abstractmethod
    def rewrite_split(cls, split: SplitT, rewrite: PathRewrite) -> SplitT:
        """The split with its new path; its position is unchanged."""

    @classmethod
    def rewrite_state(cls, state: Any, rewrite: PathRewrite, options: Options) -> Any:
        """The enumerator's state, with all splits and paths in it rewritten.

        If the state stores hashes of paths, keep ``rewrite`` in the state and look files up by
        :meth:`PathRewrite.before`. The default is for states that contain no path.
        """
        return state


def is_at_or_below(path: str, folder: str) -> bool:
    """Whether a path is ``folder`` or below it; an HTTP URL may continue with parameters."""
    ends = ("/", "?") if folder.startswith(("http://", "https://")) else ("/",)
    return path == folder or path.startswith(tuple(folder.rstrip("/") + end for end in ends))


def before_moves(path: str, moves: Iterable[PathRewrite]) -> str:
    """The path of a file before all these moves, which are given oldest first.

    For a file that was created after one of the moves, under an old path, the result is a text that is never
    a path.
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
        ValueError: the value is neither, or a path is given twice on one side.
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
        "pairs are expected: /old=/new, /other=/place; or JSON if a path contains = or a comma: "
        '{"/old": "/new"}'
    )
    pairs: Any
    if value.startswith("{"):
        decoded = maybe_json(value)
        pairs = list(decoded.items()) if isinstance(decoded, dict) else []
    else:
        pairs = [tuple(side.strip() for side in part.split("=")) for part in value.split(",")]
    if not pairs or not all(
        len(pair) == 2 and all(isinstance(side, str) and side for side in pair) for pair in pairs
    ):
        raise ValueError(expected)
    return pairs  # type: ignore[no-any-return]


def _replaced(path: str, prefixes: Iterable[tuple[str, str]]) -> str:
    matching = [(old, new) for old, new in prefixes if is_at_or_below(path, old)]
    if not matching:
        return path
    old, new = max(matching, key=lambda pair: len(pair[0]))
    return new.rstrip("/") + path[len(old.rstrip("/")) :]
