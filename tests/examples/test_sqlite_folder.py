"""The example sqlite_folder: every row is read once, whatever happens and whatever is added."""

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
from flip27_source.testing import (
    Crashed,
    MicroBatchEngine,
    SourceUnderTest,
    Step,
    check_reader,
    check_source,
    run,
)

Engine = Callable[..., MicroBatchEngine]
Reading = tuple[str, int, float | None]

ATTIC: list[Reading] = [("attic", 1, 20.5), ("attic", 3, 21.0), ("attic", 5, 19.5)]
CELLAR: list[Reading] = [("cellar", 2, 11.0), ("cellar", 4, None)]
LATER: list[Reading] = [("attic", 7, 19.0)]


def write(folder: Path, name: str, rows: list[Reading]) -> Path:
    """Add rows to a file."""
    file = folder / f"{name}.sqlite"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS readings (device TEXT, taken_at INTEGER, celsius REAL)")
        database.executemany("INSERT INTO readings VALUES (?, ?, ?)", rows)
    return file


@pytest.fixture
def source(tmp_path: Path) -> SourceUnderTest:
    write(tmp_path, "attic", ATTIC)
    write(tmp_path, "cellar", CELLAR)
    return SourceUnderTest(
        options={"folder": str(tmp_path), "rowsPerPage": "2"},
        enumerator=SqliteFolderEnumerator,
        reader=SqliteFileReader,
    )


def test_the_rows_of_all_files_are_read(source: SourceUnderTest) -> None:
    table = pa.Table.from_batches(run(source))
    assert [tuple(row.values()) for row in table.to_pylist()] == [*ATTIC, *CELLAR]


def test_a_folder_of_growing_sqlite_files_keeps_the_laws(source: SourceUnderTest, tmp_path: Path) -> None:
    check_reader(source)
    check_source(source, rows=[*ATTIC, *CELLAR], grow=lambda: write(tmp_path, "attic", LATER))


def test_a_folder_that_gets_more_files_keeps_the_laws(source: SourceUnderTest, tmp_path: Path) -> None:
    names = (f"room {number}" for number in itertools.count())
    check_source(source, rows=[*ATTIC, *CELLAR], grow=lambda: write(tmp_path, next(names), LATER))


def test_a_user_can_select_fewer_columns(source: SourceUnderTest) -> None:
    schema = pa.schema({"celsius": pa.float64(), "device": pa.string()})
    table = pa.Table.from_batches(run(source, schema=schema))
    assert table.column("celsius").to_pylist() == [20.5, 21.0, 19.5, 11.0, None]
    assert table.schema == schema


def test_a_repeated_batch_leaves_rows_added_since_to_the_next_batch(
    source: SourceUnderTest, tmp_path: Path, flip27_engine: Engine
) -> None:
    engine = flip27_engine(source)
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.SINK_WRITTEN)
    write(tmp_path, "attic", LATER)
    engine.restart()
    repeated = engine.run_batch()
    assert repeated is not None
    assert sorted(repeated.rows, key=str) == sorted([*ATTIC, *CELLAR], key=str)
    engine.now_ms += 3_600_000
    engine.process_all_available()
    assert sorted(engine.rows, key=str) == sorted([*ATTIC, *CELLAR, *LATER], key=str)


def test_a_file_that_was_recreated_stops_the_query(
    source: SourceUnderTest, tmp_path: Path, flip27_engine: Engine
) -> None:
    engine = flip27_engine(source)
    engine.process_all_available()
    (tmp_path / "attic.sqlite").unlink()
    write(tmp_path, "attic", LATER)
    engine.now_ms += 3_600_000
    with pytest.raises(SplitReadError, match=r"attic\.sqlite ends at rowid 1, before 3"):
        engine.process_all_available()


def test_a_file_deleted_before_it_was_read_stops_the_query(
    source: SourceUnderTest, tmp_path: Path, flip27_engine: Engine
) -> None:
    engine = flip27_engine(source)
    engine.trigger()
    (tmp_path / "attic.sqlite").unlink()
    with pytest.raises(SplitReadError, match=r"attic\.sqlite"):
        engine.run_batch()
