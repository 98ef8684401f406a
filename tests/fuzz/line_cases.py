"""What cases of text formats share: line ends, packing, cuts, and columns beyond those of the file."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from .case import ENDINGS, Case, LineFile
from .texts import ZONES, calm

DATE_FORMATS = (
    "yyyy-MM-dd", "dd/MM/yyyy", "d.M.yyyy", "MM-dd-yyyy", "yyyyMMdd", "MMM d, yyyy", "yyyy/D",
    "yyyy-MM-dd'T'HH",
)  # fmt: skip
TIME_FORMATS = (
    "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "dd/MM/yyyy HH:mm", "yyyyMMddHHmmss",
    "MM/dd/yyyy hh:mm:ss a", "yyyy-MM-dd HH:mm:ss.SSSSSS", "yyyy-MM-dd",
)  # fmt: skip
OPTIONS_OF_TEXTS = {
    "mode": ("PERMISSIVE", "DROPMALFORMED", "DROPMALFORMED", "FAILFAST"),
    "multiLine": ("true",),
    "dateFormat": DATE_FORMATS,
    "timestampFormat": TIME_FORMATS,
    "timestampNTZFormat": TIME_FORMATS,
    "enableDateTimeParsingFallback": ("true", "false"),
    "timeZone": ZONES,
}
"""The options of both csv and json, with the values to choose from."""

_LINE_ENDS = (b"\n", b"\n", b"\n", b"\r\n", b"\r")


def random_cuts(rng: random.Random) -> tuple[float, ...]:
    """Choose where files are cut."""
    return tuple(rng.random() for _ in range(rng.choice((1, 2, 3, 8))))


def files_of_a_case(rng: random.Random) -> int:
    """Choose the number of files, which may be large: Spark reads many in the time of one."""
    return rng.choice((1, 8, 20, 40, 80))


def random_end(rng: random.Random) -> bytes:
    """Choose a line separator."""
    return rng.choice(_LINE_ENDS)


def random_packing(rng: random.Random) -> str:
    """Choose the end of a file's name, which determines its compression."""
    return rng.choice(ENDINGS) if rng.random() < 0.05 else ""


def random_line_file(rng: random.Random, path: str, lines: Sequence[bytes], oddness: float) -> LineFile:
    """The file of these lines, maybe with odd line ends, a byte order mark, or compressed."""
    end = random_end(rng)
    pieces = [line + (random_end(rng) if rng.random() < oddness else end) for line in lines]
    if pieces and rng.random() < 0.25:
        pieces[-1] = pieces[-1].rstrip(b"\r\n")
    if rng.random() < 0.05:
        pieces.insert(0, b"\xef\xbb\xbf")
    return LineFile(path=f"{path}{random_packing(rng)}", pieces=tuple(map(calm, pieces)))


def line_case(
    rng: random.Random,
    format_name: str,
    name: str,
    columns: Sequence[tuple[str, str]],
    options: dict[str, str],
    file: Callable[[int], LineFile],
    inference: Callable[[], dict[str, str]],
) -> Case:
    """Make a case with columns for malformed lines and rescued data, or without a schema.

    Args:
        columns: those of the files.
        file: makes a file, given its number.
        inference: chooses options of a case without a schema.
    """
    files = tuple(file(number) for number in range(files_of_a_case(rng)))
    own: dict[str, str] = {}
    schema: list[tuple[str, str]] | None = list(columns)
    if rng.random() < 0.09 and options.get("mode") != "FAILFAST":
        schema = None
        own["samplingFiles"] = "100"
        options |= inference()
    elif rng.random() < 0.35:
        if rng.random() < 0.2:
            options["columnNameOfCorruptRecord"] = "bad"
        corrupt = options.get("columnNameOfCorruptRecord", "_corrupt_record")
        schema.insert(rng.randint(0, len(schema)), (corrupt, "string"))
    elif rng.random() < 0.2 and options.get("mode", "PERMISSIVE") == "PERMISSIVE":
        own["rescuedDataColumn"] = "rescued"
    return Case(
        format=format_name, name=name, files=files, columns=None if schema is None else tuple(schema),
        options=options, own_options=own, cuts=random_cuts(rng),
        own_columns=tuple(filter(None, [own.get("rescuedDataColumn")])),
    )  # fmt: skip
