"""The options of several readers of text.

The coordinator's process imports them. What must not live here: code that reads files, because its import
takes time.
"""

from __future__ import annotations

from dataclasses import dataclass

from flip27_source.options import Option, ReadingOption, T, one_of, size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeFilesOption(ReadingOption[T]):
    """An option with which files are not cut into ranges, unless it has its default."""

    change_note: str | None = "refused while ranges of a file wait"


MODE = ReadingOption(
    name="mode",
    parse=one_of("PERMISSIVE", "DROPMALFORMED", "FAILFAST"),
    doc="How to handle malformed lines: PERMISSIVE keeps the values that can be read, DROPMALFORMED "
    "drops the lines, FAILFAST stops the query.",
)
CORRUPT_RECORD_COLUMN = ReadingOption(
    name="columnNameOfCorruptRecord",
    default="_corrupt_record",
    doc="String column for malformed lines in PERMISSIVE mode; filled only if the schema has the column.",
)
MAX_LINE_BYTES: Option[int] = ReadingOption(
    name="maxLineBytes",
    parse=size_bytes,
    default_text="256m",
    doc="Maximum length of a line. A file with a longer line fails or is quarantined, with the position "
    "of the line.",
)
