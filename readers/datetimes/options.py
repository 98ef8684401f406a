"""The options for dates and timestamps.

The coordinator's process imports them. What must not live here: code that reads texts, because its import
takes time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flip27_source.options import Option, ReadingOption, boolean, optional

if TYPE_CHECKING:
    from flip27_source.readers.datetimes.patterns import DateTimePattern


def _pattern(value: str) -> DateTimePattern:
    from flip27_source.readers.datetimes.patterns import datetime_pattern

    return datetime_pattern(value)


def _format(name: str, doc: str) -> Option[DateTimePattern | None]:
    return ReadingOption(
        name=name,
        parse=optional(_pattern),
        default_text="the formats of a cast",
        doc=f"Pattern of {doc}. A text that does not match is malformed.",
    )


DATE_FORMAT = _format("dateFormat", "dates, such as dd/MM/yyyy")
TIMESTAMP_FORMAT = _format("timestampFormat", "timestamps, such as dd.MM.yyyy HH:mm[:ss][XXX]")
TIMESTAMP_NTZ_FORMAT = _format("timestampNTZFormat", "timestamps without a time zone")
DATETIME_FALLBACK: Option[bool | None] = ReadingOption(
    name="enableDateTimeParsingFallback",
    parse=optional(boolean),
    default_text="true if no pattern is given",
    doc="Parse dates and timestamps that do not match their pattern like a cast to date or timestamp.",
)
DATETIME_OPTIONS: tuple[Option[Any], ...] = (
    DATE_FORMAT, TIMESTAMP_FORMAT, TIMESTAMP_NTZ_FORMAT, DATETIME_FALLBACK,
)  # fmt: skip
