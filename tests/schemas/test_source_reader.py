"""Sources of files that name no reader: the names of the files tell it, and the state keeps it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from flip27_source.errors import CorruptStateError, IncompatibleStateError, OptionError
from flip27_source.schemas.source_reader import reader_by_names
from flip27_source.spark.data_source import Flip27DataSource
from flip27_source.testing import MicroBatchEngine

SCHEMA = pa.schema([("id", pa.int64())])


def land(folder: Path, name: str, text: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text(text)


def options_of(folder: Path, **more: str) -> dict[str, str]:
    return {"path": str(folder / "in"), "discoveryInterval": "0s", **more}


def stored_beside(folder: Path) -> dict[str, str]:
    return options_of(folder, stateLocation=str(folder / "state"))


def test_with_a_path_alone_files_are_read_by_the_reader_that_their_names_tell(tmp_path: Path) -> None:
    land(tmp_path, "a.csv", "1\n")
    land(tmp_path, "b.CSV", "2\n")
    land(tmp_path, "_half.json", "{")
    engine = MicroBatchEngine(options_of(tmp_path), schema=SCHEMA)
    engine.process_all_available()
    assert sorted(engine.rows) == [(1,), (2,)]
    assert (engine.source.enumerator_name, engine.source.reader_name, engine.source.uid) == (
        "files",
        "csv",
        "files",
    )


def test_a_restart_keeps_the_reader_when_no_file_is_left(tmp_path: Path) -> None:
    land(tmp_path, "a.json", '{"id": 1}\n')
    engine = MicroBatchEngine(stored_beside(tmp_path), schema=SCHEMA)
    engine.process_all_available()
    (tmp_path / "in" / "a.json").unlink()
    engine.restart()
    land(tmp_path, "b.json", '{"id": 2}\n')
    engine.process_all_available()
    assert engine.rows == [(1,), (2,)]


def test_a_file_of_another_kind_stops_the_query_and_is_in_no_batch(tmp_path: Path) -> None:
    land(tmp_path, "a.json", '{"id": 1}\n')
    engine = MicroBatchEngine(stored_beside(tmp_path), schema=SCHEMA)
    engine.process_all_available()
    land(tmp_path, "b.csv", "2\n")
    land(tmp_path, "c.json", '{"id": 3}\n')
    for _ in range(2):
        with pytest.raises(OptionError, match=r"the name of .*/b\.csv tells the reader csv") as caught:
            engine.process_all_available()
        engine.restart()
    assert '.option("pathGlobFilter", "*.json*")' in str(caught.value)
    engine.restart(options={"pathGlobFilter": "*.json*"})
    engine.process_all_available()
    assert engine.rows == [(1,), (3,)]


def test_a_given_reader_reads_files_with_any_name(tmp_path: Path) -> None:
    land(tmp_path, "a.json", '{"id": 1}\n')
    land(tmp_path, "b.csv", '{"id": 2}\n')
    engine = MicroBatchEngine(options_of(tmp_path, reader="json"), schema=SCHEMA)
    engine.process_all_available()
    assert sorted(engine.rows) == [(1,), (2,)]


def test_a_query_that_was_read_by_another_reader_is_refused_until_the_reader_is_named(tmp_path: Path) -> None:
    """Its state is in the offsets, which are not known before the start."""
    land(tmp_path, "a.json", '{"id": 1}\n')
    engine = MicroBatchEngine(options_of(tmp_path), schema=SCHEMA, inline_state=True)
    engine.process_all_available()
    (tmp_path / "in" / "a.json").unlink()
    land(tmp_path, "b.csv", "2\n")
    engine.restart()
    with pytest.raises(
        IncompatibleStateError, match=r"files with reader json, and by their names .* csv"
    ) as caught:
        engine.process_all_available()
    assert '.option("reader", "json")' in str(caught.value)
    engine.restart(options={"reader": "csv"})
    engine.process_all_available()
    assert engine.rows == [(1,), (2,)]


def test_the_reader_of_the_state_wins_over_the_names_of_new_files(tmp_path: Path) -> None:
    land(tmp_path, "a.log", '{"id": 1}\n')
    engine = MicroBatchEngine(stored_beside(tmp_path) | {"reader": "json"}, schema=SCHEMA)
    engine.process_all_available()
    assert reader_by_names(stored_beside(tmp_path)) == "json"
    assert reader_by_names(stored_beside(tmp_path) | {"uid": "another"}) == "text"
    [source] = (tmp_path / "state").glob("*/source.json")
    source.write_text("{}")
    with pytest.raises(CorruptStateError, match=r"source\.json in .* cannot be read"):
        reader_by_names(stored_beside(tmp_path))


def test_load_with_a_path_infers_the_schema_by_the_reader_of_the_names(tmp_path: Path) -> None:
    land(tmp_path, "a.json", '{"id": 1}\n')
    source = Flip27DataSource(options_of(tmp_path))
    assert source.schema().simpleString() == "struct<id:bigint>"
    assert source.source().reader_name == "json"


@pytest.mark.parametrize(
    ("name", "says"),
    [("a.json", "have names of different kinds: .*/z.txt"), ("b", "the name of .*/b does not tell it")],
)
def test_load_refuses_a_mixture_by_name(tmp_path: Path, name: str, says: str) -> None:
    land(tmp_path, "z.txt", "x\n")
    land(tmp_path, name, "x\n")
    with pytest.raises(OptionError, match=says):
        Flip27DataSource(options_of(tmp_path))


def test_load_of_an_empty_folder_asks_for_the_reader(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(OptionError, match=r"there is no file in .* yet whose name tells it"):
        Flip27DataSource(options_of(tmp_path))
