"""What surrounds the content of the files of a case: time zones, modification times, folders and names."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace

from flip27_source.time_zones import java_zone

from .case import METADATA, Case
from .folders import in_folders
from .texts import REGIONS, ZONES

_CHANGES_OF_CLOCKS = (
    "2024-03-10T02:30:00", "2024-11-03T01:30:00", "2024-03-31T01:30:00", "2024-10-27T01:15:00",
    "2024-04-07T01:45:00", "2024-10-06T02:15:00", "2011-12-30T12:00:00", "2024-06-01T00:00:00",
    "2024-01-01T12:00:00.123",
)  # fmt: skip
_ODD_NAMES = (
    "", " a b", "caf\u00e9", "%41", "100%", "+", "\u65e5\u672c", "\u00a0", "\u2003", "\u3000", "\u2028", "#",
    "~'&",    "e\u0301", "\U0001f600", "=", ";,", "$", "!()", "\x85", "\t", "a%20b",
)  # fmt: skip
_SECONDS_AWAY = (-7200, -3601, -3600, -1800, -1, -0.001, 0, 0.001, 1, 1799, 1800, 3600, 3601, 7200, 40_000)


def surrounded(rng: random.Random, case: Case, jvm_zone: str) -> Case:
    """Put a case into zones, and sometimes its files into folders, or choose them by their times."""
    options = dict(case.options)
    if case.format == "orc":
        # Spark's reader takes the zone of the JVM for times without a zone.
        options["timeZone"] = jvm_zone
    case = replace(
        case, options=options, zone=rng.choice(ZONES) if rng.random() < 0.4 else "UTC",
        machine_zone=rng.choice(REGIONS), jvm_zone=jvm_zone,
    )  # fmt: skip
    is_native = case.side == "native"
    if case.side in ("parsed", "http") or case.is_hidden_from_spark or (is_native and case.columns is None):
        return case
    if rng.random() < 0.1:
        case = in_folders(rng, case)
    if rng.random() < 0.1:
        case = _with_odd_names(rng, case)
    return _chosen_by_time(rng, case) if case.columns and not case.side and rng.random() < 0.1 else case


def _with_odd_names(rng: random.Random, case: Case) -> Case:
    """Rename the files, and ask for their names if the case has a schema."""
    files = []
    for file in case.files:
        stem, dot, rest = file.path.rpartition("/")[2].partition(".")
        name = f"{stem}{rng.choice(_ODD_NAMES)}{dot}{rest}"
        files.append(replace(file, path=f"{file.path.removesuffix(stem + dot + rest)}{name}"))  # type: ignore[type-var]
    case = replace(case, files=tuple(files))
    if case.columns is None:
        return case
    return replace(
        case, columns=(*case.columns, METADATA), own_options={**case.own_options, "includeMetadata": "true"}
    )


def _chosen_by_time(rng: random.Random, case: Case) -> Case:
    """Let an option choose files by their modification times, around a change of clocks."""
    zone, limit = case.options.get("timeZone", rng.choice(ZONES)), rng.choice(_CHANGES_OF_CLOCKS)
    chosen = {rng.choice(("modifiedAfter", "modifiedBefore")): limit}
    limit_s = dt.datetime.fromisoformat(limit).replace(tzinfo=java_zone(zone)).timestamp()
    modified = {file.path.rpartition("/")[2]: limit_s + rng.choice(_SECONDS_AWAY) for file in case.files}
    return replace(
        case, options={**case.options, "timeZone": zone}, own_options={**case.own_options, **chosen},
        modified_s=modified,
    )  # fmt: skip
