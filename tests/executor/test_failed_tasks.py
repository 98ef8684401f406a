"""What a task that fails leaves for people, and what they see of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import LONGEST_KEPT, QuarantineError
from flip27_source.executor.split_read import Item
from flip27_source.snapshots.file_names import FAILURES, CheckpointName
from flip27_source.snapshots.store import LocalStore
from flip27_source.snapshots.task_failures import keep_error
from tests.cli.command_line import flip27
from tests.executor.failing_query import FailingQuery
from tests.snapshots.spark_logs import log_commit
from tests.toy_sources import INITIAL
from tests.without_root import run_without_root


def test_a_query_that_ends_on_a_file_has_failed_with_the_error_that_names_it(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.attempt()
    assert failing.shown()["error"] is None, "Spark may try the task again"
    failing.holder.close()
    shown = failing.shown()
    assert shown["condition"] == "failed"
    assert shown["driver"].startswith("failed at ")
    assert (
        f"SplitReadError: {failing.query.landing}/orders.json, byte 9: the record is malformed"
        in shown["error"]
    )
    assert shown["remedy"].startswith("correct the schema; or set mode to PERMISSIVE")
    said = " ".join(flip27("state", "show", failing.query.checkpoint).out.split())
    assert "orders.json, byte 9: the record is malformed" in said
    without_spark = failing.shown("--state", failing.query.checkpoint / "flip27")
    assert (without_spark["condition"], without_spark["error"]) == ("stopped", shown["error"])


def test_a_batch_that_is_complete_after_all_has_no_error(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.attempt()
    log_commit(failing.query.checkpoint, 0)
    failing.holder.close()
    shown = failing.shown()
    assert (shown["condition"], shown["error"]) == ("stopped", None)


def test_a_failure_is_over_once_a_later_attempt_has_read_all(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.attempt(0)
    failing.repair()
    failing.read(1)
    failing.holder.close()  # the query was stopped before its batch was complete, or its sink has failed
    for places in (), ("--state", failing.query.checkpoint / "flip27"):
        shown = failing.shown(*places)
        assert (shown["condition"], shown["error"]) == ("stopped", None)


def test_a_task_that_has_reported_has_not_ended_the_query(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path, taskReports="always", parallelism="2")
    failing.attempt(0)
    (failure,) = failing.kept
    failing.repair()
    failing.read(0)
    assert failing.kept == [failure], "another attempt ran at the same time"
    failing.holder.close()
    assert (failing.shown()["condition"], failing.shown()["error"]) == ("stopped", None)


def test_a_task_that_fails_to_read_again_what_it_has_reported_has_ended_the_query(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path, taskReports="always", parallelism="2")
    file = failing.query.landing / "orders.json"
    damaged = file.read_text()
    failing.repair()
    failing.read()
    failing.holder.close()  # its sink has failed
    file.write_text(damaged)
    failing.restart()
    failing.attempt(0)
    failing.attempt(1)
    failing.holder.close()
    shown = failing.shown()
    assert shown["condition"] == "failed"
    assert "orders.json, byte 9: the record is malformed" in shown["error"]


def test_a_batch_that_demands_reports_only_when_it_is_repeated_says_why_it_fails(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.attempt()
    failing.holder.close()
    way_out = {"onSplitError": "quarantine", "maxQuarantinedSplits": "0", "maxSplitAttempts": "1"}
    failing.restart(**way_out)
    with pytest.raises(QuarantineError):
        failing.read()
    assert failing.shown()["report_demand"] == "required"
    failing.holder.close()
    shown = failing.shown()
    assert (shown["condition"], shown["error"].partition(":")[0]) == ("failed", "QuarantineError")
    (batch,) = flip27("state", "history", failing.query.checkpoint, "--json").data
    assert (batch["rows"], batch["longest_task_ms"]) == (None, None), "no task has reported"


def test_a_query_that_does_not_say_that_it_is_alive_is_not_taken_for_the_last_one(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path, requestInterval="0s")
    for epoch in (1, 2, 3):
        if epoch > 1:
            failing.restart()
            failing.holder.plan(INITIAL, failing.query.at)
        shown = failing.shown()
        assert (shown["condition"], shown["error"]) == ("unknown", None)
        assert shown["driver"].endswith(f", epoch {epoch}")
        failing.attempt()
        failing.holder.close()
        assert failing.shown()["condition"] == "failed"
        assert failing.shown()["driver"].endswith(f", epoch {epoch}")


def keep(failing: FailingQuery, error: Exception, **of: Any) -> None:
    """As native reads and the listener do, which know of no task."""
    lineage, _, file = failing.query.at["state"]["file"].split("/")
    name = CheckpointName.parse(file)
    assert name is not None
    store = LocalStore(str(failing.query.checkpoint / "flip27"))
    keep_error(store, lineage, name, error=error, secrets={}, **of)


def test_what_has_ended_a_batch_counts_more_than_its_tasks_which_may_all_have_read_their_splits(
    tmp_path: Path,
) -> None:
    failing = FailingQuery.begun(tmp_path, taskReports="always", parallelism="2")
    failing.attempt(0)
    failing.repair()
    failing.read(0)
    keep(failing, ValueError("the sink is full"))
    keep(failing, ValueError("an attempt that counts no more"), subtask=0)
    failing.holder.close()
    for places in (), ("--state", failing.query.checkpoint / "flip27"):
        shown = failing.shown(*places)
        assert (shown["condition"], shown["error"]) == ("failed", "ValueError: the sink is full")
    log_commit(failing.query.checkpoint, 0)
    assert (failing.shown()["condition"], failing.shown()["error"]) == ("stopped", None)


def test_a_secret_that_the_limit_of_a_text_cuts_is_not_kept(tmp_path: Path) -> None:
    secret = "a-long-key-of-the-storage"
    failing = FailingQuery.begun(tmp_path, **{"storage.secret": secret})

    def rows(*_: Any) -> Iterator[Item]:
        yield from ()
        raise ValueError("x" * (LONGEST_KEPT - len("ValueError: ") - 10) + secret)

    with pytest.raises(ValueError, match="xxx"):
        failing.read(rows=rows)
    (failure,) = failing.kept
    assert secret[:5] not in failure.read_text()
    failing.holder.close()


def test_what_is_said_of_a_quarantined_split_has_no_secret(tmp_path: Path) -> None:
    secret = "s3cr3t-key"
    failing = FailingQuery.begun(
        tmp_path, onSplitError="quarantine", maxSplitAttempts="1", **{"storage.secret": secret}
    )
    (failing.query.landing / "orders.json").write_text(f'{secret} {{"n":')  # as long as before

    failing.read()
    failing.holder.close()
    kept = {path: path.read_text() for path in failing.query.checkpoint.rglob("*.json")}
    assert any("malformed" in text for text in kept.values())
    assert not [path for path, text in kept.items() if secret in text]


def test_failures_of_an_earlier_driver_are_over(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.attempt()
    failing.holder.close()
    again = CoordinatorHolder(failing.query.source, Boundedness.CONTINUOUS_UNBOUNDED)
    again.plan(INITIAL, failing.query.at)
    assert failing.shown()["condition"] == "running"
    again.close()
    assert (failing.shown()["condition"], failing.shown()["error"]) == ("stopped", None)


def at_ms(failure: Path, moment: int) -> None:
    """As if the clock of the task's host had shown this time."""
    failure.write_text(json.dumps({**json.loads(failure.read_text()), "at_ms": moment}))
    failure.rename(failure.with_name(f"{failure.name.rpartition('-')[0]}-{moment}.json"))


