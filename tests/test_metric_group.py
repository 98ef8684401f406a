"""Metrics of an enumerator, which the coordinator's thread and the discovery's thread set."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from flip27_source import Boundedness, DiscoveringEnumerator, Discovery
from flip27_source.enumerator_context import MetricGroup
from tests.driver.batches import Batches
from tests.toy_sources import EchoReader, Item, Shelf


class Step(int):
    """A number that is added slowly, so that other threads run meanwhile."""

    def __radd__(self, other: int) -> int:
        ran.set()
        may_go_on.wait(5)
        return other + int(self)


ran, may_go_on = threading.Event(), threading.Event()


def test_concurrent_counts_of_two_threads_add_up() -> None:
    metrics = MetricGroup()
    slow = threading.Thread(target=metrics.count, args=("requests", Step(1)))
    slow.start()
    assert ran.wait(5)
    fast = threading.Thread(target=metrics.count, args=("requests", 10))
    fast.start()
    fast.join(0.2)
    may_go_on.set()
    slow.join(5)
    fast.join(5)
    assert metrics.gauges == {"requests": 11}


def test_gauges_that_were_read_do_not_change_afterwards() -> None:
    metrics = MetricGroup()
    metrics.gauge("lag", 5)
    taken = metrics.gauges
    metrics.gauge("other", 1)
    assert taken == {"lag": 5}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_represent_is_not_published(number: float) -> None:
    class Divides(Shelf):
        def start(self) -> None:
            self.context.metrics.gauge("ratio", number)
            self.context.metrics.count("total", number)  # type: ignore[arg-type]
            self.context.metrics.gauge("lag", 5)
            super().start()

    batches = Batches(Divides, EchoReader)
    batches.shelve("a")
    assert batches.batch() == ["a"]
    offset = json.dumps(batches.logged, allow_nan=False)
    assert json.loads(offset)["summary"]["lag"] == 5
    report = batches.holder.report()
    assert report is not None
    assert {"ratio", "total", "lag"} & report.keys() == {"lag"}


def test_a_gauge_is_published_again_once_it_is_finite() -> None:
    metrics = MetricGroup()
    metrics.gauge("ratio", float("nan"))
    assert metrics.gauges == {}
    metrics.gauge("ratio", 0.5)
    metrics.gauge("large", 10**400)
    assert metrics.gauges == {"ratio": 0.5, "large": 10**400}


class Asking(DiscoveringEnumerator[Item]):
    """Counts its requests in ``discover``, where it sends them."""

    def discover(self, position: int | None) -> Discovery[Item, int]:
        self.context.metrics.count("requests")
        self.context.metrics.gauge("requestMs", 12.5)
        return Discovery([] if position else [Item(split_id="a")], 1)


def test_discovery_publishes_from_its_own_thread() -> None:
    batches = Batches(Asking, EchoReader, boundedness=Boundedness.BOUNDED)
    batches.batch()
    numbers: dict[str, Any] = batches.logged["summary"]
    assert (numbers["requests"], numbers["requestMs"]) == (1, 12.5)
