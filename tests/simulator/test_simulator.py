"""The simulator: no seed shows a defect, and a seed always gives the same run."""

from __future__ import annotations

import functools
import os
from dataclasses import replace

import pytest

from flip27_source import span_sender
from flip27_source.driver import batch_traces
from flip27_source.source_options import TRACING
from flip27_source.testing.steps import Killed
from tests.simulator.process import Process, SuspendedCall
from tests.simulator.simulation import Outcome, simulate

SEEDS = 300
TOGETHER = 50


@functools.cache
def played(seed: int) -> Outcome:
    """The outcome of a seed with the unchanged code."""
    return simulate(seed)


@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_no_seed_loses_or_duplicates_a_row_or_leaves_a_query_that_cannot_continue(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        outcome = played(seed)
        assert outcome.defect is None, f"make simulate ARGS='--seed {seed}' shows it:\n{outcome.defect}"


def test_a_seed_gives_the_same_run_every_time() -> None:
    for seed in (3, 11, 27):
        first, second = played(seed), simulate(seed)
        assert first.story == second.story
        assert first.faults == second.faults


def test_a_seed_gives_the_same_run_in_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process id in a file would change the file's length and name, on which some faults depend."""
    found = []
    for process in (7, 1_234_567):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        found.append([simulate(seed).story for seed in (37, 52, 296)])
    assert found[0] == found[1]


def test_tracing_changes_nothing_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where attempts of tasks overlap, drivers are killed, and Spark's calls fail."""
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setattr(batch_traces, "TRACING", replace(TRACING, default=True))
    span_sender.sender.cache_clear()
    for seed in range(0, SEEDS, 20):
        outcome = simulate(seed)
        assert (outcome.defect, outcome.story) == (None, played(seed).story)
    span_sender.sender.cache_clear()


@pytest.mark.slow
def test_the_seeds_of_these_tests_cover_every_kind_of_fault_and_source() -> None:
    outcomes = [played(seed) for seed in range(SEEDS)]
    kinds = {kind for outcome in outcomes for kind in outcome.faults}
    assert kinds >= {
        "EACCES", "EIO", "ENOSPC", "clock", "full disk", "kill", "nonsense", "power cut", "read-only",
        "rolled back", "short write", "slow thread", "unsynced folder", "zombie",
    }  # fmt: skip
    assert {outcome.kind for outcome in outcomes} == {
        "files", "talking", "careless", "topics", "pages", "postgres",
    }  # fmt: skip


@pytest.mark.slow
def test_a_life_of_postgres_is_the_same_every_time_without_a_defect() -> None:
    for seed in range(10):
        first, second = simulate(seed, "postgres"), simulate(seed, "postgres")
        assert (first.defect, first.story) == (None, second.story)


class _Undisturbed:
    def disturb(self, process: Process, call: str, path: str) -> None:
        pass


def test_a_suspended_process_stops_at_the_call_that_was_drawn_and_continues_from_there() -> None:
    process = Process("it", _Undisturbed(), is_driver=True)
    done: list[int] = []

    def work() -> str:
        for number in range(3):
            process.gate("write", "a")
            done.append(number)
        return "all"

    call = SuspendedCall(work, 2)
    assert call.begin()
    assert done == [0]
    call.resume()
    assert done == [0, 1, 2]
    assert call.result == "all"


def test_a_process_that_was_killed_while_it_was_suspended_does_nothing_more() -> None:
    process = Process("it", _Undisturbed(), is_driver=True)
    done: list[str] = []

    def work() -> None:
        process.gate("write", "a")
        done.append("a")

    call = SuspendedCall(work, 1)
    assert call.begin()
    process.kill()
    call.resume()
    assert isinstance(call.error, Killed)
    assert done == []
