"""StoredValues: accepted values come back equal, and others are refused with the name of the field."""

from __future__ import annotations

import datetime as dt
import enum
import json
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_source.errors import ContractError
from flip27_source.segment import Segment
from flip27_source.values.stored_values import StoredValues, difference

NAN = float("nan")


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


class Pair(NamedTuple):
    left: int
    right: int


@dataclass(frozen=True)
class Inner:
    at: int | None = None


@dataclass(frozen=True)
class Wider(Inner):
    more: int = 2


@dataclass(frozen=True, eq=False)
class Compares:
    """A class whose objects are all equal, so that ``==`` cannot show a difference."""

    a: int | None = None

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True)
class PartlyCompared:
    name: str
    cursor: float | None = field(default=None, compare=False)


class Plain(msgspec.Struct, frozen=True):
    x: int


@dataclass(frozen=True)
class Every:
    """A class with a field of every kind that can be stored."""

    text: str = ""
    number: int = 0
    ratio: float = 0.0
    flag: bool = False
    data: bytes = b""
    maybe: int | None = None
    at: dt.datetime | None = None
    on: dt.date | None = None
    lasts: dt.timedelta | None = None
    amount: Decimal | None = None
    ids: tuple[int, ...] = ()
    names: list[str] = field(default_factory=list)
    marks: frozenset[str] = frozenset()
    counts: dict[str, int] = field(default_factory=dict)
    inner: Inner = Inner()
    many: tuple[Inner | None, ...] = ()
    color: Color = Color.RED
    uid: uuid.UUID | None = None


def through_json(values: StoredValues, value: Any) -> Any:
    """The value as a restart gets it, even from state in Spark's offset log."""
    segments: dict[str, Segment] = {}
    data = values.encode(value, segments)
    through_spark = json.loads(json.dumps(msgspec.json.decode(data)))
    assert msgspec.json.encode(through_spark) == data
    return msgspec.json.decode(data, type=values.declared, dec_hook=lambda _, name: segments[name])


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (int | None, None),
        (int, -(2**63) - 1),
        (int, 2**64),
        pytest.param(int, 10**4000, id="4,001 digits"),
        (int, Level.LOW),
        (float, -0.0),
        (float, 1),
        (float, 2**70),
        (float, 5e-324),
        (str, "a\0b\ufffe\U0001f600"),
        (str, Word.A),
        (bytes, b"\xff\0"),
        (Color, Color.RED),
        (Level, Level.LOW),
        (dt.datetime, dt.datetime(2026, 10, 25, 2, 30)),
        (dt.datetime, dt.datetime(2026, 10, 25, 2, 30, tzinfo=dt.UTC)),
        (dt.datetime, dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))),
        (dt.datetime, dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=5)))),
        (dt.time, dt.time(1, 2, 3, 4)),
        (dt.timedelta, dt.timedelta(days=-1, microseconds=1)),
        (Decimal, Decimal("1.10")),
        (Decimal, Decimal("-Infinity")),
        (tuple[int, ...], (1, 2)),
        (tuple[int, ...], Pair(1, 2)),
        (Pair, Pair(1, 2)),
        (set[int], {1, 2}),
        (frozenset[Inner], frozenset({Inner(1)})),
        (dict[str, int], OrderedDict(a=1)),
        (Any, {"a": [1, None, "x", 1.5, True]}),
        (Compares, Compares(1)),
        (PartlyCompared, PartlyCompared("a", 1.5)),
        (Plain, Plain(1)),
        (Inner | None, Inner(3)),
    ],
)
def test_a_value_that_is_restored_equal_is_accepted(declared: Any, value: Any) -> None:
    values = StoredValues(declared, "a value")
    values.check(value)
    back = msgspec.json.decode(values.encode(value, {}), type=declared)
    if isinstance(value, dt.datetime):
        assert (back.replace(tzinfo=None), back.utcoffset()) == (
            value.replace(tzinfo=None, fold=0),
            value.utcoffset(),
        )
    else:
        assert back == value


