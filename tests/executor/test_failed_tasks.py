"""What a task that fails leaves for people, and what they see of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import SplitReadError
from flip27_source.executor.failed_tasks import recorded
from flip27_source.executor.subtask import read_subtask
from flip27_source.reader import SourceReaderContext
from flip27_source.snapshots.file_names import FAILURES
from tests.cli.command_line import flip27
from tests.snapshots.spark_logs import FileQuery, log_batch, log_commit

FIRST = {"checkpoint": 0, "format": 1}


@dataclass
class Failing:
    """A query over one JSON file, whose second record is damaged; its batch is planned and logged."""

    query: FileQuery
    holder: CoordinatorHolder

    @classmethod
    def begun(cls, root: Path) -> Failing:
        query = FileQuery(root, reader="json", mode="FAILFAST")
        query.landing.mkdir()
        (query.landing / "orders.json").write_text('{"n": 1}\n{"n": \n')
        made = cls(query, CoordinatorHolder(query.source, Boundedness.CONTINUOUS_UNBOUNDED))
        before = query.at
        while query.at == before:
            query.at = made.holder.latest_offset(before, None)
        log_batch(query.checkpoint, 0, query.at)
        return made

    def attempt(self, number: int = 0, **changes: Any) -> None:
        source = self.query.source
        (planned,) = self.holder.plan(FIRST | {"state": {"inline": {}}, "summary": {}}, self.query.at)
        planned = replace(planned, **changes)
        schema = pa.schema([("n", pa.int64())])
        context = SourceReaderContext(
            options=source.options, schema=schema, time_zone="UTC", subtask_id=0, checkpoint_id=1,
            attempt_number=number,
        )  # fmt: skip
        with pytest.raises(SplitReadError, match="malformed"):
            list(recorded(source, planned, context, read_subtask(source, planned, context)))

    @property
    def kept(self) -> list[Path]:
        return sorted(self.query.checkpoint.glob(f"flip27/*/{FAILURES}/*"))

    def shown(self, *places: str | Path) -> dict[str, Any]:
        (source,) = flip27(
            "ui", *(places or ("--checkpoint-location", self.query.checkpoint)), "--json"
        ).data["sources"]
        return source


def test_a_query_that_ends_on_a_file_has_failed_with_the_error_that_names_it(tmp_path: Path) -> None:
    failing = Failing.begun(tmp_path)
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
    failing = Failing.begun(tmp_path)
    failing.attempt()
    log_commit(failing.query.checkpoint, 0)
    failing.holder.close()
    shown = failing.shown()
    assert (shown["condition"], shown["error"]) == ("stopped", None)


def test_failures_of_an_earlier_driver_are_over(tmp_path: Path) -> None:
    failing = Failing.begun(tmp_path)
    failing.attempt()
    failing.holder.close()
    again = CoordinatorHolder(failing.query.source, Boundedness.CONTINUOUS_UNBOUNDED)
    again.plan(FIRST | {"state": {"inline": {}}, "summary": {}}, failing.query.at)
    assert failing.shown()["condition"] == "running"
    again.close()
    assert (failing.shown()["condition"], failing.shown()["error"]) == ("stopped", None)


def test_only_the_newest_attempts_are_kept_and_nothing_where_the_state_is_not(tmp_path: Path) -> None:
    failing = Failing.begun(tmp_path)
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


def test_a_state_that_cannot_be_written_leaves_the_error_of_the_task(tmp_path: Path) -> None:
    failing = Failing.begun(tmp_path)
    (lineage,) = failing.query.checkpoint.glob("flip27/files-*")
    (lineage / FAILURES).write_text("no folder")
    failing.attempt()
    (lineage / FAILURES).unlink()
    failing.holder.close()
    assert failing.shown()["condition"] == "stopped"
