"""Metrics of an enumerator, which the coordinator's thread and the discovery's thread set."""

from __future__ import annotations

import datetime as dt
import json
import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flip27_source import Boundedness, DiscoveringEnumerator, Discovery
from flip27_source.enumerator_context import COORDINATORS_NUMBERS, MOST_PARTS, MetricGroup
from flip27_source.errors import ContractError
from tests.driver.batches import Batches
from tests.toy_sources import EchoReader, Item, Shelf


class Step:
    """A number that is added slowly, so that other threads run meanwhile."""

    def __index__(self) -> int:
        ran.set()
        may_go_on.wait(5)
        return 1


ran, may_go_on = threading.Event(), threading.Event()


def test_concurrent_counts_of_two_threads_add_up() -> None:
    metrics = MetricGroup()
    slow = threading.Thread(target=metrics.count, args=("requests", Step()))
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


@pytest.mark.parametrize(
    "number", [float("nan"), float("inf"), float("-inf"), 10**400, -(10**5000), Fraction(10**400)], ids=type
)
def test_a_number_that_json_or_float_cannot_represent_is_not_published(number: Any) -> None:
    class Divides(Shelf):
        def start(self) -> None:
            self.context.metrics.gauge("ratio", number)
            self.context.metrics.count("total", number)
            self.context.metrics.count("total", 0.5)
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


@pytest.mark.parametrize(
    ("number", "published"),
    [
        (np.int64(5), 5), (np.float32(0.5), 0.5), (np.uint64(2**64 - 1), 2**64 - 1), (Decimal("2.5"), 2.5),
        (Fraction(1, 4), 0.25), (True, 1),
    ],
    ids=repr,
)  # fmt: skip
def test_numbers_of_any_library_are_published(number: Any, published: float) -> None:
    metrics = MetricGroup()
    metrics.gauge("lag", number)
    metrics.count("total", number)
    assert metrics.gauges == {"lag": published, "total": published}
    assert {type(value) for value in metrics.gauges.values()} == {type(published)}


@pytest.mark.parametrize(
    "value", ["5", None, [1], b"5", np.array([1, 2]), dt.timedelta(1), 1j, Decimal("sNaN")]
)
def test_a_value_that_is_no_number_is_refused(value: Any) -> None:
    metrics = MetricGroup()
    for publish in (metrics.gauge, metrics.count):
        with pytest.raises(ContractError, match=r"metric lag .* which is not a number"):
            publish("lag", value)
    assert metrics.gauges == {}


def test_a_name_that_the_coordinator_uses_is_refused(tmp_path: Path) -> None:
    metrics = MetricGroup()
    batches = Batches(Shelf, EchoReader, {"stateLocation": str(tmp_path), "taskReports": "always"})
    batches.shelve("a")
    batches.batch()
    batches.batch()
    own = batches.logged["summary"].keys() | (batches.holder.report() or {}).keys()
    assert {"splits", "lastRows", "checkpoint"} <= own <= COORDINATORS_NUMBERS
    for name in COORDINATORS_NUMBERS:
        with pytest.raises(ContractError, match=f"{name} is a number of the coordinator"):
            metrics.gauge(name, 1)
        with pytest.raises(ContractError, match=f"{name} is a number of the coordinator"):
            metrics.count(name)
    with pytest.raises(ContractError, match="the name of a metric is 5"):
        metrics.gauge(5, 1)  # type: ignore[arg-type]


def test_a_gauge_is_published_again_once_it_is_finite() -> None:
    metrics = MetricGroup()
    metrics.gauge("ratio", float("nan"))
    assert metrics.gauges == {}
    metrics.gauge("ratio", 0.5)
    metrics.gauge("large", 10**300)
    assert metrics.gauges == {"ratio": 0.5, "large": 10**300}


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


def test_of_very_many_parts_the_largest_numbers_are_published_and_replace_those_before() -> None:
    metrics = MetricGroup()
    metrics.gauge_parts("lag", {"gone": 1})
    metrics.gauge_parts("lag", {str(part): part for part in range(MOST_PARTS + 5)})
    assert metrics.parts["lag"].keys() == {str(part) for part in range(5, MOST_PARTS + 5)}
    metrics.gauge_parts("lag", {"a": float("nan"), "b": np.int64(3)})
    assert metrics.parts == {"lag": {"b": 3}}
    with pytest.raises(ContractError, match="number of the coordinator"):
        metrics.gauge_parts("parts", {"a": 1})
    with pytest.raises(ContractError, match="the name of a part of lag is 0"):
        metrics.gauge_parts("lag", {0: 1})  # type: ignore[dict-item]
