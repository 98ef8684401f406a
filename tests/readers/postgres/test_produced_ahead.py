"""Items are produced in a thread, and arrive as without it."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from flip27_source.readers.postgres.log import THREAD, produced_ahead


def never() -> None:
    raise AssertionError("an iteration that ends by itself is not interrupted")


def test_all_items_arrive_in_order() -> None:
    assert list(produced_ahead((number for number in range(1000)), interrupt=never)) == list(range(1000))


def test_an_empty_iteration_stays_empty() -> None:
    assert list(produced_ahead((number for number in ()), interrupt=never)) == []


def test_items_before_an_error_arrive_and_then_the_error() -> None:
    def items() -> Generator[int, None, None]:
        yield 1
        yield 2
        raise ValueError("the third is missing")

    ahead = produced_ahead(items(), interrupt=never)
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(ValueError, match="the third is missing"):
        next(ahead)


def test_no_more_items_are_produced_ahead_than_requested() -> None:
    made = []
    third = threading.Event()

    def items() -> Generator[int, None, None]:
        for number in range(100):
            made.append(number)
            if number == 2:
                third.set()
            yield number

    ahead = produced_ahead(items(), interrupt=lambda: None, most=2)
    assert next(ahead) == 0
    assert third.wait(60)
    ahead.close()  # type: ignore[attr-defined]
    assert made == [0, 1, 2]


def test_an_abandoned_iteration_interrupts_the_wait_and_closes_the_generator() -> None:
    waits, interrupted, closed = threading.Event(), threading.Event(), threading.Event()

    def items() -> Generator[int, None, None]:
        try:
            yield 1
            waits.set()
            assert interrupted.wait(60)
            raise ConnectionError("interrupted")
        finally:
            closed.set()

    ahead = produced_ahead(items(), interrupt=interrupted.set)
    assert next(ahead) == 1
    assert waits.wait(60)
    ahead.close()  # type: ignore[attr-defined]
    assert closed.is_set()
    assert not [one for one in threading.enumerate() if one.name.startswith(THREAD)]
