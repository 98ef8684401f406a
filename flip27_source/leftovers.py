"""What a query leaves on other systems when it ends: for ``flip27 retire``, and the mix-in of enumerators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One thing that a query has created on another system, or has used there, and that still exists.

    Attributes:
        kind: one of the enumerator's ``leaves``; with ``--keep KIND`` it stays.
        name: its name on the other system.
        details: what it holds, or why it stays; contains no secret.
        remove: removes it, after checking again that no query uses it; no error if it is gone by then. None
            if it has to stay.
    """

    kind: str
    name: str
    details: str
    remove: Callable[[], None] | None = None


class LeavesThings(ABC):
    """Optional mix-in of an enumerator whose queries create things on other systems.

    Attributes:
        leaves: the kinds of these things, each one word, such as ``slot``.
    """

    leaves: ClassVar[Sequence[str]]

    @classmethod
    def kept_at_end(cls, state: Any) -> str | None:
        """What makes another system keep data although nothing reads it any more, and what removes it; None:
        nothing does. The driver's log says it once a source of a chain has ended. No I/O.

        Args:
            state: a value of ``snapshot_state``.
        """
        return None

    @classmethod
    @abstractmethod
    def leftovers(cls, options: Options, state: Any) -> Iterable[Leftover]:
        """What exists of the things that a query has left, in the order in which they are removed.

        It may do I/O, but changes nothing.

        Args:
            options: the options that the user gives to reach the other systems; any may be missing.
            state: the query's newest state, as JSON.

        Raises:
            Flip27Error: an option is missing, the system cannot be reached, or a query uses the things.
        """
