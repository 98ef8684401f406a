"""Time zones by the names that Spark accepts: regions, offsets and Java's short ids."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from flip27_source.errors import OptionError

_OFFSET = re.compile(r"([+-])(?:(\d)|(\d\d)(?::(\d\d)(?::(\d\d))?|(\d\d)(\d\d)?)?)", re.ASCII)
_REGION = re.compile(r"(?!posix/|right/)[A-Za-z][A-Za-z0-9~/._+-]+")
_NOT_IN_JAVA = ("Factory", "ROC", "localtime", "posixrules")
_SHORT_IDS = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00", "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "MST": "-07:00",
    "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


@lru_cache(maxsize=4096)
def java_zone(name: str) -> tzinfo:
    """Spark's zone of this name: a region, an offset, or one of Java's short ids.

    Raises:
        OptionError: Spark does not know the zone.
    """
    padded = re.sub(r"([+-])(\d):", r"\g<1>0\2:", name, count=1, flags=re.ASCII)
    padded = re.sub(r"([+-])(\d\d):(\d)$", r"\1\2:0\3", padded, count=1, flags=re.ASCII)
    padded = _SHORT_IDS.get(padded, padded)
    if padded in ("Z", "UTC", "GMT", "UT"):
        return ZoneInfo("UTC")
    without_prefix = re.sub(r"^(UTC|GMT|UT)(?=[+-])", "", padded)
    if without_prefix[:1] in ("+", "-"):
        return _fixed_offset(without_prefix, name)
    try:
        if padded in _NOT_IN_JAVA or not _REGION.fullmatch(padded):
            raise _unknown_zone(name)
        return ZoneInfo(padded)
    except (ValueError, OSError, KeyError):
        raise _unknown_zone(name) from None


def _fixed_offset(text: str, name: str) -> tzinfo:
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise _unknown_zone(name)
    sign, one_digit, hours, minutes, seconds, short_minutes, short_seconds = match.groups()
    parts = [
        int(part or 0) for part in (one_digit or hours, minutes or short_minutes, seconds or short_seconds)
    ]
    total_s = parts[0] * 3600 + parts[1] * 60 + parts[2]
    if parts[1] > 59 or parts[2] > 59 or total_s > 18 * 3600:
        raise _unknown_zone(name)
    return timezone(timedelta(seconds=-total_s if sign == "-" else total_s)) if total_s else UTC


def _unknown_zone(name: str) -> OptionError:
    return OptionError(
        f"the time zone {name!r} is unknown", remedy="use a name such as Europe/Berlin or +01:00"
    )
