"""Compares the identity of stored state with a source. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .._version import __version__
from ..enumerator import SplitEnumerator
from ..options import Options
from ..source import Source
from .documents import CheckpointDocument, SourceIdentity

ANY_READER = ""
"""The reader in a savepoint that a source with any reader may start from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference between stored state and a source.

    Attributes:
        is_fatal: the source's enumerator cannot use the state.
    """

    what: str
    was: object
    now: object
    is_fatal: bool = True

    def __str__(self) -> str:
        return f"{self.what}: was {self.was!r}, is {self.now!r}"


def differences(
    stored: SourceIdentity, mine: SourceIdentity, given: Options | None = None
) -> list[Difference]:
    """The differences that keep a query from continuing from its own checkpoint.

    Args:
        given: the options of ``mine``, so that their values are compared; None to compare their texts.
    """
    named = [("uid", stored.uid, mine.uid), ("enumerator", stored.enumerator, mine.enumerator)]
    options = [
        (name, stored.start_options.get(name), mine.start_options.get(name))
        for name in sorted(stored.start_options.keys() | mine.start_options.keys())
    ]
    return [
        *(Difference(what=what, was=was, now=now) for what, was, now in named if was != now),
        # Start options already took effect on the state and are not used again.
        *(
            Difference(what=f"option {name}", was=was, now=now, is_fatal=False)
            for name, was, now in options
            if was != now and not (given is not None and given.is_same_value(name, was))
        ),
    ]


def savepoint_differences(document: CheckpointDocument, source: Source) -> list[Difference]:
    """The differences that keep a query from starting from a savepoint, with reader and type versions."""
    stored, mine = document.source, identity_of(source)
    result = differences(stored, mine, source.options)
    if stored.reader not in (ANY_READER, mine.reader):
        result.append(Difference(what="reader", was=stored.reader, now=mine.reader, is_fatal=False))
    for what, was, now in (
        ("state", document.raw.enumerator.version, mine.state_version),
        ("split", stored.split_version, mine.split_version),
    ):
        if was > now or (was < now and not _can_upgrade(source.enumerator_type, f"upgrade_{what}")):
            result.append(Difference(what=f"{what} version", was=was, now=now))
    return result


def as_lines(differences: Iterable[Difference]) -> str:
    """One indented line for each difference."""
    return "".join(f"\n    {difference}" for difference in differences)


def _can_upgrade(enumerator_type: type[SplitEnumerator[Any]], hook: str) -> bool:
    own, default = getattr(enumerator_type, hook), getattr(SplitEnumerator, hook)
    return own.__func__ is not default.__func__


def identity_of(source: Source, *, reader_name: str | None = None) -> SourceIdentity:
    """The identity that a source's documents store; ``reader_name`` replaces the reader's own name."""
    return SourceIdentity(
        uid=source.uid,
        enumerator=source.enumerator_name,
        reader=source.reader_name if reader_name is None else reader_name,
        state_version=source.enumerator_type.state_version,
        split_version=source.enumerator_type.split_version,
        library=__version__,
        start_options=source.options.first_start_values(),
    )
