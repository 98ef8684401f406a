"""Ordinary texts are read together and odd texts one by one, with the same values and in the same order."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flip27_source.readers.scalars.ordinary_texts import Spelling, in_row_order, read_texts, unreadable
from flip27_source.readers.scalars.text_bytes import bytes_of

DIGITS = Spelling(pattern="[0-9]{1,3}", suits=lambda _: True, read=lambda texts: texts.cast(pa.int16()))
DASH = Spelling(
    pattern="-[0-9]{1,9}", suits=lambda _: False, read=lambda texts: texts.cast(pa.int64()).cast(pa.int16())
)


def word(text: str) -> int | None:
    return {"one": 1, "-70000": -1}.get(text)


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1", None, "20"], [1, None, 20]),
        (["one", "1", None, "-5", "one", "two"], [1, 1, None, -5, 1, None]),
        (["-5", "-70000"], [None, -1]),
        ([None, None], [None, None]),
        ([], []),
    ],
    ids=["all ordinary", "mixed", "a spelling that fails", "only nulls", "none"],
)
@pytest.mark.parametrize("start", [0, 1])
def test_texts_have_the_same_values_together_and_one_by_one(
    texts: list[str | None], values: list[int | None], start: int
) -> None:
    column = pa.array(["x"] * start + texts, pa.string())[start:]
    numbers = read_texts(column, [DIGITS, DASH], word, pa.int16())
    assert numbers.type == pa.int16()
    assert numbers.to_pylist() == values
    lost = unreadable(column, numbers)
    expected = [text is not None and value is None for text, value in zip(texts, values, strict=True)]
    assert (lost is not None) == any(expected)
    assert lost is None or lost.to_pylist() == expected


def test_an_odd_text_that_is_not_utf8_is_read_with_replacements() -> None:
    column = pa.array([b"1", b"\xff"], pa.binary()).view(pa.string())
    assert read_texts(column, [DIGITS], len, pa.int16()).to_pylist() == [1, 1]


def test_rows_of_all_pieces_are_ordered_by_their_numbers_and_equal_numbers_keep_their_order() -> None:
    pieces = [
        (pa.array([1, 4]), [pa.array(["b", "f"]), pa.array([1, 2])]),
        (pa.array([0, 2, 2, 3]), [pa.array(["a", "c", "d", "e"]), pa.array([3, 4, 5, 6])]),
    ]
    numbers, columns = in_row_order(pieces)
    assert numbers.to_pylist() == [0, 1, 2, 2, 3, 4]
    assert [column.to_pylist() for column in columns] == [list("abcdef"), [3, 1, 4, 5, 6, 2]]


@pytest.mark.parametrize(
    ("content", "expected"),
    [("-./0123456789", True), ("", True), ("12,", False), ("12:", False), ("1" * 100 + "e", False)],
)
def test_bytes_lie_between_two_limits_only_if_every_byte_does(content: str, expected: bool) -> None:
    assert bytes_of(pa.array(["x", content])[1:]).lie_between("-", "9") is expected
