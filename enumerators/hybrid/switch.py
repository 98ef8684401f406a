"""Where a source of a chain starts: the place at which the source before it has ended. Pure.

Options of the later source contain it as ``{switch}``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from flip27_source.errors import OptionError
from flip27_source.event_time import begins_at, microseconds_of, moment_of
from flip27_source.options import ANY_TEXT, Option

PLACEHOLDER = re.compile(r"\{switch(?::(\w+))?\}")
_FORMS = ("iso", "ms", "sql")
_EARLIER_US = 1000
"""A source starts a millisecond earlier: for some the start is excluded, and others know no microseconds."""


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
        earlier_us = round(overlap_s * 1_000_000) + _EARLIER_US
        return cls(time_us=max(microseconds_of(position) - earlier_us, 0))

    def forms(self) -> dict[str, str]:
        """The texts that may stand for the place in an option, by the name of the form."""
        if self.time_us is None:
            return {"": self.text or ""}
        moment = moment_of(self.time_us)
        iso = moment.replace(tzinfo=None).isoformat()
        return {"iso": f"{iso}Z", "ms": str(self.time_us // 1000), "sql": iso.replace("T", " ")}

    def __str__(self) -> str:
        return next(iter(self.forms().values()))


_TEXTS = (Switch(text="0"), Switch(text="0/0"), Switch(text="{}"))
BEGINNING = Switch(time_us=0)
"""Where a source starts if the one before it was empty."""


def until(begins: dt.datetime | None, overlap_s: float) -> int | None:
    """The event time to which a source is read if the next one has all from ``begins`` on, in microseconds
    since the epoch; None: to its end."""
    return None if begins is None else microseconds_of(begins) + round(overlap_s * 1_000_000)


def read_before(splits: Sequence[Any], until_us: int | None) -> Sequence[Any]:
    """Those of splits in event-time order that are read until all others begin at a time or later."""
    read = list(splits)
    while until_us is not None and read and begins_at(read[-1]) >= until_us:
        read.pop()
    return read


def has_switch(text: str) -> bool:
    """Whether the value of an option contains the place at which the source before has ended."""
    return PLACEHOLDER.search(text) is not None


def with_switch(
    texts: Mapping[str, str], switch: Switch, declared: Mapping[str, Option[Any]]
) -> dict[str, str]:
    """The texts of options, with the place in them.

    An event time is written as its option takes it: as a time (ISO 8601, UTC), or else in milliseconds since
    the epoch. ``{switch:ms}``, ``{switch:iso}`` and ``{switch:sql}`` choose.

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
                    remedy="write {switch}, {switch:ms}, {switch:iso} or {switch:sql}",
                )


def check_forms(texts: Mapping[str, str], declared: Mapping[str, Option[Any]], *, is_time: bool) -> None:
    """Refuse options that take no place, as far as that can be told before the place is known.

    Args:
        is_time: whether the place will be a time.

    Raises:
        OptionError: an option takes none of the forms, or any text, so that the form has to be chosen.
    """
    for name, text in texts.items():
        option, found = declared.get(name), PLACEHOLDER.search(text)
        if found is None:
            continue
        if is_time and found[1] is None and (option is None or option.parse is ANY_TEXT):
            raise OptionError(
                f"option {name if option is None else option.name} is {text!r}: the place is a time, and the "
                "option takes any text",
                remedy="choose its form: {switch:iso} is 2026-01-31T13:00:00Z, {switch:sql} is 2026-01-31 "
                "13:00:00, and {switch:ms} is milliseconds since 1970, all in UTC",
            )
        samples = (BEGINNING,) if is_time else _TEXTS
        if not any(_takes(name, text, sample, option) for sample in samples):
            _filled(name, text, samples[0], option)


def _takes(name: str, text: str, sample: Switch, option: Option[Any] | None) -> bool:
    try:
        _filled(name, text, sample, option)
    except OptionError:
        return False
    return True


def _filled(name: str, text: str, switch: Switch, option: Option[Any] | None) -> str:
    asked = {found[1] for found in PLACEHOLDER.finditer(text)}
    if not asked:
        return text
    name = name if option is None else option.name
    forms = switch.forms()
    if unknown := asked - forms.keys() - {None}:
        raise OptionError(
            f"option {name} is {text!r}, and the source before it has ended at {switch}, which has no form "
            f"{', '.join(sorted(map(str, unknown)))}",
            remedy="write {switch}",
        )
    said: Exception | None = None
    for form in forms.values():

        def value(found: re.Match[str], form: str = form) -> str:
            return forms[found[1]] if found[1] is not None else form

        filled = PLACEHOLDER.sub(value, text)
        try:
            if option is not None:
                option.parse(filled)
            return filled
        except (ValueError, OverflowError) as error:
            said = error
    raise OptionError(
        f"option {name} is {text!r}, and takes no value such as {' or '.join(forms.values())}: {said}",
        remedy="set it to a place that the source before it tells, or to a fixed value",
    )
