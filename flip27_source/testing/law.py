"""Laws: statements that must hold for every source or store, each with a check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..values.differences import shown

SubjectT = TypeVar("SubjectT")

SHOWN = 5
"""Maximum number of values of a kind in a message."""


class LawBroken(AssertionError):  # noqa: N818 - the name says what happened
    """The checked object breaks a law.

    Attributes:
        law: the text of the law; one of those in ``laws``.
        found: the finding, with the values.
    """

    def __init__(self, law: str, found: str) -> None:
        super().__init__(f"broken law: {law}\n  found: {found}")
        self.law = law
        self.found = found


class TrivialInput(ValueError):  # noqa: N818
    """The input is too small for the check; the message says what to provide."""


class Disagreement(Exception):  # noqa: N818
    """Raised by a check whose finding contradicts the law."""


@dataclass(frozen=True, slots=True)
class Law(Generic[SubjectT]):
    """A law and its check.

    Attributes:
        text: the law as a sentence.
        check: raises Disagreement, or any error of the subject, if the law is broken.
    """

    text: str
    check: Callable[[SubjectT], None]


def enforce(laws: Iterable[Law[SubjectT]], subject: SubjectT) -> None:
    """Check laws in order.

    Raises:
        LawBroken: the law is broken, the first one.
        TrivialInput: the subject is too small for the check.
    """
    for law in laws:
        try:
            law.check(subject)
        except (TrivialInput, LawBroken):
            raise
        except Disagreement as disagreement:
            raise LawBroken(law.text, str(disagreement)) from None
        except Exception as error:
            notes = [f"  {note}" for note in getattr(error, "__notes__", ())]
            raise LawBroken(law.text, "\n".join([f"{type(error).__name__}: {error}", *notes])) from error


def agree(what: str, found: object, expected: object) -> None:
    """Raise Disagreement unless both are equal."""
    if found != expected:
        raise Disagreement(f"{what}: {shown(found)}; expected {shown(expected)}")


def agree_in_any_order(
    what: str,
    found: Sequence[Any],
    expected: Sequence[Any],
    *,
    columns: Sequence[str] = (),
    told: Callable[[list[Any], list[Any]], str] | None = None,
) -> None:
    """Raise Disagreement unless both hold the same values equally often.

    Args:
        columns: names of the values' parts, if they are rows.
        told: says more about what is missing and what is too many.
    """
    # Compared by repr: rows may hold lists, which have no hash, and NaN, which equals nothing.
    have, want = Counter(map(repr, found)), Counter(map(repr, expected))
    if have == want:
        return
    text = (
        f"{what}: {len(found)} instead of {len(expected)}"
        + _some("missing", want - have)
        + _some("too many", have - want)
    )
    values = {repr(value): value for value in (*found, *expected)}
    missing, excess = ([values[text] for text in counted] for counted in (want - have, have - want))
    changed = _changed_columns(missing, excess, columns)
    if changed:
        raise Disagreement(
            f"{text}; no row is lost: these differ only in {', '.join(changed)}. A value that depends on how "
            "or when a row is read, such as a position or a time, does not belong into the check"
        )
    raise Disagreement(text + ("" if told is None else told(missing, excess)))


def _changed_columns(
    missing: Sequence[Any], excess: Sequence[Any], columns: Sequence[str]
) -> dict[str, None]:
    """The columns in which rows differ that are otherwise the same, in order; empty if rows are lost."""
    changed: dict[str, None] = {}
    left = list(excess)
    if len(missing) != len(left) or len(columns) < 2:
        return {}
    for row in missing:
        nearest = min(left, key=lambda other: len(_differing(row, other, columns)))
        differing = _differing(row, nearest, columns)
        if len(differing) == len(columns):
            return {}
        left.remove(nearest)
        changed |= dict.fromkeys(differing)
    return changed


def _differing(row: Any, other: Any, columns: Sequence[str]) -> list[str]:
    values = zip(columns, row, other, strict=True)
    return [name for name, one, another in values if repr(one) != repr(another)]


def same_in_order(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether both hold the same values in the same order."""
    return list(map(repr, found)) == list(map(repr, expected))


def _some(what: str, counted: Counter[str]) -> str:
    if not counted:
        return ""
    few = ", ".join(text[:200] for text in list(counted)[:SHOWN])
    more = "" if len(counted) <= SHOWN else f" and {len(counted) - SHOWN} more"
    return f"; {what}: {few}{more}"
