"""Options: each is declared once; parsing, errors, docs and CLI help derive from the declaration.

An enumerator or a reader declares its options as :class:`Option` values; :meth:`Options.parse`
refuses unknown options with a suggestion. Names are camelCase and case-insensitive, values are
strings, as everywhere in Spark. Pure: no pyspark, no I/O.
"""

from __future__ import annotations

import datetime as dt
import difflib
import enum
import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from .errors import OptionError
from .file_systems.url_credentials import masked

T = TypeVar("T")

PASS_THROUGH_PREFIXES = ("storage.", "enumerator.", "reader.")
"""Options with these prefixes are passed to the file system, the enumerator or the reader unchecked."""

_TEXT_ENDINGS = ("key", "secret", "token", "password", "passphrase", "user", "username", "name")

MOST_INTEGER = 2**63 - 1
"""The largest number that an option takes: states and tables hold numbers in 64 bits."""
MOST_SECONDS = 36_500 * 86_400
"""The longest duration that an option takes; threads cannot wait longer than some centuries."""
_SHOWN_CHARACTERS = 200

_SIZE_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATION_UNITS_S = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604800.0),
}
_REQUIRED: Any = object()
"""The default of an option that gives none."""
_DURATION_PART = r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*"


class _Parser(functools.partial[Any]):
    """A parser that determines the default of an option which gives none."""

    default: Any = None


ANY_TEXT: Any = _Parser(str)
"""The parser of an option that declares none."""


