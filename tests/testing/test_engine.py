"""MicroBatchEngine: Spark's calls in Spark's order, attempts, crashes, and the state after them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.errors import AttemptError, NewColumnsError, SchemaError, SplitReadError
from flip27_source.snapshots.store import LocalStore, MemoryStore
from flip27_source.testing import (
    BOOM,
    CRASH,
    FAIL,
    Crash,
    Crashed,
    ExecutorLost,
    Fail,
    MicroBatchEngine,
    Speculation,
    Step,
    Victim,
    linked_source,
    literal_source,
    paged_source,
)

ABC = {"a": [1, 2], "b": [3], "c": [4, 5]}
ALL = [(1,), (2,), (3,), (4,), (5,)]


def steps(engine: MicroBatchEngine, batch_id: int) -> list[Step]:
    return [passing.step for passing in engine.passed if passing.batch_id == batch_id]


def in_order(found: list[Step]) -> list[Step]:
    """Each step once, at its first occurrence."""
    return list(dict.fromkeys(found))


def all_rows_after_restart(engine: MicroBatchEngine) -> list[Any]:
    engine.restart()
    engine.process_all_available()
    return engine.rows


def test_rows_come_batch_by_batch() -> None:
    engine = MicroBatchEngine(literal_source(ABC, maxFilesPerTrigger="2"))
    first, second = engine.process_all_available()
    assert (first.rows, second.rows) == (((1,), (2,), (3,)), ((4,), (5,)))
    assert first.end == second.start
    assert engine.run_batch() is None
    assert engine.rows == ALL


def test_the_steps_of_a_batch_come_in_the_same_order_as_in_spark() -> None:
    engine = MicroBatchEngine(linked_source({"a": [1]}))
    engine.process_all_available()
    expected = [step for step in Step if step is not Step.COMMIT_PASSED]
    assert in_order(steps(engine, 0)) == expected


def test_a_batch_is_committed_once_the_next_one_is_logged() -> None:
    engine = MicroBatchEngine(literal_source(ABC, maxFilesPerTrigger="1"))
    engine.process_all_available()
    told = in_order(steps(engine, 1))
    assert (
        told.index(Step.OFFSET_LOGGED) + 1 == told.index(Step.COMMIT_PASSED) == told.index(Step.PLANNED) - 1
    )
    assert steps(engine, 3) == [Step.TRIGGER, Step.OFFSET_RETURNED]


def test_the_first_batch_runs_even_without_data() -> None:
    engine = MicroBatchEngine(literal_source({}))
    (batch,) = engine.process_all_available()
    assert (batch.rows, batch.start) == ((), batch.end)


def test_a_batch_without_data_is_committed_and_has_no_tasks() -> None:
    source = literal_source({"a": [1]})
    engine = MicroBatchEngine(source)
    engine.run_batch()
    engine.run_no_data_batch()
    source.add("b", 2)
    engine.process_all_available()
    assert engine.logs.offsets[0] == engine.logs.offsets[1] != engine.logs.offsets[2]
    assert steps(engine, 1) == [Step.OFFSET_LOGGED, Step.COMMIT_PASSED]
    assert engine.rows == [(1,), (2,)]


@pytest.mark.parametrize("step", [step for step in Step if step is not Step.COMMIT_PASSED])
def test_a_crash_at_any_step_loses_nothing(step: Step) -> None:
    engine = MicroBatchEngine(linked_source({"a": [1, 2]}))
    with pytest.raises(Crashed, match=step.name):
        engine.run_batch(crash_at=step)
    assert not engine.is_alive
    assert "dead: call restart() to continue" in repr(engine)
    with pytest.raises(Crashed, match="restart"):
        engine.run_batch()
    assert all_rows_after_restart(engine) == [(1,), (2,)]


def test_a_crash_can_be_set_for_a_batch_and_an_occurrence() -> None:
    engine = MicroBatchEngine(literal_source(ABC, maxFilesPerTrigger="2"))
    engine.crash_at(Step.ROWS_READ, batch_id=0, nth=3)
    engine.crash_at(Step.PLANNED, batch_id=1)
    crashes = []
    for _ in range(2):
        with pytest.raises(Crashed) as caught:
            engine.process_all_available()
        crashes.append(str(caught.value))
        engine.restart()
    engine.process_all_available()
    assert ["ROWS_READ of batch 0, time 3" in crashes[0], "PLANNED of batch 1" in crashes[1]] == [True, True]
    assert engine.rows == ALL


def test_after_a_restart_the_uncommitted_batch_is_planned_first() -> None:
    engine = MicroBatchEngine(literal_source(ABC, maxFilesPerTrigger="1"))
    engine.run_batch()
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.TASK_STARTED)
    engine.restart()
    before = len(engine.passed)
    batch = engine.run_batch()
    assert batch is not None
    assert (batch.batch_id, batch.is_replay, batch.rows) == (1, True, ((3,),))
    of_state = (Step.STATE_WRITE, Step.STATE_WRITTEN)  # the driver shows that it is alive
    assert next(at.step for at in engine.passed[before:] if at.step not in of_state) is Step.PLANNED


def test_a_repeated_batch_is_in_the_sink_once() -> None:
    engine = MicroBatchEngine(literal_source({"a": [1, 2]}))
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.SINK_WRITTEN)
    assert all_rows_after_restart(engine) == [(1,), (2,)]
    ((before, after),) = engine.sink.overwritten
    assert before.rows == after.rows


def test_calls_of_a_dead_process_have_no_effect() -> None:
    engine = MicroBatchEngine(literal_source({"a": [1]}))
    holder = engine.holder
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.STATE_WRITE)
    assert isinstance(engine.store, MemoryStore)
    assert engine.store.files == {}
    with pytest.raises(BaseException, match="dead process"):
        holder.latest_offset(json.loads(engine.logs.start_of(0)), None)


def test_a_failed_task_is_retried_and_its_first_rows_are_discarded() -> None:
    engine = MicroBatchEngine(literal_source({"a": [1, 2, CRASH, 3], "b": [4, Fail("oh no"), 5]}))
    (batch,) = engine.process_all_available()
    assert batch.rows == ((1,), (2,), (3,), (4,), (5,))
    killed, failed = batch.failures
    assert (killed.rows, killed.error) == (((1,), (2,)), "Killed: the data says crash at a[2]")
    assert (failed.task, failed.number, failed.rows) == (1, 0, ((4,),))
    assert "oh no" in (failed.error or "")
    assert [attempt.number for attempt in batch.attempts if attempt.accepted] == [1, 1]


def test_a_task_that_fails_too_often_fails_the_query_which_can_be_restarted() -> None:
    source = literal_source({"a": [1, Fail("oh no", times=3)]})
    engine = MicroBatchEngine(source, max_failures=2)
    with pytest.raises(SplitReadError, match="oh no"):
        engine.run_batch()
    assert not engine.is_alive
    engine.restart()
    engine.process_all_available()
    assert (engine.rows, source.markers.effects) == ([(1,)], 3)


def test_an_executor_that_is_killed_too_often_fails_the_query() -> None:
    engine = MicroBatchEngine(literal_source({"a": [Crash(times=None)]}), max_failures=3)
    with pytest.raises(ExecutorLost, match="attempt 2: the data says crash"):
        engine.run_batch()


def test_an_executor_can_be_killed_without_the_driver() -> None:
    engine = MicroBatchEngine(linked_source({"a": [1, 2]}))
    engine.crash_at(Step.REPORT_WRITTEN, victim=Victim.EXECUTOR)
    (batch,) = engine.process_all_available()
    assert [attempt.error is None for attempt in batch.attempts] == [False, True]
    assert batch.rows == ((1,), (2,))
    with pytest.raises(ValueError, match="step of the driver"):
        engine.crash_at(Step.PLANNED, victim=Victim.EXECUTOR)


def test_in_one_process_a_crashing_task_also_crashes_the_driver() -> None:
    engine = MicroBatchEngine(literal_source({"a": [1, CRASH, 2]}), one_process=True)
    with pytest.raises(Crashed, match="the data says crash"):
        engine.run_batch()
    engine.restart()
    engine.process_all_available(through_crashes=True)
    assert engine.rows == [(1,), (2,)]


@pytest.mark.parametrize(
    ("speculation", "counts", "first_to_report"),
    [(Speculation.ORIGINAL_WINS, 0, 0), (Speculation.COPY_WINS, 1, 1), (Speculation.RESULT_LOST, 0, 1)],
)
def test_only_one_of_two_copies_of_a_task_counts(
    speculation: Speculation, counts: int, first_to_report: int
) -> None:
    engine = MicroBatchEngine(linked_source({"a": [1, 2, 3]}))
    batch = engine.run_batch(speculation=speculation)
    assert batch is not None
    assert [attempt.number for attempt in batch.attempts if attempt.accepted] == [counts]
    assert [attempt.rows for attempt in batch.attempts] == [((1,), (2,), (3,))] * 2
    assert isinstance(engine.store, MemoryStore)
    (report,) = (data for name, data in engine.store.files.items() if "/reports/" in name)
    assert json.loads(report)["report"]["metrics"]["attempt_number"] == first_to_report


def test_if_two_copies_read_different_pages_the_first_to_report_counts() -> None:
    source = paged_source({"a": [[1]]})
    engine = MicroBatchEngine(source)
    engine.trigger()
    (task,) = engine.partitions()
    original, copy = engine.attempt(task, 0), engine.attempt(task, 1)
    assert next(original) == (1,)
    assert list(copy) == [(1,)]
    source.add("a", [2])
    with pytest.raises(AttemptError, match="was first"):
        list(original)
    engine.run_batch()
    assert all_rows_after_restart(engine) == [(1,), (2,)]


def test_a_copy_counts_if_the_other_copy_fails() -> None:
    engine = MicroBatchEngine(literal_source({"a": [1, FAIL, 2]}))
    batch = engine.run_batch(speculation=Speculation.ORIGINAL_WINS)
    assert batch is not None
    assert batch.rows == ((1,), (2,))
    assert [attempt.number for attempt in batch.attempts if attempt.accepted] == [1]


def test_a_stage_runs_once_for_every_action() -> None:
    engine = MicroBatchEngine(literal_source(ABC), parallelism=3)
    batch = engine.run_batch(actions=3)
    assert batch is not None
    assert [(a.stage, a.number) for a in batch.attempts] == [(s, 0) for s in range(3) for _ in ABC]
    assert list(batch.rows) == ALL


def test_an_attempt_can_be_held_across_a_restart() -> None:
    engine = MicroBatchEngine(paged_source({"a": [[1], [2]]}))
    engine.trigger()
    zombie = engine.attempt(engine.partitions()[0])
    assert next(zombie) == (1,)
    engine.restart()
    assert list(zombie) == [(2,)]
    engine.process_all_available()
    assert engine.rows == [(1,), (2,)]


def test_the_state_can_live_inside_the_offsets() -> None:
    engine = MicroBatchEngine(literal_source(ABC, maxFilesPerTrigger="1"), inline_state=True)
    engine.process_all_available()
    engine.restart()
    assert engine.process_all_available() == []
    assert engine.store is None
    assert engine.rows == ALL


def test_a_store_is_given_or_named_by_the_option(tmp_path: Any) -> None:
    source = literal_source(ABC, stateLocation=str(tmp_path / "state"))
    engine = MicroBatchEngine(source)
    engine.process_all_available()
    assert isinstance(engine.store, LocalStore)
    assert sorted(engine.rows) == ALL


def test_available_now_ends_and_can_be_started_again() -> None:
    source = paged_source({"a": [[1], [2]]}, maxRowsPerSplit="1")
    engine = MicroBatchEngine(source, available_now=True)
    engine.process_all_available()
    source.add("a", [3])
    assert engine.process_all_available() == []
    engine.restart(parallelism=3)
    engine.process_all_available()
    assert engine.rows == [(1,), (2,), (3,)]


def test_a_source_without_end_is_detected() -> None:
    engine = MicroBatchEngine({"enumerator": "sequence", "rowsPerSplit": "1"})
    with pytest.raises(RuntimeError, match="use a source that ends"):
        engine.process_all_available(max_batches=5)


def test_a_schema_that_is_missing_and_cannot_be_inferred_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no schema is set, and there is no file yet"):
        MicroBatchEngine({"enumerator": "files", "reader": "json", "path": str(tmp_path)})


@pytest.mark.parametrize("schema", [None, pa.schema({"id": pa.int64()})], ids=["found", "given"])
def test_new_columns_stop_the_query_as_in_spark_unless_the_schema_is_given(
    tmp_path: Path, schema: pa.Schema | None
) -> None:
    (landing := tmp_path / "landing").mkdir()
    (landing / "1.json").write_text('{"id": 1}\n')
    options = {"enumerator": "files", "reader": "json", "path": str(landing)}
    engine = MicroBatchEngine(options | {"stateLocation": str(tmp_path / "state")}, schema=schema)
    engine.process_all_available()
    (landing / "2.json").write_text('{"id": 2, "name": "two"}\n')
    if schema is None:
        with pytest.raises(NewColumnsError, match="name"):
            engine.process_all_available()
        engine.restart()
    engine.process_all_available()
    assert sorted(engine.rows) == [(1,), (2,) if schema else (2, "two")]


def test_the_same_calls_give_the_same_run() -> None:
    def run() -> tuple[list[str], list[Any]]:
        source = paged_source({"a": [[1, 2], [3, CRASH], [4]], "b": [[5]]}, maxRowsPerSplit="1")
        engine = MicroBatchEngine(source)
        engine.crash_at(Step.STATE_WRITTEN, batch_id=1)
        engine.process_all_available(through_crashes=True)
        return list(map(str, engine.passed)), engine.rows

    assert run() == run()


def test_a_batch_can_be_converted_to_a_table() -> None:
    schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    engine = MicroBatchEngine(literal_source({"a": [(1, "x"), (2, None)]}, schema=schema))
    (batch,) = engine.process_all_available()
    assert batch.to_arrow(engine.schema).to_pylist() == [{"id": 1, "name": "x"}, {"id": 2, "name": None}]


def test_poison_fails_every_time_and_can_be_quarantined() -> None:
    engine = MicroBatchEngine(literal_source({"a": [1, BOOM], "b": [2]}, onSplitError="quarantine"))
    engine.process_all_available()
    assert engine.rows == [(2,)]


def test_a_discovery_that_crashes_kills_the_driver() -> None:
    source = literal_source({"a": [1]})
    assert source.enumerator is not None

    class Crashes(source.enumerator):  # type: ignore[name-defined,misc]
        def discover(self, position: int | None) -> Any:
            self.data.markers.come_by(CRASH, "discover")
            return super().discover(position)

    engine = MicroBatchEngine(source, enumerator=Crashes)
    with pytest.raises(Crashed, match="crash at discover"):
        engine.run_batch()
    assert all_rows_after_restart(engine) == [(1,)]


def test_a_driver_can_be_killed_while_an_error_ends_its_query(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "a.txt").write_text("a\n")
    state = str(tmp_path / "state")
    engine = MicroBatchEngine(
        {"enumerator": "files", "reader": "text", "path": str(landing), "stateLocation": state}
    )
    engine.process_all_available()
    landing.rename(tmp_path / "moved")
    engine.crash_at(Step.STATE_WRITE, batch_id=engine.logs.next_batch_id)
    with pytest.raises(Crashed, match="the driver was killed: STATE_WRITE"):
        engine.run_batch()
    (tmp_path / "moved").rename(landing)
    (landing / "b.txt").write_text("b\n")
    assert all_rows_after_restart(engine) == [("a",), ("b",)]
