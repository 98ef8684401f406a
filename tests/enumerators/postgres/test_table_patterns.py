"""Names of tables, and patterns that match them."""

from __future__ import annotations

import pytest

from flip27_source.enumerators.postgres.table_patterns import (
    matched,
    quoted,
    quoted_with_parameters,
    table_patterns,
)


@pytest.mark.parametrize(
    ("pattern", "schema", "name"),
    [
        ("orders", "public", "orders"), ("shop.orders", "shop", "orders"),
        ("Shop.ORDERS", "shop", "orders"), ("shop.*", "shop", "anything at all"),
        ("shop.order_*", "shop", "order_2024"), ("*.orders", "archive", "orders"), ("*.*", "a", "b"),
        ('public."Orders"', "public", "Orders"), ('"My Shop"."a.b,c"', "My Shop", "a.b,c"),
        ('"say ""hi"""', "public", 'say "hi"'), ('"*"', "public", "*"),
        (" shop . orders ", "shop", "orders"), ("größe", "public", "größe"),
    ],
)  # fmt: skip
def test_a_pattern_matches_the_tables_that_it_names(pattern: str, schema: str, name: str) -> None:
    assert matched(table_patterns(pattern), schema, name)


@pytest.mark.parametrize(
    ("pattern", "schema", "name"),
    [
        ("orders", "shop", "orders"), ("orders", "public", "orders2"), ("orders", "public", "Orders"),
        ("order_s", "public", "orderXs"), ("a.b", "axb", "b"), ('"*"', "public", "orders"),
        ('"Orders"', "public", "orders"), ("shop.*", "workshop", "orders"), ("a+", "public", "aa"),
    ],
)  # fmt: skip
def test_a_pattern_matches_no_other_tables(pattern: str, schema: str, name: str) -> None:
    assert not matched(table_patterns(pattern), schema, name)


@pytest.mark.parametrize(
    ("left_out", "schema", "name"),
    [
        ("-log", "public", "log"), ("-public.log_*", "public", "log_2024"), ("-audit.*", "audit", "orders"),
        ('- "Old".orders', "Old", "orders"), ("-LOG, public.log", "public", "log"),
    ],
)  # fmt: skip
def test_a_pattern_with_a_minus_leaves_tables_out(left_out: str, schema: str, name: str) -> None:
    patterns = table_patterns(f"*.*, {left_out}")
    assert not matched(patterns, schema, name)
    assert matched(patterns, "public", "orders")
    assert not any(pattern.is_name for pattern in patterns if pattern.text.startswith("-"))


def test_a_quoted_name_may_begin_with_a_minus() -> None:
    assert matched(table_patterns('"-log"'), "public", "-log")


def test_patterns_are_separated_by_commas() -> None:
    patterns = table_patterns('public.*, audit.log,"a,b".c')
    assert [pattern.text for pattern in patterns] == ["public.*", "audit.log", '"a,b".c']
    assert [pattern.is_name for pattern in patterns] == [False, True, True]
    assert matched(patterns, "a,b", "c")


@pytest.mark.parametrize("text", ["", ",", "a,", "a,,b", "a b", "a.b.c", 'a"b', '"a', ".a", "a.", "-", "-a"])
def test_invalid_patterns_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names such as"):
        table_patterns(text)


def test_names_are_quoted_for_sql() -> None:
    assert quoted("public", 'say "hi"') == '"public"."say ""hi"""'
    assert quoted_with_parameters("100 %") == '"100 %%"'
