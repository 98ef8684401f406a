"""Texts that represent values: valid ones, values at the limits, odd spellings and invalid ones."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

SCALARS = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "binary", "date",
           "timestamp", "timestamp_ntz")  # fmt: skip
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "+05:30",
         "Europe/Dublin", "America/Sao_Paulo", "Pacific/Apia", "UTC+8", "PST")  # fmt: skip
REGIONS = tuple(zone for zone in ZONES if "/" in zone)
"""The zones whose names machines and JVMs know too."""
DECIMALS = ("decimal(5,2)", "decimal(9,0)", "decimal(10,0)", "decimal(18,6)", "decimal(38,18)",
"decimal(38,0)",
            "decimal(38,38)", "decimal(3,3)", "decimal(20,10)")  # fmt: skip

_HOURS = re.compile(rb"([eE][+-]?)0*[0-9]{6,10}(?![0-9])")
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_MUTATIONS = "0123456789-+.eE,:TZ \t/\\\"'_xXfFdDnNaAiI%#;\u00e9\u0663\uff11\x00\x01\x7f\u2028\U0001f600"
_FLOATS = (
    "1.5 -0.0 -0 0.0 .5 5. +.5 -.5 1e5 1E+5 1e-5 1e 1e+ e5 1.7976931348623157e308 1.8e308 -1.8e308 4.9e-324 "
    "2.4e-324 1e-400 1e400 3.4028235e38 3.4028236e38 3.5e38 1.4e-45 16777217 16777219 9007199254740993 "
    "1.00000017881393432617187499 0.1 NaN Inf -Inf +Inf Infinity -Infinity +Infinity nan inf INF -INF +INF "
    "-NaN "
    "+NaN Infinit -Infinit 1f 1d 1.5F 1.5D 1L 0x1p3 0x1.8p1 0x10 1e1f 1,000.5 1_000 1e99999999999 "
    "0e99999999999 1e-99999999999 123456789012345678901234567890 0.30000000000000004"
).split()
_DECIMALS = (
    "0e99999999999 0e-99999999999 0E2147483648 1e2147483647 1e-2147483647 1e-2147483648 "
    "1e38 1e-38 9.99e2 999.995 999.994 -999.995 0.005 0.015 -0.005 0.0049999 00012.5 1,234.56 ,1 1, 1,,2 "
    "+1.5 .5 "
    "5. . - + 1.2.3 12345678901234567890123456789012345678 99999999999999999999999999999999999999 "
    "123456789012345678901234567890 0.12345678901234567890123456789012345678 "
    "123456789012345678.123456789012345678 "
    "1e0 1E+2 12e-1 0 -0 0.000 1000 -1000 99.9999 1e400 -1e400"
).split()
_BOOLEANS = (
    "true false TRUE FALSE True False tRuE fAlSe t f T F yes no y n Y N 0 1 -1 on off true. tru falsey"
).split()
_DATES = (
    "2024-02-29 2023-02-29 2024-02-30 2024-2-9 2024-02 2024 2024- 2024-02- 0000-01-01 -0001-01-01 0001-01-01 "
    "1582-10-04 1582-10-10 1582-10-15 1500-02-29 1900-02-29 2000-02-29 9999-12-31 10000-01-01 +10000-01-01 "
    "12345-01-01 290308-01-01 -290308-12-21 -290308-01-01 294247-01-10 294248-01-01 5881580-07-11 "
    "5881580-07-12 "
    "-5877641-06-23 -5877641-06-22 99999999-01-01 20240229 2024/02/29 29.02.2024 2024-13-01 2024-00-10 "
    "2024-01-00 2024-02-29T 2024-02-29Tx 24-02-29 024-02-29 +2024-02-29 -2024-02-29 --2024-02-29 2024--02-29 "
    "epoch now today tomorrow 18262 -719162 2147483647 2147483648 -2147483648 2024-02-29GMT 2024-060 2024-W09"
).split()
_TIMES = (
    "00:00:00 23:59:59 24:00:00 12:30 12 1:2:3 12:30:60 12:60:00 25:00:00 12:30:15.1 12:30:15.123456 "
    "12:30:15.1234567 12:30:15.123456789 12:30:15. 02:30:00 01:30:00 12:30:15,5 123015 12:30:15.999999999999"
).split()
_OFFSETS = (
    "Z z +01:00 -08:00 +1 +01 +0100 +18:00 +18:01 -18:00 +19:00 UTC GMT UTC+1 GMT+01:00 UT+1 Europe/Berlin "
    "America/New_York PST EST CET Etc/GMT+5 Mars/Phobos +01:00:30 +1:5 +00:00 -00:00 [Europe/Berlin] "
    "+01:00[Europe/Berlin] UTC+18:30 ACT"
).split()
_MOMENTS = (
    "294247-01-10T04:00:54.775807Z 294247-01-10T04:00:54.775808Z -290308-12-21T19:59:05.224192Z "
    "-290308-12-21T19:59:05.224191Z 1700000000 -1 1700000000.5 T12:30:00 12:30:00Z 9223372036854775807 "
    "2024-03-31T02:30:00 2024-10-27T02:30:00 2011-12-30T12:00:00 1890-01-01T00:00:00 2300-07-01T00:00:00 "
    "0001-01-01T00:00:00 -0001-01-01T00:00:00Z 10000-01-01T00:00:00Z"
).split()
_WORDS = [
    *(
    "a b abc x,y null NULL NaN - 0 1 true caf\u00e9 \u65e5\u672c \U0001f600 \u0130 \u00df e\u0301 a\u00a0b "
    "\ufeffa \u2028 {} [] {\"a\":1} a=b % %41 \\ \\\\ \\n # ;"
).split(),
    "", " ", "  ", "a b", " a", "a ", "\t", "a\tb", "\x00", "a\x00b", "\x01", "\x7f", "\x85", "\u00a0", '"',
    '""', "'",
    'a"b', '"a"', 'say ""hi""', "it's", 'a\\"b', "a" * 300,
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flavour:
    """How often a text is at the limits of its type, oddly spelled, of another type, or damaged.

    The other texts are valid. Some files consist of valid texts alone, so that fast paths are tested too.
    """

    limit: float = 0.0
    odd: float = 0.0
    wrong: float = 0.0
    damaged: float = 0.0


FLAVOURS: Sequence[Flavour] = (
    Flavour(), Flavour(), Flavour(limit=0.3), Flavour(limit=1.0), Flavour(limit=0.1, odd=0.1),
    Flavour(limit=0.1, odd=0.2, wrong=0.05), Flavour(odd=0.6, wrong=0.1, damaged=0.1),
    Flavour(limit=0.2, odd=0.2, wrong=0.2, damaged=0.2), Flavour(wrong=1.0),
)  # fmt: skip


def random_type(rng: random.Random) -> str:
    """Choose a type whose values one text can represent."""
    return rng.choice(DECIMALS) if rng.random() < 0.2 else rng.choice(SCALARS)


def text_of(rng: random.Random, kind: str, flavour: Flavour) -> str:
    """Make a text for a column of type ``kind``."""
    dice = rng.random()
    if dice < flavour.wrong:
        kind = random_type(rng)
        flavour = Flavour(limit=0.3, odd=0.3)
        dice = rng.random()
    else:
        dice -= flavour.wrong
    makers = _MAKERS["decimal" if kind.startswith("decimal") else kind]
    if dice < flavour.limit:
        text = makers[1](rng, kind)
    elif dice < flavour.limit + flavour.odd:
        text = makers[2](rng, kind)
    else:
        text = makers[0](rng, kind)
    return damaged(rng, text) if rng.random() < flavour.damaged else text


def calm(data: bytes) -> bytes:
    """Replace exponents with which Spark would compute a decimal for hours."""
    return _HOURS.sub(rb"\g<1>12345", data)


def damaged(rng: random.Random, text: str) -> str:
    """Insert, remove or replace some characters of the text."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(("", rng.choice(_MUTATIONS))) + text[at + rng.choice((0, 0, 1)) :]
    return text


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choice("0123456789") for _ in range(count))


