"""A query is restarted with a reader that decides how far splits are read, instead of one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flip27_source.errors import OptionError
from flip27_source.events import Progress
from flip27_source.reader import SplitReader, YieldsProgress
from tests.driver.batches import Batches
from tests.toy_sources import AssignsOnce, Item, items


class One(AssignsOnce[Item]):
    def splits(self) -> list[Item]:
        return items("a")


class Whole(SplitReader[Item]):
    def read(self, split: Item) -> Iterator[Any]:
        yield (split.split_id,)


class Pages(YieldsProgress, Whole):
    def read(self, split: Item) -> Iterator[Any]:
        yield from super().read(split)
        yield Progress(None)


def after(batches: Batches, reader: type[Whole]) -> Batches:
    """The query, restarted with another reader."""
    again = Batches(One, reader, batches.options, store=batches.store)
    again.logs = batches.logs
    return again


@pytest.mark.parametrize("on_error", ["fail", "quarantine"])
@pytest.mark.parametrize(("first", "second"), [(Whole, Pages), (Pages, Whole)])
class TestChangedReader:
    def test_a_complete_batch_is_not_read_again(self, first: Any, second: Any, on_error: str) -> None:
        batches = Batches(One, first, {"onSplitError": on_error})
        assert batches.batch() == ["a"]
        again = after(batches, second)
        assert again.batch() is None
        assert again.holder.coordinator_at(again.logged).standing(0).ledger.finished == 1

    def test_a_batch_is_repeated_only_with_its_own_reader(
        self, first: Any, second: Any, on_error: str
    ) -> None:
        batches = Batches(One, first, {"onSplitError": on_error})
        assert batches.trigger()
        with pytest.raises(OptionError, match=f"set option reader to '{first.__name__}'"):
            after(batches, second).tasks()
        again = after(batches, first)
        assert [row for task in again.tasks() for row in again.attempt(task)] == ["a"]
        again.commit()
        assert after(again, second).batch() is None
