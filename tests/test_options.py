"""Options are declared once and matched without regard to case; errors name what is known, but no secrets."""

from __future__ import annotations

from typing import Any

import pytest

from flip27_source.errors import OptionError
from flip27_source.native.options import NATIVE_OPTIONS
from flip27_source.options import (
    Change,
    Option,
    Options,
    boolean,
    duration_s,
    integer,
    one_of,
    optional,
    size_bytes,
    text,
)
from flip27_source.source_options import CORE_OPTIONS, MAX_FILES_PER_TRIGGER, STATE_LOCATION
from scripts.options_table import tables

LIMIT: Option[int] = Option(name="rowLimit", parse=integer(minimum=1), default=10, doc="Most rows.")
NAME: Option[str | None] = Option(name="tableName", parse=text, default=None, doc="Which table.")
TOKEN: Option[str | None] = Option(
    name="token", parse=text, default=None, doc="The token.", secret=True, changes=Change.FIRST_START
)
START: Option[str | None] = Option(
    name="startAt", parse=text, default=None, doc="Where to begin.", changes=Change.FIRST_START
)
DECLARED = (LIMIT, NAME, TOKEN, START)


def parsed(**texts: str) -> Options:
    return Options.parse({name.replace("__", "."): value for name, value in texts.items()}, DECLARED)


def test_names_match_without_regard_to_case() -> None:
    assert parsed(ROWLIMIT="3")[LIMIT] == 3
    assert parsed(rowlimit="3")["RowLimit"] == 3


def test_an_absent_option_has_its_default() -> None:
    options = parsed()
    assert options[LIMIT] == 10
    assert options["rowLimit"] == 10
    assert not options.is_set(LIMIT)
    assert parsed(rowLimit="10").is_set(LIMIT)


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("rowLimt", "rowLimit"),
        ("TABLE_NAME", "tableName"),
        ("table_Names", "tableName"),
        ("Row-Limit", "rowLimit"),
    ],
)
def test_an_unknown_option_is_refused_as_typed_with_only_the_nearest_names(typed: str, near: str) -> None:
    with pytest.raises(OptionError, match=rf"option {typed} is unknown; did you mean {near}\?") as caught:
        parsed(**{typed: "1"})
    assert "startAt" not in str(caught.value)


def test_a_name_that_spark_passes_in_lower_case_has_the_upper_case_of_the_nearest_name() -> None:
    for passed, typed in (("rowlimt", "rowLimt"), ("tablesname", "tablesName"), ("startsat", "startsAt")):
        with pytest.raises(OptionError, match=f"option {typed} is unknown"):
            parsed(**{passed: "1"})


def test_an_unknown_option_that_is_near_to_none_is_refused_with_all_that_are_known() -> None:
    with pytest.raises(OptionError, match="option zZz is unknown\n") as caught:
        parsed(zZz="1")
    assert "use one of: rowLimit, startAt, tableName, token" in str(caught.value)


def test_the_error_for_a_malformed_value_names_the_option_and_what_is_expected() -> None:
    with pytest.raises(OptionError) as caught:
        parsed(rowLimit="many")
    assert "option rowLimit has the value 'many': a whole number is expected" in str(caught.value)
    assert "rowLimit: Most rows." in str(caught.value)


@pytest.mark.parametrize("parse", [int, integer(minimum=1), one_of("a", "b"), size_bytes])
def test_the_value_of_a_secret_option_is_never_shown_whatever_its_parser_says(parse: Any) -> None:
    """Even int(), an obvious choice of parser for an author, quotes the value in its error."""
    secret: Option[Any] = Option(name="pin", parse=parse, default=None, doc="The pin.", secret=True)
    with pytest.raises(OptionError, match=r"option pin has the value \(not shown\)") as caught:
        Options.parse({"pin": "hunter2"}, [secret])
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_values_of_pass_through_options_are_never_in_an_error_about_another_option() -> None:
    with pytest.raises(OptionError) as caught:
        parsed(storage__secret="hunter2", nonsense="x")
    assert "hunter2" not in str(caught.value)


def test_options_with_a_prefix_pass_through_with_their_prefix_removed() -> None:
    options = parsed(
        storage__key="abc", storage__anon="true", storage__kwargs='{"a": [1]}', reader__x="1", rowLimit="3"
    )
    assert options.with_prefix("storage.") == {"key": "abc", "anon": True, "kwargs": {"a": [1]}}
    assert options.with_prefix("reader.") == {"x": 1}
    assert options.with_prefix("enumerator.") == {}


def test_undeclared_pass_through_options_are_found_by_name() -> None:
    options = parsed(reader__color="red")
    assert options["reader.color"] == "red"
    assert options.get("reader.size", 7) == 7
    assert options.get("rowLimit", 99) == 10
    with pytest.raises(OptionError, match=r"option reader\.size is required and not set"):
        _ = options["reader.size"]