def _whole(rng: random.Random, kind: str) -> str:
    bits = _BITS.get(kind, 31)
    return str(rng.choice((rng.randint(-9, 99), rng.randint(-(1 << bits), (1 << bits) - 1))))


def _limit_of_whole(rng: random.Random, kind: str) -> str:
    bits = _BITS[kind] if rng.random() < 0.6 else rng.choice((7, 8, 15, 16, 31, 32, 63, 64, 127))
    number = rng.choice((-1, 1)) * (1 << bits) + rng.choice((-1, 0, 0, 1))
    return (
        str(number) if rng.random() < 0.9 else f"{'-' * (number < 0)}{'0' * rng.randint(1, 30)}{abs(number)}"
    )


def _odd_whole(rng: random.Random, kind: str) -> str:
    return rng.choice((
        f"+{rng.randint(0, 99)}", f"{rng.randint(0, 9)}.0", f"00{rng.randint(0, 9)}", "-0", "1e2", "1_0",
        "0x1F",
        f" {rng.randint(0, 9)}", f"{rng.randint(0, 9)} ", "1,000", "--1", "+", "-", "\u0663", "\uff11", "1L",
        _digits(rng, rng.randint(18, 45)), "0" * rng.randint(1, 60), "1" * 1001, "",
    ))  # fmt: skip


