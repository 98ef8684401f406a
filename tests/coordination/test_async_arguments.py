"""The argument of asynchronous work: made on the coordinator, from the live splits."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any

import pytest

from flip27_source.errors import ContractError
from flip27_source.events import Progress
from flip27_source.reader import SplitReader, YieldsProgress
from tests.coordination.test_coordinator import Topics, positions, shelf_of
from tests.driver.batches import Batches
from tests.toy_sources import Item, Shelf, Works, coordinator_of, freeze, frozen


class Asks(Topics):
    """Asks for the ends of its live splits, and of those that it has on its shelf."""

    period_s: float | None = 1.0

    def start(self) -> None:
        self.asked: list[Any] = []
        self.context.call_async(
            self.asked.append, self._answered, argument=self._question, period_s=self.period_s
        )

    def _question(self, live: Sequence[Item]) -> dict[str, int | None]:
        return positions([*live, *self.shelf])

    def _answered(self, _result: object, error: BaseException | None) -> None:
        if error is not None:
            raise error


def asking(kind: type[Asks] = Asks, **more: Any) -> tuple[Any, Works, Any]:
    """A coordinator, its runner, and its enumerator."""
    runner = Works()
    coordinator = coordinator_of(kind, runner=runner, **more)
    return coordinator, runner, coordinator.enumerator


def test_a_round_gets_the_live_splits_where_the_newest_batch_ends() -> None:
    coordinator, runner, enumerator = asking()
    runner.run(coordinator)
    enumerator.shelf.append(Item(split_id="t0", rows=0))
    for _ in range(2):
        frozen(coordinator)
        runner.run(coordinator)
        coordinator.complete(coordinator.last_checkpoint_id)
    assert enumerator.asked == [{}, {"t0": 10}, {"t0": 20}]


def test_the_first_round_after_a_restart_gets_the_live_splits_of_the_state() -> None:
    coordinator, _, enumerator = asking()
    enumerator.shelf.append(Item(split_id="t0", rows=0))
    first = frozen(coordinator).snapshot
    runner = Works()
    coordinator = coordinator_of(Asks, runner=runner, restored=first, start=False)
    coordinator.start()
    runner.run(coordinator)
    assert shelf_of(coordinator).asked == [{"t0": 10}]  # type: ignore[attr-defined]


@pytest.mark.parametrize("changes", ["a handler", "a completion"])
def test_a_round_gets_what_the_enumerator_knows_since_a_handler_or_a_completion(changes: str) -> None:
    class Learns(Asks):
        def _answered(self, _result: object, error: BaseException | None) -> None:
            if changes == "a handler":
                self.shelf.append(Item(split_id="t1", rows=5))

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            if changes == "a completion":
                self.shelf.append(Item(split_id="t1", rows=5))

    coordinator, runner, enumerator = asking(Learns)
    enumerator.shelf.append(Item(split_id="t0", rows=0))
    frozen(coordinator)
    if changes == "a handler":
        runner.run(coordinator)
    else:
        coordinator.complete(1)
    runner.run(coordinator)
    assert enumerator.asked[-1] == {"t0": 10, "t1": 5}


def test_an_idle_checkpoint_makes_no_argument() -> None:
    """Spark calls 75 times a second, and there may be thousands of live splits."""

    class Counts(Asks):
        made = 0

        def _question(self, live: Sequence[Item]) -> Any:
            self.made += 1
            return super()._question(live)

    coordinator, _, enumerator = asking(Counts)
    before = enumerator.made
    assert [freeze(coordinator) for _ in range(10)] == [None] * 10
    assert enumerator.made == before


@pytest.mark.parametrize("ends", ["once", "with an error"])
def test_the_argument_of_a_call_without_a_further_round_is_not_made_again(ends: str) -> None:
    class Once(Asks):
        period_s = None if ends == "once" else 1.0
        is_over = False

        def _question(self, live: Sequence[Item]) -> Any:
            assert not self.is_over
            return super()._question(live)

        def _answered(self, _result: object, _error: BaseException | None) -> None:
            self.is_over = True

    coordinator, runner, enumerator = asking(Once)
    ((work, handler, _, _),) = runner.submitted
    coordinator.handle_result(handler, work(), None if ends == "once" else OSError())
    enumerator.shelf.append(Item(split_id="t0", rows=0))
    frozen(coordinator)


def test_an_argument_that_cannot_be_made_fails_on_the_coordinator() -> None:
    class Fails(Asks):
        def _question(self, live: Sequence[Item]) -> Any:
            if live:
                raise ContractError("no question")
            return None

    coordinator, _, enumerator = asking(Fails)
    enumerator.shelf.append(Item(split_id="t0", rows=0))
    with pytest.raises(ContractError, match="no question"):
        freeze(coordinator)


class Pages(Shelf):
    """Follows splits whose reader bounds them, on a thread."""

    def start(self) -> None:
        self.heard: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.context.call_async(self.heard.put, lambda *_: None, argument=positions, period_s=0.001)


class PageReader(YieldsProgress, SplitReader[Item]):
    def read(self, split: Item) -> Any:
        at = split.rows or 0
        if at < 30:
            yield (split.split_id,)
            yield Progress(Item(split_id=split.split_id, rows=at + 10))


def test_a_thread_gets_the_position_that_a_reader_has_reported() -> None:
    batches = Batches(Pages, PageReader, {"pollInterval": "0s", "maxRowsPerSplit": "1"})
    batches.shelve("page")
    batches.batch()
    batches.batch()
    batches.trigger()
    heard = batches.enumerator().heard
    while heard.get(timeout=30) != {"page": 20}:
        pass