def test_the_error_for_a_missing_required_option_says_why_it_is_required() -> None:
    assert parsed(tableName="t").require(NAME, why="it is read") == "t"
    with pytest.raises(OptionError, match="option tableName is not set: it is read") as caught:
        parsed().require(NAME, why="it is read")
    assert 'add .option("tableName", ...): Which table.' in str(caught.value)


def test_first_start_options_are_kept_as_written_and_secrets_are_not_kept() -> None:
    options = parsed(startAt="Now", token="hunter2", rowLimit="3")
    assert options.first_start_values() == {"startAt": "Now"}
    assert parsed().first_start_values() == {}


def test_options_that_name_the_data_are_kept_without_credentials() -> None:
    declared = [
        Option(name=name, parse=text, default=None, doc="It.", names_data=True, secret=name == "uri")
        for name in ("path", "paths", "table", "uri")
    ]
    given = {"path": "s3://ann:hunter2@in/a/", "paths": "https://h/a?sig=hunter2", "uri": "x://ann:hunter2@y"}
    assert Options.parse(given, [*declared, LIMIT]).data_values() == {
        "path": ["s3://in/a"], "paths": ["https://h/a?sig=***"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [
        ("1", 1), ("1048576", 1 << 20), ("64m", 64 << 20), ("64MB", 64 << 20), ("64 mib", 64 << 20),
        ("1.5g", 3 << 29), (" 2 K ", 2048), ("1t", 1 << 40), ("7b", 7),
    ],
)  # fmt: skip
def test_sizes_are_written_as_in_spark(written: str, bytes_: int) -> None:
    assert size_bytes(written) == bytes_


@pytest.mark.parametrize("written", ["", "m", "-1m", "1x", "1m1", "1,5m", "0", "0.0001b"])
def test_an_invalid_size_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="a size"):
        size_bytes(written)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("10 seconds", 10.0), ("1 second", 1.0), ("500ms", 0.5), ("1h", 3600.0),
        ("1 hour 30 minutes", 5400.0), ("1h30m", 5400.0), ("0.5 s", 0.5), ("2 Days", 172800.0),
        ("1 week", 604800.0),
    ],
)  # fmt: skip
def test_durations_are_written_as_in_spark(written: str, seconds: float) -> None:
    assert duration_s(written) == seconds


@pytest.mark.parametrize("written", ["", "10", "ten seconds", "-1s", "1 fortnight", "1s!", "s"])
def test_an_invalid_duration_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="a duration is expected"):
        duration_s(written)


def test_booleans_numbers_and_words_are_parsed() -> None:
    assert (boolean("TRUE"), boolean(" false ")) == (True, False)
    assert integer(minimum=-5)(" -5 ") == -5
    assert one_of("PERMISSIVE", "FAILFAST")("failfast") == "FAILFAST"
    for parse, wrong in ((boolean, "yes"), (integer(minimum=0), "-1"), (integer(minimum=0), "1.0")):
        with pytest.raises(ValueError, match="expected"):
            parse(wrong)
    with pytest.raises(ValueError, match="one of PERMISSIVE, FAILFAST is expected"):
        one_of("PERMISSIVE", "FAILFAST")("none")


def test_every_core_option_is_documented_and_named_in_camel_case() -> None:
    names = [option.name for option in CORE_OPTIONS]
    assert len({name.lower() for name in names}) == len(names)
    for option in CORE_OPTIONS:
        assert option.doc.endswith(".")
        assert option.name[0].islower()
        assert option.name.isalnum()
    assert {MAX_FILES_PER_TRIGGER.name, STATE_LOCATION.name} <= set(names)


@pytest.mark.parametrize(
    "option",
    [
        pytest.param(option, id=f"{title}: {option.name}")
        for title, options in (*tables(), ("native", NATIVE_OPTIONS))
        for option in options
    ],
)
def test_every_option_declares_what_another_value_does_at_a_restart(option: Option[Any]) -> None:
    assert option.changes is not None


def test_a_password_of_digits_stays_a_text_and_a_port_becomes_a_number() -> None:
    raw = {"storage.password": "12345", "storage.port": "22", "storage.client_kwargs": '{"a": 1}'}
    assert Options.parse(raw, ()).with_prefix("storage.") == {
        "password": "12345",
        "port": 22,
        "client_kwargs": {"a": 1},
    }


def test_an_option_without_a_default_has_an_optional_parser() -> None:
    assert Option(name="a", parse=optional(text), doc="It.").default is None
    with pytest.raises(TypeError, match="option a has no default"):
        Option(name="a", parse=text, doc="It.")
