"""Where a source of a chain starts: the place at which the source before it has ended. Pure.

Options of the later source contain it as ``{switch}``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from flip27_source.errors import OptionError
from flip27_source.event_time import EventTimeRange, microseconds_of
from flip27_source.options import Option

PLACEHOLDER = re.compile(r"\{switch(?::(\w+))?\}")
_FORMS = ("iso", "ms")


class Switch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place at which a source has ended; exactly one attribute is set.

    Attributes:
        time_us: an event time, in microseconds since the epoch (UTC).
        text: a place of another kind, as the source names it: a number, an LSN, offsets as JSON.
    """

    time_us: int | None = None
    text: str | None = None

    @classmethod
    def at(cls, position: dt.datetime | str, overlap_s: float) -> Switch:
        """The place where the next source starts: an event time less the overlap, or a text."""
        if isinstance(position, str):
            return cls(text=position)
        return cls(time_us=max(microseconds_of(position) - round(overlap_s * 1_000_000), 0))

    def forms(self) -> dict[str, str]:
        """The texts that may stand for the place in an option, by the name of the form."""
        if self.time_us is None:
            return {"": self.text or ""}
        moment = EventTimeRange(self.time_us, self.time_us).latest
        return {"iso": moment.isoformat(), "ms": str(self.time_us // 1000)}

    def __str__(self) -> str:
        return next(iter(self.forms().values()))


_SAMPLES = (Switch(time_us=0), Switch(text="0"), Switch(text="0/0"), Switch(text="{}"))
BEGINNING = Switch(time_us=0)
"""Where a source starts if the one before it was empty."""


def has_switch(text: str) -> bool:
    """Whether the value of an option contains the place at which the source before has ended."""
    return PLACEHOLDER.search(text) is not None


def with_switch(
    texts: Mapping[str, str], switch: Switch, declared: Mapping[str, Option[Any]]
) -> dict[str, str]:
    """The texts of options, with the place in them.

    An event time is written as its option takes it: as a time (ISO 8601), or else in milliseconds since the
    epoch. ``{switch:ms}`` and ``{switch:iso}`` choose.

    Args:
        declared: the options that are known, by name in lower case.

    Raises:
        OptionError: the option takes no such place.
    """
    return {name: _filled(name, text, switch, declared.get(name)) for name, text in texts.items()}


def check_placeholders(texts: Mapping[str, str]) -> None:
    """Refuse unknown forms of the place.

    Raises:
        OptionError: a form is unknown.
    """
    for name, text in texts.items():
        for found in PLACEHOLDER.finditer(text):
            if found[1] not in (None, *_FORMS):
                raise OptionError(
                    f"option {name} contains {found[0]}, which is unknown",
                    remedy="write {switch}, {switch:ms} or {switch:iso}",
                )


def check_forms(texts: Mapping[str, str], declared: Mapping[str, Option[Any]]) -> None:
    """Refuse options that take no place, as far as that can be told before the place is known.

    Raises:
        OptionError: an option takes neither a time nor a number, or not the form that is chosen.
    """
    for name, text in texts.items():
        found = PLACEHOLDER.search(text)
        if found is not None and not any(
            _takes(name, text, sample, declared.get(name)) for sample in _SAMPLES
        ):
            _filled(name, text, BEGINNING, declared.get(name))


def _takes(name: str, text: str, sample: Switch, option: Option[Any] | None) -> bool:
    try:
        _filled(name, text, sample, option)
    except OptionError:
        return False
    return True


def _filled(name: str, text: str, switch: Switch, option: Option[Any] | None) -> str:
    found = PLACEHOLDER.search(text)
    if found is None:
        return text
    name = name if option is None else option.name
    forms = switch.forms()
    if found[1] is not None and found[1] not in forms:
        raise OptionError(
            f"option {name} is {text!r}, and the source before it has ended at {switch}, which is no time",
            remedy="write {switch}",
        )
    chosen = {found[1]: forms[found[1]]} if found[1] is not None else forms
    said: Exception | None = None
    for form in chosen.values():
        filled = PLACEHOLDER.sub(lambda _, form=form: form, text)  # type: ignore[misc]
        try:
            if option is not None:
                option.parse(filled)
            return filled
        except (ValueError, OverflowError) as error:
            said = error
    raise OptionError(
        f"option {name} is {text!r}, and takes no value such as {' or '.join(chosen.values())}: {said}",
        remedy="set it to a place that the source before it tells, or to a fixed value",
    )
