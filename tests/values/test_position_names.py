"""Fields of stored splits are found and changed by their paths, and by the names that a source gives them."""

from __future__ import annotations

import pytest

from flip27_source.values.position_names import path_of, with_value

SPLIT = {"split_id": "log", "first": 1, "log": {"first": 500, "file": {"name": "bin.1", "at": 4}}}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("first", ("first",)),
        ("log.first", ("log", "first")),
        ("lsn", ("log", "first")),
        ("binlog.at", ("log", "file", "at")),
        ("binlog", ("log", "file")),
        ("log.file.name", ("log", "file", "name")),
        ("other", None),
        ("log.other", None),
        ("first.other", None),
        ("unused", None),
        ("lsn.first", None),
    ],
)
def test_a_field_has_a_path_and_may_have_a_name(name: str, path: tuple[str, ...] | None) -> None:
    names = {"log.first": "lsn", "log.file": "binlog", "chunk.lower": "unused"}
    assert path_of(name, SPLIT, names) == path


def test_a_field_is_found_by_its_own_name_in_a_split_that_lacks_the_path_of_this_name() -> None:
    assert path_of("first", {"first": 1}, {"log.first": "first"}) == ("first",)
    assert path_of("first", SPLIT, {"log.first": "first"}) == ("log", "first")


def test_another_value_at_a_path_leaves_the_other_fields() -> None:
    assert with_value(SPLIT, ("log", "file", "at"), 9) == {
        "split_id": "log",
        "first": 1,
        "log": {"first": 500, "file": {"name": "bin.1", "at": 9}},
    }
