"""Each call of a store fails in turn: the query goes on, and leaves nothing that is not its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from flip27_source.coordination.batch_limits import Limits
from flip27_source.errors import StateLocationError
from flip27_source.snapshots.driver_condition import Condition
from flip27_source.snapshots.store import MemoryStore
from tests.driver.batches import InlineBatches
from tests.toy_sources import FEEDS, EchoReader, Feed, items

T = TypeVar("T")


class FailingInTurn(MemoryStore):
    """A store of which some calls in a row fail.

    Attributes:
        calls: how many there were. failing: those that fail. takes_effect: whether only the answers are lost.
    """

    def __init__(self, failing: range, *, takes_effect: bool) -> None:
        super().__init__()
        self.calls = 0
        self.failing = failing
        self.takes_effect = takes_effect

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        return self._called(lambda: MemoryStore.create(self, name, data, exclusive=exclusive))

    def read(self, name: str, limit: int | None = None) -> bytes:
        return self._called(lambda: MemoryStore.read(self, name, limit))

    def list(self, folder: str) -> list[str]:
        return self._called(lambda: MemoryStore.list(self, folder))

    def replace(self, name: str, data: bytes) -> None:
        self._called(lambda: MemoryStore.replace(self, name, data))

    def delete(self, name: str) -> None:
        self._called(lambda: MemoryStore.delete(self, name))

    def _called(self, call: Callable[[], T]) -> T:
        number, self.calls = self.calls, self.calls + 1
        if number not in self.failing:
            return call()
        if self.takes_effect:
            call()
        raise StateLocationError("no answer", remedy="wait") from TimeoutError("timed out")


def lived(store: FailingInTurn) -> InlineBatches:
    """A query with a batch that is repeated after a stop, a restart after a kill, and one after a stop."""
    FEEDS["lived"] = items(*"abcdefgh")
    options = {"feed": "lived", "stateLocation": "/unused", "maxFilesPerTrigger": "2"}
    batches = InlineBatches(Feed, EchoReader, {**options, "tolerableFailedCheckpoints": "4"}, store=store)
    rows = batches.batch(Limits()) or []
    assert batches.trigger(Limits())
    batches.tasks()
    batches.holder.close()
    batches.restart()
    rows += [row for task in batches.tasks() for row in batches.attempt(task)]
    batches.commit()
    batches.restart()
    rows += batches.batch(Limits()) or []
    batches.holder.close()
    batches.restart()
    rows += batches.batch(Limits()) or []
    batches.holder.close()
    store.failing = range(0)
    assert rows == list("abcdefgh")
    return batches


@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("in_a_row", [1, 3])
def test_a_query_goes_on_and_leaves_one_lineage_whichever_calls_fail(
    in_a_row: int, *, takes_effect: bool
) -> None:
    calls = FailingInTurn(range(0), takes_effect=False)
    lived(calls)
    for first in range(calls.calls):
        store = FailingInTurn(range(first, first + in_a_row), takes_effect=takes_effect)
        batches = lived(store)
        assert batches.lineage, "the lineages of failed tries are removed"
        if in_a_row == 1:
            assert batches.driver().condition is Condition.STOPPED, first