def test_whose_failure_it_is_does_not_depend_on_the_clocks_of_hosts(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.attempt()
    at_ms(failing.kept[0], 1)
    failing.holder.close()
    assert failing.shown()["condition"] == "failed"
    at_ms(failing.kept[0], 10**14)
    failing.restart()
    failing.holder.plan(INITIAL, failing.query.at)
    failing.holder.close()
    assert (failing.shown()["condition"], failing.shown()["error"]) == ("stopped", None)
    failing.restart()
    failing.attempt()
    assert len(failing.kept) == 2
    failing.holder.close()
    assert failing.shown()["condition"] == "failed"


def test_only_the_newest_attempts_are_kept_and_nothing_where_the_state_is_not(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    for number in range(7):
        failing.attempt(number)
    assert len(failing.kept) == 4
    for file in failing.kept:
        file.unlink()
    elsewhere = tmp_path / "another-disk"
    failing.attempt(state=str(elsewhere))
    failing.attempt(document=None)
    assert failing.kept == []
    assert not elsewhere.exists()
    failing.holder.close()


_SHOW = "import sys; from flip27_source.cli.main import main; sys.exit(main(['state', 'show', sys.argv[1]]))"


def test_what_another_user_has_left_does_not_hide_the_state(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.attempt()
    failing.holder.close()
    (failure,) = failing.kept
    for closed in failure, failure.parent:
        mode = closed.stat().st_mode
        closed.chmod(0)
        said = run_without_root(_SHOW, failing.query.checkpoint)
        closed.chmod(mode)
        assert said.returncode == 0, said.stderr
        assert "stopped at" in said.stdout


@pytest.mark.parametrize("number", ["x", None, [1], 1.5, True])
def test_a_record_of_a_driver_with_an_odd_number_hides_nothing(tmp_path: Path, number: object) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.holder.close()
    (file,) = failing.query.checkpoint.glob("flip27/*/drivers/*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "numbers": {"checkpoint": number}}))
    assert failing.shown()["condition"] == "stopped"
    assert flip27("export-metrics", "--once", "--state", failing.query.checkpoint / "flip27").code == 0


@pytest.mark.parametrize("name", ["started_ms", "ended_ms"])
def test_a_record_of_a_driver_with_an_impossible_time_hides_nothing(tmp_path: Path, name: str) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.holder.close()
    (file,) = failing.query.checkpoint.glob("flip27/*/drivers/*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), name: 10**18}))
    assert failing.shown()["condition"] == "stopped"
    assert "stopped" in flip27("state", "show", failing.query.checkpoint).out


def test_a_state_that_cannot_be_written_leaves_the_error_of_the_task(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    (lineage,) = failing.query.checkpoint.glob("flip27/files-*")
    (lineage / FAILURES).write_text("no folder")
    failing.attempt()
    (lineage / FAILURES).unlink()
    failing.holder.close()
    assert failing.shown()["condition"] == "stopped"
