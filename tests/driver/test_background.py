"""BackgroundRunner: asynchronous work runs on threads; its results are delivered on the caller's thread."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from flip27_source.driver.background import BackgroundRunner
from flip27_source.enumerator_context import RetryPolicy
from flip27_source.errors import ContractError, CorruptStateError, IncompatibleStateError, MissingStateError
from tests.toy_sources import within

AT_ONCE = RetryPolicy(retries=3, first_pause_s=0.0)


class Outcomes:
    """A handler that records its results and errors, and the threads that call it."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.errors: list[BaseException | None] = []
        self.threads: set[threading.Thread] = set()

    def __call__(self, result: Any, error: BaseException | None) -> None:
        self.results.append(result)
        self.errors.append(error)
        self.threads.add(threading.current_thread())


def deliver(handler: Callable[..., None], result: Any, error: BaseException | None) -> None:
    handler(result, error)


def run_once(work: Callable[[], Any], policy: RetryPolicy, period_s: float | None = None) -> Outcomes:
    """Deliver the outcomes that there are after the first round of this work."""
    runner, outcomes = BackgroundRunner(), Outcomes()
    runner.submit(work, outcomes, period_s, policy)
    assert within(20, runner.wait_for_first_rounds)
    runner.drain(deliver)
    return outcomes


def thread_of(submit: Callable[[], None]) -> threading.Thread:
    """The thread that ``submit`` starts; threads of sources of other tests may still be running."""
    before = set(threading.enumerate())
    submit()
    (thread,) = [one for one in set(threading.enumerate()) - before if one.name == "flip27-async"]
    return thread


def test_a_result_waits_in_the_mailbox_until_the_caller_collects_it() -> None:
    runner, outcomes = BackgroundRunner(), Outcomes()
    worked_on: list[threading.Thread] = []

    def work() -> int:
        worked_on.append(threading.current_thread())
        return 7

    runner.submit(work, outcomes, None, RetryPolicy())
    runner.wait_for_first_rounds()
    assert outcomes.results == []
    runner.drain(deliver)
    assert (outcomes.results, outcomes.errors) == ([7], [None])
    assert outcomes.threads == {threading.current_thread()}
    assert worked_on != [threading.current_thread()]
    runner.drain(deliver)
    assert outcomes.results == [7]


def test_rounds_of_one_call_are_delivered_in_order_and_never_overlap() -> None:
    runner, outcomes = BackgroundRunner(), Outcomes()
    numbers = itertools.count()
    at_work = threading.Lock()
    enough = threading.Event()

    def work() -> int:
        assert at_work.acquire(blocking=False), "two rounds at once"
        number = next(numbers)
        if number == 20:
            enough.set()
        at_work.release()
        return number

    runner.submit(work, outcomes, 0.0, RetryPolicy())
    assert enough.wait(10)
    runner.close()
    runner.drain(deliver)
    assert outcomes.results[:20] == list(range(20))
    assert set(outcomes.errors) == {None}


def test_a_failed_round_is_retried_and_only_its_success_is_delivered() -> None:
    answers: list[Any] = [OSError("1"), OSError("2"), OSError("3"), "found"]

    def work() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    outcomes = run_once(work, AT_ONCE)
    assert (outcomes.results, outcomes.errors) == (["found"], [None])


@pytest.mark.parametrize("period_s", [None, 0.0])
@pytest.mark.parametrize(
    ("kind", "expected_tries"),
    [
        (OSError, 4),
        (ContractError, 1),
        (CorruptStateError, 1),
        (MissingStateError, 1),
        (IncompatibleStateError, 1),
    ],
)
def test_after_as_many_retries_as_can_help_the_handler_gets_the_original_error(
    kind: type[Exception], expected_tries: int, period_s: float | None
) -> None:
    cause = kind("wrong")
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        raise cause

    assert run_once(work, AT_ONCE, period_s).errors == [cause]
    assert len(tries) == expected_tries


def test_only_consecutive_failures_are_counted() -> None:
    runner, outcomes = BackgroundRunner(), Outcomes()
    answers = itertools.cycle([OSError("a"), OSError("b"), "found"])
    enough = threading.Event()
    found: list[int] = []

    def work() -> Any:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        found.append(1)
        if len(found) == 5:
            enough.set()
        return answer

    runner.submit(work, outcomes, 0.0, RetryPolicy(retries=2, first_pause_s=0.0))
    assert enough.wait(10)
    runner.close()
    runner.drain(deliver)
    assert set(outcomes.errors) == {None}


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()], ids=repr)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_work_that_ends_its_thread_is_reported_as_an_error(error: BaseException) -> None:
    """Otherwise, if a library called sys.exit(), callers would wait for the first round for ever."""

    def work() -> None:
        raise error

    assert run_once(work, RetryPolicy()).errors == [error]


