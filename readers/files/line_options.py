"""The option of all readers of lines; the coordinator's process imports it without code that reads lines."""

from __future__ import annotations

from flip27_source.options import Option, ReadingOption, size_bytes

MAX_LINE_BYTES: Option[int] = ReadingOption(
    name="maxLineBytes",
    parse=size_bytes,
    default=256 << 20,
    default_text="256m",
    doc="Maximum length of a line. A file with a longer line fails or is quarantined, with the position "
    "of the line.",
)
