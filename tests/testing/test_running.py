"""Inspecting a source without Spark: run, plan and peek."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.errors import ContractError, SchemaError, SplitReadError
from flip27_source.testing import FAIL, literal_source, paged_source, peek, plan, run
from tests.testing.broken_readers import PieceReader
from tests.testing.sabotages import AlwaysWantsACheckpoint

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})
NUMBERS = {"enumerator": "sequence", "start": "0", "end": "10", "rowsPerSplit": "4"}


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    folder.mkdir()
    (folder / "1.json").write_text('{"id": 1, "name": "one"}\n{"id": 2, "name": "two"}\n')
    (folder / "2.json").write_text('{"id": 3, "name": "three"}\n')
    return folder


def files_of(landing: Path, **options: str) -> dict[str, str]:
    return {"enumerator": "files", "reader": "json", "path": str(landing), **options}


def test_run_returns_the_existing_rows_as_arrow_batches(landing: Path) -> None:
    batches = list(run(files_of(landing), schema=SCHEMA))
    assert all(isinstance(batch, pa.RecordBatch) and batch.schema == SCHEMA for batch in batches)
    assert sorted(row["id"] for batch in batches for row in batch.to_pylist()) == [1, 2, 3]


def test_run_continues_from_batch_to_batch_to_the_end_of_the_source() -> None:
    assert [number for batch in run(NUMBERS) for number in batch.column(0).to_pylist()] == list(range(10))


def test_run_and_peek_keep_the_files_that_a_query_would_delete(landing: Path) -> None:
    source = files_of(landing, cleanSource="delete", maxFilesPerTrigger="1")
    assert sum(batch.num_rows for batch in run(source, schema=SCHEMA)) == 3
    assert peek(source, 9, schema=SCHEMA).num_rows == 3
    assert sorted(file.name for file in landing.iterdir()) == ["1.json", "2.json"]


def test_rows_yielded_one_by_one_are_returned_as_batches() -> None:
    source = literal_source({"a": [1, 2], "b": [3]})
    assert sorted(row for batch in run(source) for row in batch.column(0).to_pylist()) == [1, 2, 3]


def test_pages_of_a_split_are_run_to_the_end() -> None:
    source = paged_source({"a": [[1, 2], [3]]})
    assert [row for batch in run(source) for row in batch.column(0).to_pylist()] == [1, 2, 3]


def test_run_until_a_number_of_rows_ends_a_source_that_never_ends() -> None:
    endless = {"enumerator": "sequence", "rowsPerSplit": "4"}
    assert sum(batch.num_rows for batch in run(endless, until=10)) in range(10, 14)


def test_run_until_a_row_was_seen_ends_after_its_batch() -> None:
    endless = {"enumerator": "sequence", "rowsPerSplit": "4"}
    rows = [
        number
        for batch in run(endless, until=lambda batch: 9 in batch.column(0).to_pylist())
        for number in batch.column(0).to_pylist()
    ]
    assert rows[-4:] == [8, 9, 10, 11]


def test_run_leaves_nothing_at_the_state_location(landing: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    for _ in range(2):
        assert sum(b.num_rows for b in run(files_of(landing, stateLocation=str(state)), schema=SCHEMA)) == 3
    assert not state.exists()


def test_run_raises_the_error_that_a_query_would_raise() -> None:
    with pytest.raises(SplitReadError, match="reading split 'a' failed"):
        list(run(literal_source({"a": [1, FAIL, 2]})))


def test_a_schema_in_sparks_notation_is_refused_with_a_remedy(landing: Path) -> None:
    with pytest.raises(SchemaError, match="the schema is 'id long', a str") as caught:
        peek(files_of(landing), schema="id long")  # type: ignore[arg-type]
    assert "schema=pa.schema(" in str(caught.value.remedy)


def test_a_schema_that_is_not_given_is_inferred_and_recorded_nowhere(landing: Path, tmp_path: Path) -> None:
    rows = peek(files_of(landing, stateLocation=str(tmp_path / "state")))
    assert rows.schema.names == ["id", "name"]
    assert rows.num_rows == 3
    assert not (tmp_path / "state").exists()
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(SchemaError, match="no schema is set, and there is no file yet"):
        run(files_of(empty))


def test_plan_shows_which_subtask_would_read_which_split_and_reads_nothing(landing: Path) -> None:
    (landing / "2.json").write_text("not JSON, and 26 bytes long")
    planned = plan(files_of(landing, mode="FAILFAST"), schema=SCHEMA)
    assert planned.to_pylist() == [  # small files go to one subtask
        {"subtask": 0, "split": str(landing / "1.json"), "files": 1, "rows": None, "bytes": 50},
        {"subtask": 0, "split": str(landing / "2.json"), "files": 1, "rows": None, "bytes": 27},
    ]


def test_plan_respects_the_limits_of_a_batch(landing: Path) -> None:
    assert plan(files_of(landing, maxFilesPerTrigger="1"), schema=SCHEMA).num_rows == 1


def test_the_plan_of_an_empty_source_is_empty(tmp_path: Path) -> None:
    assert plan(files_of(tmp_path), schema=SCHEMA).num_rows == 0
    assert list(run(files_of(tmp_path), schema=SCHEMA)) == []


@pytest.mark.parametrize("looks", [lambda **given: list(run(**given)), peek], ids=["run", "peek"])
def test_a_source_that_always_wants_a_checkpoint_ends_with_the_name_of_the_method(looks: Any) -> None:
    with pytest.raises(
        ContractError, match="wants_checkpoint of AlwaysWantsACheckpoint returns True each time"
    ):
        looks(enumerator=AlwaysWantsACheckpoint, reader=PieceReader)


def test_forty_empty_splits_one_by_one_are_no_endless_loop() -> None:
    empty: dict[str, list[int]] = {f"empty {number}": [] for number in range(40)}
    source = literal_source({"first": [1], **empty, "last": [2]}, maxFilesPerTrigger="1")
    assert [row for batch in run(source) for row in batch.column(0).to_pylist()] == [1, 2]


def test_peek_returns_the_first_rows_and_no_more() -> None:
    assert peek({"enumerator": "sequence"}, 3).to_pydict() == {"id": [0, 1, 2]}
    assert peek(NUMBERS, 100).num_rows == 10
    assert peek(NUMBERS, 0).num_rows == 0