def test_the_runner_waits_for_the_first_rounds_of_all_calls() -> None:
    runner, outcomes = BackgroundRunner(), Outcomes()
    go = threading.Event()
    runner.submit(lambda: "quick", outcomes, None, RetryPolicy())
    runner.submit(lambda: go.wait(10) and "slow", outcomes, None, RetryPolicy())
    go.set()
    runner.wait_for_first_rounds()
    assert runner.in_first_rounds, "their results are not delivered"
    runner.drain(deliver)
    assert not runner.in_first_rounds
    assert sorted(outcomes.results) == ["quick", "slow"]


def test_a_call_that_was_never_made_is_not_waited_for() -> None:
    runner = BackgroundRunner()
    runner.wait_for_first_rounds()
    assert not runner.in_first_rounds


def test_a_later_round_is_not_waited_for() -> None:
    runner, outcomes = BackgroundRunner(), Outcomes()
    stuck, rounds = threading.Event(), itertools.count()
    runner.submit(lambda: next(rounds) and stuck.wait(10), outcomes, 0.0, RetryPolicy())
    runner.wait_for_first_rounds()
    runner.drain(deliver)
    assert not runner.in_first_rounds
    stuck.set()
    runner.close()


def test_close_ends_the_waiting_and_starts_no_further_round_S62() -> None:
    runner, outcomes = BackgroundRunner(), Outcomes()
    go, begun = threading.Event(), threading.Event()
    rounds: queue.SimpleQueue[int] = queue.SimpleQueue()

    def work() -> None:
        rounds.put(1)
        begun.set()
        go.wait(10)

    thread = thread_of(lambda: runner.submit(work, outcomes, 0.0, RetryPolicy()))
    assert begun.wait(10)
    runner.close()
    runner.wait_for_first_rounds()
    go.set()
    thread.join(10)
    assert rounds.qsize() == 1


def test_close_ends_the_pause_before_a_retry() -> None:
    runner, outcomes = BackgroundRunner(), Outcomes()
    failed = threading.Event()

    def work() -> None:
        failed.set()
        raise OSError("again")

    once_more = RetryPolicy(retries=1, first_pause_s=3600.0, longest_pause_s=3600.0)
    thread = thread_of(lambda: runner.submit(work, outcomes, None, once_more))
    assert failed.wait(10)
    runner.close()
    thread.join(10)
    assert not thread.is_alive()


def test_pauses_double_up_to_the_maximum() -> None:
    policy = RetryPolicy(retries=9, first_pause_s=1.0, longest_pause_s=10.0)
    assert [policy.pause_s(n) for n in (1, 2, 3, 4, 5, 1000)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_rounds_pause_until_earlier_results_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """During a long batch no results are collected; with a short period they would fill the memory."""
    monkeypatch.setattr("flip27_source.driver.background.MOST_UNDELIVERED", 3)
    runner, outcomes = BackgroundRunner(), Outcomes()
    begun: queue.SimpleQueue[int] = queue.SimpleQueue()
    numbers = itertools.count()

    def work() -> int:
        number = next(numbers)
        begun.put(number)
        return number

    runner.submit(work, outcomes, 0.0, RetryPolicy())
    assert [begun.get(timeout=20) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(queue.Empty):
        begun.get(timeout=0.2)
    runner.drain(deliver)
    assert begun.get(timeout=20) == 3
    runner.close()


def test_a_drain_ends_although_results_keep_arriving() -> None:
    """Otherwise a call with a period of 0 would keep the coordinator busy for ever."""
    runner, outcomes = BackgroundRunner(), Outcomes()

    def next_arrives_first(handler: Callable[..., None], result: Any, error: BaseException | None) -> None:
        handler(result, error)
        assert len(outcomes.results) < 5, "the drain never ends"
        runner.submit(lambda: "later", outcomes, None, RetryPolicy())
        runner.wait_for_first_rounds()

    runner.submit(lambda: "first", outcomes, None, RetryPolicy())
    runner.wait_for_first_rounds()
    runner.drain(next_arrives_first)
    assert outcomes.results == ["first"]
    runner.drain(deliver)
    assert outcomes.results == ["first", "later"]


def test_repeated_work_continues_after_an_error_and_ends_with_the_runner(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runner = BackgroundRunner()
    rounds = itertools.count(1)
    done: queue.SimpleQueue[int] = queue.SimpleQueue()

    def work() -> None:
        number = next(rounds)
        done.put(number)
        if number == 1:
            raise OSError("once")

    thread = thread_of(lambda: runner.repeat(work, 0.0))
    assert [done.get(timeout=20), done.get(timeout=20)] == [1, 2]
    runner.close()
    thread.join(20)
    assert not thread.is_alive()
    assert "OSError: once" in caplog.text
    runner.drain(deliver)
