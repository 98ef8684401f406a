"""Schemas that were found out: recorded once in the state location, and used by every later start."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest

from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.sequence import SequenceEnumerator
from flip27_source.errors import (
    CorruptStateError,
    IncompatibleStateError,
    NewColumnsError,
    SchemaError,
    SplitReadError,
)
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.schemas.ddl import columns_text, parse_columns
from flip27_source.schemas.recorded_schemas import SchemaStorage
from flip27_source.schemas.source_schema import schema_of, with_new_columns
from flip27_source.segment import content_digest
from flip27_source.snapshots.store import MemoryStore
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine
from tests.toy_sources import EchoReader


def source_of(folder: Path, options: Mapping[str, str] | None = None) -> Source:
    given = {"path": str(folder / "in"), "reader": "json", "stateLocation": str(folder / "state")}
    return Source.resolve({"enumerator": "files", **given, **(options or {})})


def found_out(folder: Path, **options: str) -> str:
    return columns_text(schema_of(source_of(folder, options)))


def land(folder: Path, name: str, line: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text(line + "\n")


def test_a_restart_keeps_the_schema_of_the_first_start_whatever_files_have_arrived(tmp_path: Path) -> None:
    land(tmp_path, "a", '{"id": 1}')
    assert found_out(tmp_path) == "id bigint"
    land(tmp_path, "b", '{"id": "x", "name": "y"}')
    assert found_out(tmp_path) == "id bigint"
    assert found_out(tmp_path, uid="another") == "id string, name string"


def test_the_schema_of_another_source_is_refused_and_a_uid_separates_the_two(tmp_path: Path) -> None:
    land(tmp_path, "a", '{"id": 1}')
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.csv").write_text("x,y\n1,2\n")
    found_out(tmp_path)
    for options, difference in (
        ({"reader": "csv"}, "reader was 'json', is 'csv'"),
        ({"path": f"{tmp_path}/more"}, f"path was '{tmp_path}/in', is '{tmp_path}/more'"),
        ({"pathGlobFilter": "*.csv"}, "pathGlobFilter was None, is '*.csv'"),
    ):
        with pytest.raises(IncompatibleStateError, match="belongs to another source") as caught:
            found_out(tmp_path, **options)
        assert difference in str(caught.value)
        assert "set uid" in str(caught.value)
    other = {"path": f"{tmp_path}/more", "reader": "csv", "header": "true"}
    assert found_out(tmp_path, **other, uid="more") == "x string, y string"
    assert found_out(tmp_path, path=f"{tmp_path}/in/") == "id bigint"


def test_a_source_that_reads_more_or_less_of_its_data_keeps_its_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path, "a", '{"id": 1}')
    monkeypatch.chdir(tmp_path)
    more, third = f"{tmp_path}/more", f"{tmp_path}/third"
    for folder in (more, third):
        Path(folder).mkdir()
    for path in (f"{tmp_path}/in", f"file://{tmp_path}/in", "./in"):
        assert found_out(tmp_path, path=path) == "id bigint"
    for paths in (more, f"{third},{more}", f'["{more}"]'):
        assert found_out(tmp_path, paths=paths) == "id bigint"
    with pytest.raises(IncompatibleStateError, match=f"path was '{tmp_path}/in', is '{third}'"):
        found_out(tmp_path, path=third)


def test_a_source_with_its_own_uid_may_move_to_another_path(tmp_path: Path) -> None:
    land(tmp_path, "a", '{"id": 1}')
    found_out(tmp_path)
    moved = (tmp_path / "in").rename(tmp_path / "moved")
    assert found_out(tmp_path, path=str(moved), uid="files") == "id bigint"
    with pytest.raises(IncompatibleStateError, match="reader was 'json', is 'csv'"):
        found_out(tmp_path, path=str(moved), uid="files", reader="csv")


def test_a_schema_of_format_1_does_not_say_what_it_belongs_to_and_is_read(tmp_path: Path) -> None:
    recorded = {"format": 1, "uid": "files", "version": 1, "columns": [{"name": "id", "type": "bigint"}]}
    content = json.dumps(recorded).encode()
    file = tmp_path / "state" / "schemas" / "files" / "1.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(b'{"digest":"%s","schema":%s}' % (content_digest(content).encode(), content))
    assert found_out(tmp_path) == "id bigint"
    source = source_of(tmp_path, {"schemaEvolutionMode": "addNewColumns"})
    with_new_columns(source, NewColumnsError("f: new", columns="name string"))
    assert found_out(tmp_path) == "id bigint, name string"
    with pytest.raises(IncompatibleStateError, match="set uid"):
        found_out(tmp_path, reader="csv")


def test_without_a_state_location_the_schema_is_inferred_at_each_start(tmp_path: Path) -> None:
    land(tmp_path, "a", '{"id": 1}')
    options = {"path": str(tmp_path / "in"), "reader": "json"}
    assert columns_text(schema_of(Source.resolve(options, enumerator=FilesEnumerator))) == "id bigint"
    land(tmp_path, "b", '{"name": "y"}')
    found = schema_of(Source.resolve(options, enumerator=FilesEnumerator))
    assert columns_text(found) == "id bigint, name string"


def test_hints_are_applied_again_at_each_start_and_not_recorded(tmp_path: Path) -> None:
    land(tmp_path, "a", '{"id": 1, "at": "2026-01-01"}')
    assert found_out(tmp_path, schemaHints="at date") == "at date, id bigint"
    assert found_out(tmp_path, schemaHints="more int") == "at string, id bigint, more int"


def test_an_empty_folder_records_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(SchemaError, match="there is no file yet"):
        found_out(tmp_path)
    assert found_out(tmp_path, schemaHints="id int") == "id int"
    land(tmp_path, "a", '{"id": 1}')
    assert found_out(tmp_path) == "id bigint"


@pytest.mark.parametrize(
    "options",
    [{"ignoreCorruptFiles": "true"}, {"onSplitError": "ignore"}, {"onSplitError": "quarantine"}],
    ids=str,
)
def test_an_unreadable_file_is_not_inspected_if_the_options_allow_leaving_it_out(
    tmp_path: Path, options: dict[str, str]
) -> None:
    land(tmp_path, "a", '{"id": 1}')
    land(tmp_path, "b", '{"name": "x"}')
    (tmp_path / "in" / "c.gz").write_bytes(gzip.compress(b'{"c": 1}')[:-4])
    with pytest.raises(SplitReadError, match=r"/in/c.gz is truncated or damaged"):
        found_out(tmp_path)
    assert found_out(tmp_path, **options) == "id bigint, name string"


def test_two_queries_that_start_at_once_agree_on_the_schema_that_was_recorded_first() -> None:
    store = MemoryStore()
    one, other = SchemaStorage(store, "files"), SchemaStorage(store, "files")
    assert one.newest() is None
    assert other.newest() is None
    first = one.record(parse_columns("a int"))
    assert other.record(parse_columns("b int")) == first
    assert first.schema == parse_columns("a int")


@pytest.mark.parametrize("how", ["altered", "cut off", "newer", "of another source"])
def test_a_damaged_record_is_refused_R11(tmp_path: Path, how: str) -> None:
    land(tmp_path, "a", '{"id": 1}')
    found_out(tmp_path, uid="my orders")
    (file,) = (tmp_path / "state" / "schemas").rglob("*.json")
    assert file.relative_to(tmp_path / "state").as_posix() == "schemas/my_orders/1.json"
    content = file.read_bytes()
    expected: type[Exception] = CorruptStateError
    uid = "my orders"
    if how == "altered":
        file.write_bytes(content.replace(b"bigint", b"string"))
    elif how == "cut off":
        file.write_bytes(content[:-10])
    elif how == "newer":
        newer = json.dumps(json.loads(content)["schema"] | {"format": 3}).encode()
        file.write_bytes(b'{"digest":"%s","schema":%s}' % (content_digest(newer).encode(), newer))
        expected = IncompatibleStateError
    else:
        uid, expected = "my_orders", IncompatibleStateError
    with pytest.raises(expected, match=r"schemas/my_orders/1.json"):
        found_out(tmp_path, uid=uid)


def test_a_reader_that_cannot_infer_a_schema_asks_for_one() -> None:
    source = Source.resolve({}, enumerator=SequenceEnumerator, reader=EchoReader)
    with pytest.raises(SchemaError, match="needs a schema, and no schema is set"):
        schema_of(source)


def test_a_reader_with_its_own_schema_keeps_it(tmp_path: Path) -> None:
    source = Source.resolve({"path": str(tmp_path), "reader": "text"}, enumerator=FilesEnumerator)
    assert columns_text(schema_of(source)) == "value string"
    assert JsonLinesReader.default_schema(source.options) is None


def query(folder: Path, **options: str) -> MicroBatchEngine:
    """Return a query with the recorded schema, which reads one file in each task."""
    given = {
        "enumerator": "files", "reader": "json", "path": str(folder / "in"), "maxPartitionBytes": "1",
        "stateLocation": str(folder / "state"), "schemaEvolutionMode": "addNewColumns", **options,
    }  # fmt: skip
    return MicroBatchEngine(given, schema=schema_of(source_of(folder)), available_now=True, max_failures=2)


@pytest.mark.parametrize("reports", [{}, {"onSplitError": "quarantine"}], ids=str)
def test_a_new_column_fails_the_query_once_and_the_restart_reads_it_without_loss(
    tmp_path: Path, reports: dict[str, str]
) -> None:
    land(tmp_path, "a", '{"id": 1}')
    engine = query(tmp_path, **reports)
    engine.process_all_available()
    land(tmp_path, "b", '{"id": 2}')
    land(tmp_path, "c", '{"id": 3, "name": "x"}')
    engine.restart()
    with pytest.raises(NewColumnsError) as caught:
        engine.process_all_available()
    assert "/in/c, byte 0: the schema does not have these columns: name string" in str(caught.value)
    assert "version 2 of its schema has the new columns" in str(caught.value)
    assert len(engine.batches) == 1
    engine.restart()
    engine.schema = schema_of(source_of(tmp_path))
    engine.process_all_available()
    assert columns_text(engine.schema) == "id bigint, name string"
    assert [sorted(batch.rows) for batch in engine.batches] == [[(1,)], [(2, None), (3, "x")]]


def test_tasks_that_find_different_columns_record_all_of_them(tmp_path: Path) -> None:
    land(tmp_path, "a", '{"id": 1, "o": {"x": 1}}')
    source = source_of(tmp_path, {"schemaEvolutionMode": "addNewColumns"})
    schema_of(source)
    for columns in ("name string", "o struct<x: bigint, y: date>", "name string"):
        error = with_new_columns(source, NewColumnsError("f: new", columns=columns))
        assert error.columns == columns
    assert found_out(tmp_path) == "id bigint, o struct<x: bigint, y: date>, name string"
    assert len(list((tmp_path / "state" / "schemas" / "files").iterdir())) == 3


def test_without_a_state_location_the_error_says_how_to_continue_with_hints(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "reader": "json", "schemaEvolutionMode": "addNewColumns"}
    source = Source.resolve(options, enumerator=FilesEnumerator)
    error = with_new_columns(source, NewColumnsError("f: new", columns="name string"))
    assert '.option("schemaHints", "name string")' in str(error)
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.columns, str(copied)) == ("name string", str(error))


@pytest.mark.parametrize(("mode", "grows"), [({}, True), ({"schemaEvolutionMode": "none"}, False)])
def test_an_inferred_schema_grows_unless_another_mode_is_set(
    tmp_path: Path, mode: dict[str, str], grows: bool
) -> None:
    """A sample may lack columns, whose values must not be lost silently."""
    land(tmp_path, "a", '{"id": 1}')
    place = {"path": str(tmp_path / "in"), "stateLocation": str(tmp_path / "state")}
    engine = MicroBatchEngine({"enumerator": "files", "reader": "json", **place, **mode}, available_now=True)
    engine.process_all_available()
    land(tmp_path, "b", '{"id": 2, "name": "x"}')
    engine.restart()
    with pytest.raises(NewColumnsError) if grows else nullcontext():
        engine.process_all_available()
    engine.restart()
    engine.process_all_available()
    assert engine.rows == ([(1,), (2, "x")] if grows else [(1,), (2,)])


@pytest.mark.parametrize(
    ("ddl", "canonical"),
    [
        ("a int", "a int"),
        ("A Long NOT NULL, `b c` STRING comment 'a name'", "A bigint, `b c` string"),
        ("a: double, b array<map<string, decimal(10, 2)>>", "a double, b array<map<string, decimal(10,2)>>"),
        ("s struct<x: int, `y``z` : struct<t date>>", "s struct<x: int, `y``z`: struct<t: date>>"),
        ("t timestamp_ntz, u timestamp_ltz", "t timestamp_ntz, u timestamp"),
        ("a dec, b numeric(5), c varchar(10)", "a decimal(10,0), b decimal(5,0), c string"),
        ("d byte, e void", "d tinyint, e void"),
        ("a struct<>", "a struct<>"),
        ("`` int, s struct<``: int, ````: int>", "`` int, s struct<``: int, ````: int>"),
    ],
)
def test_columns_are_written_as_in_spark(ddl: str, canonical: str) -> None:
    schema = parse_columns(ddl)
    assert columns_text(schema) == canonical
    assert columns_text(parse_columns(canonical)) == canonical
    assert schema.field(0).nullable is ("NOT NULL" not in ddl)


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("", "a column is expected at character 0 instead of the end"),
        ("a", "a type such as bigint or string is expected at character 1 instead of the end"),
        ("a int,", "a column is expected at character 6"),
        ("a int b int", "',' is expected at character 6 instead of 'b'"),
        ("a array<int", "'>' is expected"),
        ("a array int", "'<' is expected at character 8 instead of 'int'"),
        ("a decimal(39)", "a precision up to 38"),
        ("a decimal(x)", "a whole number is expected at character 10"),
        ("a int not", "NULL is expected"),
        ("a int, A string", "the column a is duplicated"),
        (", a int", "the name of a column is expected at character 0"),
        ("first-name string", "the name of a column (`first-name` in backquotes) is expected at character 0"),
        ("o struct<a.b: int>", "the name of a column (`a.b` in backquotes) is expected at character 9"),
        ("1 int", "(`1` in backquotes)"),
    ],
)
def test_an_invalid_column_list_is_refused_with_the_place(ddl: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_columns(ddl, as_spark=True)
