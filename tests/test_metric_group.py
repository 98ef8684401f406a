"""Metrics of an enumerator, which the coordinator's thread and the discovery's thread set."""

from __future__ import annotations

import threading
from typing import Any

from flip27_source import Boundedness, DiscoveringEnumerator, Discovery
from flip27_source.enumerator_context import MetricGroup
from tests.driver.batches import Batches
from tests.toy_sources import EchoReader, Item


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
