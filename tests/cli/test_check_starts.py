"""``flip27 check`` says how many queries can start at once."""

from __future__ import annotations

import pytest

from flip27_source.cli.check.start_of_queries import finding, start_of_queries


@pytest.mark.parametrize(
    ("cpu_s", "status", "said"),
    [
        (0.4, "ok", "at most 50 queries can start at once on 2 cores"),
        (1.1, "ok", "at most 18 queries can start at once on 2 cores"),
        (6.0, "warning", "at most 3 queries can start at once on 2 cores"),
    ],
)
@pytest.mark.parametrize("took_s", [0.5, 12.0])
def test_a_start_is_judged_by_the_processor_time_that_spark_allows(
    took_s: float, cpu_s: float, status: str, said: str
) -> None:
    found = finding(took_s, cpu_s, 2)
    assert (found.status, said in found.found) == (status, True), found.found
    assert f"imports pyspark in {took_s} s" in found.found
    assert found.found.startswith("flip27_source.start_in_turn starts any number of queries; without it")


def test_the_process_of_a_source_is_measured_on_this_machine() -> None:
    found = start_of_queries()
    assert ": the process of a source imports pyspark in " in found.found


def test_a_python_that_does_not_exist_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")
    assert start_of_queries().status == "skipped"