@pytest.mark.parametrize(
    ("declared", "value", "named"),
    [
        (int | None, NAN, r"\$ is nan"),
        (float | None, float("inf"), r"\$ is inf"),
        (float, float("-inf"), r"\$ is -inf"),
        (int, -0.0, "got `float`"),
        (int, 1.0, "got `float`"),
        (int, True, "got `bool`"),
        (bool, 1, "got `int`"),
        (float, 2**53 + 1, "would be restored as 9007199254740992.0"),
        pytest.param(int, 10**5000, r"\$ is a int", id="5,001 digits"),
        (int, np.int64(3), "numpy.int64"),
        (float, np.float64(3.5), "numpy.float64"),
        (str, "\ud800", r"\$ is '\\ud800'"),
        (str, b"ab", "a bytes, and would be restored as 'YWI=', a str"),
        (bytes, "abcd", "a str, and would be restored as b'i.*', a bytes"),
        (bytes, bytearray(b"a"), "a bytearray, and would be restored as"),
        (str, Color.RED, "a Color, and would be restored as 'red', a str"),
        (dt.datetime, dt.datetime(1800, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), "would be restored as"),
        (dt.datetime, dt.date(2026, 1, 1), "RFC3339"),
        (Any, dt.datetime(2026, 1, 1), "a datetime, and would be restored as .*, a str"),
        (Decimal, Decimal("NaN"), "would be restored as"),
        (Decimal, Decimal("sNaN"), "sNaN"),
        (Decimal, 1.5, "a float, and would be restored as"),
        (tuple[int, ...], [1, 2], "a list, and would be restored as .*, a tuple"),
        (list[int], (1, 2), "a tuple, and would be restored as .*, a list"),
        (list[int], {1, 2}, "a set, and would be restored as .*, a list"),
        (frozenset[int], {1, 2}, "a set, and would be restored as .*, a frozenset"),
        (Any, (1, 2), "a tuple, and would be restored as .*, a list"),
        (Any, {1: 2}, r"\$ has the key 1, but keys in JSON are texts"),
        (dict[int, int], {1: 2}, r"\$ has the key 1, but keys in JSON are texts"),
        (list[dict[Level, int]], [{Level.LOW: 1}], r"\$\[0\] has the key <Level.LOW: 1>"),
        (dict[Any, int], {(1, 2): 3}, "has the key"),
        (dict[Any, int], {None: 3}, "has the key None"),
        (dict[str, int], {"1": 3, 1: 2}, r"\$ has the key 1,"),
        (dict[float, int], {NAN: 2}, "has the key nan"),
        (dict[str, int | None], {"a": NAN}, r"\$\['a'\] is nan"),
        (list[int | None], [1, NAN], r"\$\[1\] is nan"),
        (Inner, Wider(1), "a Wider, and would be restored as .*, an? Inner"),
        (Inner, {"at": 1}, "a dict, and would be restored as"),
        (Inner, Inner(NAN), r"\$\.at is nan"),  # type: ignore[arg-type]
        (Compares, Compares(NAN), r"\$\.a is nan"),  # type: ignore[arg-type]
        (PartlyCompared, PartlyCompared("a", NAN), r"\$\.cursor is nan"),
        (tuple[Inner, ...], (Inner(), Inner("1")), r"at `\$\[1\]\.at`|at `\$\[...\]\.at`"),  # type: ignore[arg-type]
        (Any, object(), r"\$ is <object .*JSON cannot represent a object|unsupported"),
        (Any, Segment.of("bulk", b"x"), "Segment"),
    ],
)
def test_a_value_that_would_change_when_restored_is_refused_by_name(
    declared: Any, value: Any, named: str
) -> None:
    with pytest.raises(ContractError, match=named) as caught:
        StoredValues(declared, "a value").check(value)
    assert "a value cannot be stored as JSON" in str(caught.value)


def test_a_segment_is_stored_by_its_name_if_the_values_may_contain_segments() -> None:
    @dataclass(frozen=True)
    class State:
        bulk: Segment

    found: dict[str, Segment] = {}
    segment = Segment.of("bulk", b"x")
    StoredValues(State, "a state", holds_segments=True).encode(State(segment), found)
    assert list(found.values()) == [segment]


def test_a_segment_of_values_refuses_numbers_that_json_cannot_represent() -> None:
    Segment.of_values("known", [None, 1.5])
    with pytest.raises(ContractError, match=r"\$\[1\] is nan"):
        Segment.of_values("known", [None, NAN])


@pytest.mark.parametrize("depth", [101, 900, 5000])
def test_a_value_that_is_nested_too_deep_for_a_restart_is_refused(depth: int) -> None:
    value: Any = []
    for _ in range(depth):
        value = [value]
    with pytest.raises(ContractError, match=r"nested deeper than 100|recursion"):
        StoredValues(Any, "a value").check(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ContractError, match="nested deeper than 100"):
        StoredValues(Any, "a value").check(value)


