"""The example sqlite_folder: every file once, whatever happens."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from examples.sqlite_folder.source import SqliteFileReader, SqliteFolderEnumerator
from flip27_source.errors import SplitReadError
from flip27_source.testing import MicroBatchEngine, SourceUnderTest, check_source, run

Reading = tuple[str, int, float | None]

MONDAY: list[Reading] = [("attic", 1, 20.5), ("cellar", 2, 11.0)]
TUESDAY: list[Reading] = [("attic", 3, 21.0), ("cellar", 4, None)]
WEDNESDAY: list[Reading] = [("attic", 5, 19.5)]


def write(folder: Path, name: str, rows: list[Reading]) -> Path:
    """A file that is complete when it appears in the folder."""
    draft = folder / f"{name}.draft"
    with closing(sqlite3.connect(draft)) as database, database:
        database.execute("CREATE TABLE readings (device TEXT, taken_at INTEGER, celsius REAL)")
        database.executemany("INSERT INTO readings VALUES (?, ?, ?)", rows)
    return draft.rename(folder / f"{name}.sqlite")


@pytest.fixture
def source(tmp_path: Path) -> SourceUnderTest:
    write(tmp_path, "monday", MONDAY)
    write(tmp_path, "tuesday", TUESDAY)
    return SourceUnderTest(
        options={"folder": str(tmp_path)}, enumerator=SqliteFolderEnumerator, reader=SqliteFileReader
    )


def test_the_rows_of_all_files_are_read(source: SourceUnderTest) -> None:
    table = pa.Table.from_batches(run(source))
    assert [tuple(row.values()) for row in table.to_pylist()] == [*MONDAY, *TUESDAY]


def test_a_folder_of_sqlite_files_keeps_the_laws(source: SourceUnderTest, tmp_path: Path) -> None:
    names = (f"day {number}" for number in itertools.count())
    check_source(source, rows=[*MONDAY, *TUESDAY], grow=lambda: write(tmp_path, next(names), WEDNESDAY))


def test_a_user_who_needs_fewer_columns_gets_those(source: SourceUnderTest) -> None:
    schema = pa.schema({"celsius": pa.float64(), "device": pa.string()})
    table = pa.Table.from_batches(run(source, schema=schema))
    assert table.column("celsius").to_pylist() == [20.5, 11.0, 21.0, None]
    assert table.schema == schema


def test_a_file_that_appears_later_makes_the_next_batch(
    source: SourceUnderTest, tmp_path: Path, flip27_engine: Callable[..., MicroBatchEngine]
) -> None:
    engine = flip27_engine(source)
    engine.process_all_available()
    write(tmp_path, "wednesday", WEDNESDAY)
    engine.restart()
    assert [list(batch.rows) for batch in engine.process_all_available()] == [WEDNESDAY]


def test_a_file_that_was_written_again_before_it_was_read_stops_the_query(
    source: SourceUnderTest, tmp_path: Path, flip27_engine: Callable[..., MicroBatchEngine]
) -> None:
    engine = flip27_engine(source)
    engine.trigger()
    write(tmp_path, "monday", [*MONDAY, *WEDNESDAY])
    with pytest.raises(SplitReadError, match=r"monday\.sqlite has changed since it was found"):
        engine.run_batch()


def test_a_file_that_is_gone_before_it_was_read_stops_the_query(
    source: SourceUnderTest, tmp_path: Path, flip27_engine: Callable[..., MicroBatchEngine]
) -> None:
    engine = flip27_engine(source)
    engine.trigger()
    (tmp_path / "monday.sqlite").unlink()
    with pytest.raises(SplitReadError, match=r"monday\.sqlite"):
        engine.run_batch()