class Change(enum.Enum):
    """What happens if a query is restarted with another value of an option.

    The pending batch is the one that the query had planned and not completed. It is repeated at the restart.
    """

    FIRST_START = "refused: fixed at the first start"
    """Used to start the state, and stored in it."""
    REFUSED = "refused"
    """The state belongs to the value."""
    IGNORED = "no effect after the first start"
    NEXT_BATCH = "from the next batch on"
    PENDING_BATCH = "the pending batch too"
    """It is read again with the new value, unless the option's ``change_note`` says something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Generic[T]):
    """One option.

    Attributes:
        name: camelCase name; case-insensitive. ``kafka.*`` stands for every name that begins with ``kafka.``;
            :meth:`Options.texts_under` returns their values.
        parse: turns the string into a value; raises a ValueError that says what is expected. Without it, the
            value is any text, or None.
        default: value when the option is absent. If it is left out, it is None for ``optional(...)``, False
            for ``boolean``, the first choice for ``one_of``, and the value of ``default_text`` for others.
        doc: one or two sentences for docs and ``--help``.
        default_text: the default as shown in docs, where ``default`` itself is not clear.
        changes: what another value does at a restart of a query; None if that is not known.
        change_note: more about that, such as what it means for the pending batch.
        names_data: its value says which data the source reads, such as a path or a table. It is recorded with
            an inferred schema, so that no other source uses the schema.
        secret: the value never appears in a message, a log or the state.
    """

    name: str
    parse: Callable[[str], T] = ANY_TEXT
    default: T = _REQUIRED
    doc: str
    default_text: str | None = None
    changes: Change | None = None
    change_note: str | None = None
    names_data: bool = False
    secret: bool = False

    def __post_init__(self) -> None:
        if self.default is not _REQUIRED:
            return
        default: Any = False if self.parse is boolean else None
        if isinstance(self.parse, _Parser):
            default = self.parse.default
        elif self.parse is not boolean:
            if self.default_text is None:
                raise TypeError(f"option {self.name} has no default, and its parser is not optional(...)")
            default = self.parse(self.default_text)
        object.__setattr__(self, "default", default)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOption(Option[T]):
    """An option of reading, or of what follows it: a batch that is repeated has the new value."""

    changes: Change | None = Change.PENDING_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatchOption(Option[T]):
    """An option of planning: a batch that is repeated stays as it was planned."""

    changes: Change | None = Change.NEXT_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStartOption(Option[T]):
    """An option of the first start, which is stored in the state."""

    changes: Change | None = Change.FIRST_START


class Options:
    """Parsed options of one source, looked up by :class:`Option` (typed) or by name."""

    def __init__(
        self, raw: Mapping[str, str], declared: Mapping[str, Option[Any]], values: dict[str, Any]
    ) -> None:
        self._raw = dict(raw)
        self._declared = dict(declared)
        self._values = values

    @classmethod
    def parse(
        cls, raw: Mapping[str, str], declared: Iterable[Option[Any]], *, knows_all: bool = True
    ) -> Options:
        """Check and parse ``raw`` against the declared options.

        Args:
            knows_all: False if options may belong to a reader that is not known yet.

        Raises:
            OptionError: an option is unknown (the message suggests known names) or malformed.
        """
        table = {option.name.lower(): option for option in declared}
        prefixes = tuple(name.removesuffix("*") for name in table if name.endswith(".*"))
        lowered = {key.lower(): value for key, value in raw.items()}
        values: dict[str, Any] = {}
        for typed in raw:
            key = typed.lower()
            text, option = lowered[key], table.get(key)
            if option is None:
                if knows_all and not key.startswith((*PASS_THROUGH_PREFIXES, *prefixes)):
                    raise _unknown(typed, table)
                continue
            try:
                values[key] = option.parse(text)
            except (ValueError, OverflowError, RecursionError) as error:
                # The parser's message may quote the value, so a secret option shows neither.
                said = "(not shown) cannot be used" if option.secret else refusal(text, error)
                raise OptionError(
                    f"option {option.name} has the value {said}", remedy=f"{option.name}: {option.doc}"
                ) from None
        return cls(lowered, table, values)

    @overload
    def __getitem__(self, key: Option[T]) -> T: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    def __getitem__(self, key: Option[Any] | str) -> Any:
        if isinstance(key, Option):
            return self._values.get(key.name.lower(), key.default)
        lowered = key.lower()
        if lowered in self._values:
            return self._values[lowered]
        if lowered in self._declared:
            return self._declared[lowered].default
        if lowered in self._raw:
            return self._raw[lowered]
        raise OptionError(f"option {key} is required and not set", remedy=f'add .option("{key}", ...)')

    def get(self, key: str, default: Any = None) -> Any:
        """Like ``options[key]``, but ``default`` if the option is neither set nor declared."""
        lowered = key.lower()
        return self[key] if lowered in self._raw or lowered in self._declared else default

    def is_set(self, option: Option[Any]) -> bool:
        """Whether the user set the option, to any value."""
        return option.name.lower() in self._values

    def require(self, option: Option[T | None], *, why: str) -> T:
        """The option's value; raises an OptionError that gives ``why`` if the option is not set."""
        value = self[option]
        if value is None:
            raise OptionError(
                f"option {option.name} is not set: {why}",
                remedy=f'add .option("{option.name}", ...): {option.doc}',
            )
        return value

    def with_prefix(self, prefix: str) -> dict[str, Any]:
        """The pass-through options under ``prefix``, with the prefix removed.

        JSON values (numbers, true, objects) are decoded, except for names and credentials: a
        password of digits stays a string.
        """
        values: dict[str, Any] = {}
        for key, text in self._raw.items():
            if key.startswith(prefix):
                name = key[len(prefix) :]
                values[name] = text if name.endswith(_TEXT_ENDINGS) else maybe_json(text)
        return values

    def with_values(self, implied: Mapping[Option[Any], Any]) -> Options:
        """These options, with the values of some of them replaced."""
        values = {option.name.lower(): value for option, value in implied.items()}
        return Options(self._raw, self._declared, {**self._values, **values}) if values else self

    def texts_under(self, option: Option[Any]) -> dict[str, str]:
        """The values of an option such as ``kafka.*``, by the rest of the name, in lower case."""
        prefix = option.name.lower().removesuffix("*")
        return {key[len(prefix) :]: text for key, text in self._raw.items() if key.startswith(prefix)}

    def first_start_values(self) -> dict[str, str]:
        """The raw values of the options that are used only at the first start, without secrets."""
        return self._given(lambda option: option.changes is Change.FIRST_START)

    def is_same_value(self, name: str, stored: str | None) -> bool:
        """Whether a text, or the default if it is None, has the value that an option has here."""
        option = self._declared.get(name.lower())
        try:
            return option is not None and self[option] == (
                option.default if stored is None else option.parse(stored)
            )
        except (ValueError, OverflowError, RecursionError):
            return False

    def data_values(self) -> dict[str, list[str]]:
        """The values of the options that say which data the source reads, without credentials.

        Options that are lists, such as tables, have several values.
        """
        values = {}
        for name, text in self._given(lambda option: option.names_data).items():
            items = maybe_json(text)
            if not isinstance(items, list | dict):
                items = text.split(",") if isinstance(self[name], tuple) else [text]
            values[name] = sorted({masked(str(item)).strip().rstrip("/") for item in items})
        return values

    def _given(self, is_wanted: Callable[[Option[Any]], bool]) -> dict[str, str]:
        return {
            option.name: self._raw[key]
            for key, option in sorted(self._declared.items())
            if is_wanted(option) and not option.secret and key in self._raw
        }


def refusal(text: str, error: Exception) -> str:
    """A text that a parser has refused, and why; long texts are shortened."""
    more = "..." if len(text) > _SHOWN_CHARACTERS else ""
    return f"{text[:_SHOWN_CHARACTERS]!r}{more}: {error}"


