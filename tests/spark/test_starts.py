"""Many queries that start on one driver: a few at a time, and again if Spark has given up on a process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from flip27_source import start_in_turn
from flip27_source.errors import OptionError, StartError
from tests.deadline import until

GAVE_UP = "org.apache.spark.SparkException: Python worker failed to connect back."
OTHER = "[DATA_LOSS] the topic is gone"


@dataclass(eq=False)
class Started:
    """A query as its Python object shows it: its process answers at the third look, or the query ends."""

    starting: list[Started]
    error: str | None = None
    looks: int = 0

    def __post_init__(self) -> None:
        self.starting.append(self)

    @property
    def isActive(self) -> bool:
        self.looks += 1
        ended = self.looks > 3 and self.error is not None
        if self.looks > 2 and self in self.starting:
            self.starting.remove(self)
        return not ended

    @property
    def status(self) -> dict[str, str]:
        if self.looks <= 1:
            return {"message": "Initializing sources"}
        # Spark says so before it stops the sources; the query is active until then.
        ends = f"Terminated with exception: {self.error}"
        return {"message": "Waiting for data to arrive" if self.error is None else ends}

    def exception(self) -> str | None:
        return self.error


@dataclass(eq=False)
class Driver:
    """Starts queries, each with the next of its errors; counts the most that were starting at once."""

    starting: list[Started] = field(default_factory=list)
    most_at_once: int = 0

    def start(self, *errors: str | None) -> Callable[[], Any]:
        left = list(errors)

        def started() -> Started:
            query = Started(self.starting, left.pop(0) if left else None)
            self.most_at_once = max(self.most_at_once, len(self.starting))
            return query

        return started


def test_no_more_queries_than_asked_for_are_starting_at_once_and_all_start() -> None:
    driver = Driver()
    queries = start_in_turn([driver.start() for _ in range(7)], at_once=3)
    assert (len(queries), driver.most_at_once) == (7, 3)


def test_a_query_on_whose_process_spark_gave_up_is_started_again_and_others_are_not() -> None:
    driver = Driver()
    again, refused, never = start_in_turn(
        [driver.start(GAVE_UP, GAVE_UP, None), driver.start(OTHER), driver.start(*[GAVE_UP] * 9)], attempts=3
    )
    assert [query.exception() for query in (again, refused, never)] == [None, OTHER, GAVE_UP]


def refused() -> Any:
    raise ValueError("the table does not exist")


def test_a_query_that_cannot_be_started_keeps_none_of_the_others_from_starting_and_their_handles() -> None:
    """Without its handle nobody would stop or await a query that runs."""
    driver = Driver()
    with pytest.raises(StartError, match=r"1 of 4 queries .*: number 2: ValueError: the table") as raised:
        start_in_turn([driver.start(), refused, driver.start(OTHER), driver.start()], at_once=1)
    first, second, third, last = raised.value.queries
    assert second is None
    assert all(query is not None and query.looks > 2 for query in (first, third, last))
    assert [type(error) for error in raised.value.reasons] == [ValueError]
    assert raised.value.__cause__ is raised.value.reasons[0]
    assert "the others were started" in str(raised.value)


def test_a_start_that_raises_because_spark_gave_up_is_tried_again() -> None:
    driver, tries = Driver(), []

    def start() -> Any:
        tries.append(None)
        if len(tries) < 3:
            raise RuntimeError(GAVE_UP)
        return driver.start()()

    (query,) = start_in_turn([start])
    assert (len(tries), query.exception()) == (3, None)
    tries.clear()
    with pytest.raises(StartError, match="failed to connect back"):
        start_in_turn([start], attempts=2)


@pytest.mark.parametrize("returned", [None, Driver().start])
def test_a_function_that_returns_no_query_is_named_and_the_others_keep_their_handles(returned: Any) -> None:
    with pytest.raises(StartError, match=r"number 1: .* returned .*, which is no streaming query") as raised:
        start_in_turn([lambda: returned, Driver().start()])
    assert raised.value.queries[0] is None
    assert raised.value.queries[1] is not None


@pytest.mark.parametrize("wrong", [{"at_once": 0}, {"at_once": -1}, {"attempts": 0}])
def test_a_number_below_one_is_refused_before_a_query_starts(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="expected: a number of at least 1"):
        start_in_turn([refused], **wrong)


@pytest.mark.slow
def test_several_queries_that_start_in_turn_all_read_their_files(spark: SparkSession, tmp_path: Path) -> None:
    starts = []
    for number in range(4):
        landing, checkpoint = tmp_path / f"landing-{number}", tmp_path / f"checkpoint-{number}"
        landing.mkdir()
        (landing / "a.txt").write_text("one row\n")
        found = spark.readStream.format("flip27").option("enumerator", "files").option("reader", "text")
        writer = found.load(str(landing)).writeStream.format("noop")
        starts.append(writer.option("checkpointLocation", str(checkpoint)).start)
    queries = start_in_turn(starts, at_once=2)
    try:
        for query in queries:
            until(
                lambda query=query: any(one["numInputRows"] for one in query.recentProgress),
                lambda query=query: query.exception() or query.status,
            )
    finally:
        for query in queries:
            query.stop()


def test_the_error_of_a_start_keeps_its_reasons_wherever_it_goes_and_its_queries_in_its_process() -> None:
    handle, reason = threading.Lock(), ValueError("the table")  # a handle that cannot be pickled, as Spark's
    error = StartError("1 of 2", queries=[handle, None], reasons=[reason], remedy="mend it")
    advised = error.advised("look")
    assert isinstance(advised, StartError)
    assert (advised.queries, advised.reasons) == ([handle, None], [reason])
    travelled = pickle.loads(pickle.dumps(error))
    assert (str(travelled), travelled.queries) == (str(error), [None, None])
    assert [str(one) for one in travelled.reasons] == ["the table"]