def test_a_value_whose_repr_fails_is_still_refused() -> None:
    @dataclass(frozen=True)
    class Shy:
        x: float | None

        def __repr__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(ContractError, match=r"\$\.x is nan \(a Shy whose repr fails"):
        StoredValues(Shy, "a value").check(Shy(NAN))


def test_a_type_that_json_cannot_represent_is_refused_at_once() -> None:
    with pytest.raises(ContractError, match="a value has a type that cannot be stored"):
        StoredValues(str | bytes, "a value")


every = st.builds(
    Every,
    text=st.text(),
    number=st.integers(),
    ratio=st.floats(allow_nan=False, allow_infinity=False),
    flag=st.booleans(),
    data=st.binary(),
    maybe=st.none() | st.integers(),
    at=st.none() | st.datetimes(timezones=st.none() | st.just(dt.UTC)),
    on=st.none() | st.dates(),
    lasts=st.none() | st.timedeltas(),
    amount=st.none() | st.decimals(allow_nan=False),
    ids=st.lists(st.integers()).map(tuple),
    names=st.lists(st.text()),
    marks=st.frozensets(st.text()),
    counts=st.dictionaries(st.text(), st.integers()),
    inner=st.builds(Inner, at=st.none() | st.integers()),
    many=st.lists(st.none() | st.builds(Inner, at=st.integers())).map(tuple),
    uid=st.none() | st.uuids(),
)


@given(every)
def test_every_value_of_the_declared_types_is_restored(value: Every) -> None:
    assert through_json(StoredValues(Every, "a value"), value) == value


anything: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.dates()
    | st.timedeltas()
    | st.decimals()
    | st.sampled_from([Color.RED, Level.LOW, Word.A, Inner(1), Wider(1), Plain(1), Pair(1, 2), object()])
    | st.builds(np.int64, st.integers(-5, 5)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(
            st.text() | st.integers() | st.floats() | st.booleans() | st.none(), inner, max_size=4
        )
        | st.sets(st.integers() | st.text(), max_size=4)
        | st.builds(Inner, at=inner)
    ),
    max_leaves=8,
)


def same(value: Any, back: Any) -> bool:
    """Whether the values are equal at every level, found in another way than by the code under test."""
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None, fold=0), value.utcoffset()) == (
            back.replace(tzinfo=None),
            back.utcoffset(),
        )
    if isinstance(value, dict):
        return set(value) == set(back) and all(same(value[key], back[key]) for key in value)
    if isinstance(value, list | tuple):
        return len(value) == len(back) and all(map(same, value, back))
    if isinstance(value, Inner):
        return type(value) is type(back) and same(value.at, back.at)
    return bool(value == back)


DECLARED: list[Any] = [
    Any, int | None, float | None, str, bytes, bool, Decimal, dt.datetime, Inner, Every, tuple[Any, ...],
    list[Any], set[Any], dict[str, Any], dict[float, Any], dict[int | str, Any], Color, Level, Pair,
]  # fmt: skip


@pytest.mark.parametrize("declared", DECLARED)
@given(value=anything)
def test_an_accepted_value_is_restored_equal_and_any_other_value_is_a_contract_error(
    declared: Any, value: Any
) -> None:
    values = StoredValues(declared, "a value")
    try:
        values.check(value)
    except ContractError:
        return
    assert same(value, through_json(values, value))


@dataclass(frozen=True, slots=True)
class Flat:
    name: str
    length: int
    ratio: float | None = None
    tag: str | int | None = None
    moved: Literal[True] | msgspec.UnsetType = msgspec.UNSET


@given(
    st.builds(
        Flat,
        moved=st.sampled_from([msgspec.UNSET, True, False, None]),
        name=st.text(st.characters(exclude_categories=())) | st.integers(),
        length=st.integers() | st.booleans() | st.floats() | st.just(Level.LOW),
        ratio=st.none() | st.floats() | st.integers() | st.booleans(),
        tag=st.none() | st.text() | st.integers() | st.sampled_from([Word.A, True, 1.5]),
    )
)
def test_a_value_of_a_flat_class_is_accepted_only_if_it_is_restored_equal(value: Flat) -> None:
    """There is a fast path for such classes."""
    values = StoredValues(Flat, "a value")
    try:
        values.check(value)
    except ContractError:
        return
    assert difference(value, through_json(values, value)) is None