def maybe_json(text: str) -> Any:
    """The value of a JSON text; any other text unchanged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _unknown(typed: str, table: Mapping[str, Option[Any]]) -> OptionError:
    plain = typed.lower().replace("_", "").replace("-", "")
    near = [plain] if plain in table else difflib.get_close_matches(typed.lower(), table, n=3, cutoff=0.6)
    if near:
        names = ", ".join(table[name].name for name in near)
        return OptionError(
            f"option {_as_typed(typed, table[near[0]].name)} is unknown; did you mean {names}?",
            remedy="correct the name of the option, or remove it; docs/options.md lists the options",
        )
    known = ", ".join(sorted(option.name for option in table.values()))
    return OptionError(
        f"option {typed} is unknown",
        remedy=f"use one of: {known}; or a pass-through prefix: "
        + ", ".join(prefix + "*" for prefix in PASS_THROUGH_PREFIXES),
    )


def _as_typed(name: str, near: str) -> str:
    """A name in lower case, as Spark passes names, with the upper case of the name that is near to it."""
    if not name.islower():
        return name
    letters = list(name)
    for at, other, size in difflib.SequenceMatcher(None, name, near.lower()).get_matching_blocks():
        letters[at : at + size] = near[other : other + size]
    return "".join(letters)


def texts(value: str) -> tuple[str, ...]:
    """The texts in a list separated by commas, or in a JSON list of strings and numbers."""
    if not value.strip().startswith("["):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    listed = maybe_json(value)
    if not isinstance(listed, list) or not all(isinstance(item, str | int | float) for item in listed):
        raise ValueError('a JSON list is expected, such as ["orders", "customers"]')
    return tuple(map(str, listed))


def text(value: str) -> str:
    """Any text."""
    return value


def boolean(value: str) -> bool:
    """true or false."""
    lowered = value.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("true or false is expected")
    return lowered == "true"


def integer(*, minimum: int, maximum: int = MOST_INTEGER) -> Callable[[str], int]:
    """A whole number from ``minimum`` to ``maximum``."""

    def parse(value: str) -> int:
        try:
            number = int(value.strip())
        except ValueError:
            raise ValueError("a whole number is expected") from None
        if not minimum <= number <= maximum:
            bound = f"at least {minimum}" if number < minimum else f"at most {maximum}"
            raise ValueError(f"a whole number of {bound} is expected")
        return number

    return parse


def size_bytes(value: str) -> int:
    """A number of bytes, with or without a unit: ``1048576``, ``64m``, ``1.5 GiB``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", value.lower())
    if match is None:
        raise ValueError("a size is expected, such as 1048576, 64m or 10g")
    size = float(match[1]) * _SIZE_UNITS[match[2]]
    if not 1 <= size <= MOST_INTEGER:
        raise ValueError("a size of at least 1 and less than 8388608t is expected")
    return int(size)


def duration_s(value: str) -> float:
    """A duration in seconds: ``10 seconds``, ``1h``, ``500ms``, ``1 hour 30 minutes``."""
    lowered = value.strip().lower()
    parts = re.findall(_DURATION_PART, lowered) if re.fullmatch(f"(?:{_DURATION_PART})+", lowered) else []
    if not parts or any(unit not in _DURATION_UNITS_S for _, unit in parts):
        raise ValueError("a duration is expected, such as 10 seconds, 1h or 500ms")
    seconds = float(sum(float(number) * _DURATION_UNITS_S[unit] for number, unit in parts))
    if seconds > MOST_SECONDS:
        raise ValueError(f"a duration of at most {MOST_SECONDS // 86400} days is expected")
    return seconds


def positive_duration_s(value: str) -> float:
    """A duration in seconds that is not 0."""
    seconds = duration_s(value)
    if not seconds:
        raise ValueError("a duration above 0 is expected, such as 30 seconds")
    return seconds


def positive_number(value: str) -> float:
    """A number above 0, such as ``10`` or ``0.5``."""
    try:
        number = float(value.strip())
    except ValueError:
        raise ValueError("a number is expected, such as 10 or 0.5") from None
    if not 0 < number < float("inf"):
        raise ValueError("a number above 0 is expected, such as 10 or 0.5")
    return number


def moment(value: str) -> dt.datetime:
    """A time in ISO 8601, with or without a zone: ``2026-01-31T00:00:00``; ``in_utc`` converts it."""
    try:
        return dt.datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError(
            "a time is expected, such as 2026-01-31T00:00:00, or with a zone 2026-01-31T00:00:00+01:00"
        ) from None


def one_of(*choices: str) -> Callable[[str], str]:
    """One of ``choices``, case-insensitive; the result is spelled as declared."""

    def parse(value: str) -> str:
        for choice in choices:
            if value.strip().lower() == choice.lower():
                return choice
        raise ValueError("one of " + ", ".join(choices) + " is expected")

    parser = _Parser(parse)
    parser.default = choices[0]
    return parser


def optional(parse: Callable[[str], T]) -> Callable[[str], T | None]:
    """The same parser, for options whose default is None."""
    return _Parser(parse)