def _float(rng: random.Random, kind: str) -> str:
    return rng.choice((
        f"{rng.uniform(-1e3, 1e3):.3f}", repr(rng.uniform(-1, 1)), str(rng.randint(-999, 999)),
        f"{rng.random():e}", f"{rng.randint(-99, 99)}.{rng.randint(0, 99)}",
    ))  # fmt: skip


def _limit_of_float(rng: random.Random, kind: str) -> str:
    digits = f"{_digits(rng, rng.randint(1, 25))}.{_digits(rng, rng.randint(1, 25))}"
    return rng.choice((
        f"{rng.choice(('', '-'))}{digits}e{rng.randint(-340, 320)}",
        f"{rng.uniform(1, 10)!r}e{rng.choice((-46, -45, -44, -324, -323, -308, 37, 38, 39, 307, 308, 309))}",
        digits,
    ))  # fmt: skip


def _decimal(rng: random.Random, kind: str) -> str:
    precision, scale = map(int, re.findall(r"\d+", kind))
    whole = _digits(rng, rng.randint(0, precision - scale)).lstrip("0") or "0"
    fraction = _digits(rng, rng.randint(0, scale))
    return f"{rng.choice(('', '', '-'))}{whole}{'.' if fraction else ''}{fraction}"


def _limit_of_decimal(rng: random.Random, kind: str) -> str:
    precision, scale = map(int, re.findall(r"\d+", kind))
    whole = rng.choice(
        ("9" * max(precision - scale, 1), _digits(rng, rng.randint(1, 45)), "1" + "0" * (precision - scale))
    )
    fraction = rng.choice(
        ("", "9" * scale, "9" * scale + "5", "9" * scale + "4", _digits(rng, rng.randint(1, 45)))
    )
    return f"{rng.choice(('', '-'))}{whole}{'.' if fraction else ''}{fraction}"


def _date(rng: random.Random, kind: str) -> str:
    return f"{rng.randint(1583, 2200):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def _limit_of_date(rng: random.Random, kind: str) -> str:
    year = rng.choice((rng.randint(-9999, 12000), rng.randint(0, 1600), rng.randint(-300000, 300000)))
    text = f"{'-' * (year < 0)}{abs(year):04}-{rng.randint(1, 12):02}-{rng.randint(1, 31):02}"
    return rng.choice((text, rng.choice(_DATES)))


def _moment(rng: random.Random, kind: str) -> str:
    clock = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
    fraction = rng.choice(("", "", f".{_digits(rng, 3)}", f".{_digits(rng, 6)}"))
    zone = rng.choice(("", "", "Z", "+01:00")) if kind == "timestamp" else ""
    return f"{_date(rng, kind)}{rng.choice('T ')}{clock}{fraction}{zone}"


def _odd_moment(rng: random.Random, kind: str) -> str:
    if rng.random() < 0.2:
        return rng.choice(_MOMENTS)
    date = _limit_of_date(rng, kind) if rng.random() < 0.4 else _date(rng, kind)
    clock, zone = rng.choice(_TIMES), rng.choice(_OFFSETS) if rng.random() < 0.6 else ""
    return f"{date}{rng.choice(('T', ' ', 'T', ' ', '  ', 't', ''))}{clock}{rng.choice(('', '', ' '))}{zone}"


def _any_of(*pools: Sequence[str]) -> Callable[[random.Random, str], str]:
    return lambda rng, _: rng.choice(rng.choice(pools))


_INTEGERS = (_whole, _limit_of_whole, _odd_whole)
_TEXTS = (_any_of([word for word in _WORDS if word.isalnum()]), _any_of(_WORDS), _any_of(_WORDS))
_MOMENT_MAKERS = (_moment, _odd_moment, _odd_moment)
_MAKERS: Mapping[str, tuple[Callable[[random.Random, str], str], ...]] = {
    "tinyint": _INTEGERS, "smallint": _INTEGERS, "int": _INTEGERS, "bigint": _INTEGERS,
    "float": (_float, _limit_of_float, _any_of(_FLOATS)),
    "double": (_float, _limit_of_float, _any_of(_FLOATS)),
    "decimal": (_decimal, _limit_of_decimal, _any_of(_DECIMALS, _FLOATS)),
    "boolean": (_any_of(("true", "false")), _any_of(("0", "1")), _any_of(_BOOLEANS)),
    "string": _TEXTS,
    "binary": _TEXTS,
    "date": (_date, _limit_of_date, _any_of(_DATES)),
    "timestamp": _MOMENT_MAKERS,
    "timestamp_ntz": _MOMENT_MAKERS,
}  # fmt: skip
