"""schemaEvolutionMode=addNewColumnsWithTypeWidening: types widen, in every format that has types."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_source.errors import NewColumnsError, SchemaError
from flip27_source.reader import SplitReader
from flip27_source.readers.columnar.parquet import ParquetReader
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.schemas.ddl import columns_text, parse_columns
from flip27_source.schemas.new_columns import additions, evolved
from flip27_source.schemas.source_schema import schema_of
from flip27_source.source import Source
from flip27_source.spark.data_source import Flip27DataSource
from flip27_source.testing import MicroBatchEngine
from tests.readers.formats import COLUMNAR, READERS, WRITERS
from tests.readers.schemas.test_evolution import NAMES, options_of, read, write_row

MODE = {"schemaEvolutionMode": "addNewColumnsWithTypeWidening"}


def read_widening(
    reader: type[SplitReader[Any]], path: Path, ddl: str, **options: str
) -> str | list[dict[str, Any]]:
    """Read a file; return its rows, or the columns that it needs."""
    try:
        return read(reader, [path], f"{ddl}, _rescued_data string", **MODE, **options)
    except NewColumnsError as error:
        return error.columns


WIDER: list[tuple[str, str, str]] = [
    ("tinyint", "smallint", "smallint"),
    ("tinyint", "int", "int"),
    ("smallint", "bigint", "bigint"),
    ("int", "bigint", "bigint"),
    ("tinyint", "double", "double"),
    ("smallint", "float", "double"),
    ("int", "double", "double"),
    ("float", "double", "double"),
    ("float", "int", "double"),
    ("tinyint", "decimal(5,2)", "decimal(5,2)"),
    ("int", "decimal(5,2)", "decimal(12,2)"),
    ("bigint", "decimal(5,2)", "decimal(22,2)"),
    ("decimal(5,2)", "decimal(10,2)", "decimal(10,2)"),
    ("decimal(5,2)", "decimal(5,4)", "decimal(7,4)"),
    ("decimal(5,2)", "int", "decimal(12,2)"),
    ("date", "timestamp_ntz", "timestamp_ntz"),
    ("struct<a: int, b: date>", "struct<B: string, A: bigint, c: int>", "struct<a: bigint, b: date, c: int>"),
    ("array<int>", "array<bigint>", "array<bigint>"),
    ("map<int, float>", "map<bigint, double>", "map<bigint, double>"),
]
STAYS: list[tuple[str, str]] = [
    ("bigint", "int"), ("double", "float"), ("double", "int"), ("decimal(10,2)", "tinyint"),
    ("timestamp_ntz", "date"), ("bigint", "double"), ("double", "bigint"), ("float", "bigint"),
    ("bigint", "decimal(38,20)"), ("double", "decimal(5,2)"), ("date", "timestamp"),
    ("timestamp", "timestamp_ntz"), ("int", "string"), ("string", "int"), ("boolean", "int"),
    ("int", "array<int>"), ("struct<a: int>", "int"),
]  # fmt: skip


@pytest.mark.parametrize(("held", "found", "wide"), WIDER)
def test_a_type_widens_once_to_the_smallest_type_that_holds_all_values(
    held: str, found: str, wide: str
) -> None:
    schema, file = parse_columns(f"c {held}, d int"), parse_columns(f"C {found}")
    grown = evolved(schema, file, widens=True)
    assert grown == parse_columns(f"c {wide}, d int")
    assert columns_text(additions(schema, file, widens=True)) == columns_text(parse_columns(f"c {wide}"))
    assert not len(additions(grown, file, widens=True))
    assert not len(additions(grown, schema, widens=True))


@pytest.mark.parametrize(("held", "found"), STAYS)
def test_a_type_that_cannot_widen_without_loss_is_kept(held: str, found: str) -> None:
    assert not len(additions(parse_columns(f"c {held}"), parse_columns(f"c {found}"), widens=True))


OLD_VALUES: dict[str, tuple[pa.Array, str, list[Any]]] = {
    "int as bigint": (pa.array([-(2**31), None], pa.int32()), "bigint", [-(2**31), None]),
    "int as double": (pa.array([2**31 - 1], pa.int32()), "double", [2147483647.0]),
    "int as decimal": (pa.array([-(2**31)], pa.int32()), "decimal(12,2)", [Decimal("-2147483648.00")]),
    "bigint as decimal": (pa.array([-(2**63)], pa.int64()), "decimal(20,0)", [Decimal(-(2**63))]),
    "float as double": (pa.array([0.1], pa.float32()), "double", [0.10000000149011612]),
    "decimal": (pa.array([Decimal("-999.99")]), "decimal(7,4)", [Decimal("-999.9900")]),
    "date": (pa.array([dt.date(1900, 1, 1)]), "timestamp_ntz", [dt.datetime(1900, 1, 1)]),
    "list": (pa.array([[1, None], None], pa.list_(pa.int8())), "array<bigint>", [[1, None], None]),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in COLUMNAR for kind in OLD_VALUES if (name, kind) != ("avro", "list")],
)
def test_old_files_have_the_same_values_in_the_wider_type(tmp_path: Path, name: str, kind: str) -> None:
    column, wide, values = OLD_VALUES[kind]
    WRITERS[name](pa.table({"c": column}), tmp_path / "old")
    found = read_widening(READERS[name], tmp_path / "old", f"c {wide}")
    assert found == [{"c": value, "_rescued_data": None} for value in values]


@pytest.mark.parametrize("name", COLUMNAR)
def test_a_file_of_a_wider_type_is_refused_with_both_types(tmp_path: Path, name: str) -> None:
    WRITERS[name](pa.table({"ID": [1], "o": [{"x": 1.5}], "new": ["y"]}), tmp_path / "a")
    with pytest.raises(NewColumnsError) as caught:
        read(READERS[name], [tmp_path / "a"], "id int, o struct<x: float>, _rescued_data string", **MODE)
    assert caught.value.columns == "id bigint, o struct<x: double>, new string"
    assert str(caught.value).startswith(
        f"{tmp_path}/a: the schema does not have these columns: new string; the schema needs a wider type: "
        "id bigint instead of int; the schema needs a wider type: o struct<x: double> instead of "
        "struct<x: float>"
    )


@pytest.mark.parametrize("name", NAMES)
def test_values_that_do_not_widen_their_column_are_rescued(tmp_path: Path, name: str) -> None:
    write_row(name, tmp_path / "a", {"id": "many", "name": "x"})
    found = read_widening(READERS[name], tmp_path / "a", "id bigint, name string", **options_of(name))
    rescued = {"id": "many", "_file_path": str(tmp_path / "a")}
    assert found == [{"id": None, "name": "x", "_rescued_data": rescued}]


@pytest.mark.parametrize("name", ["parquet", "arrow", "json", "csv"])
def test_columns_without_values_do_not_widen_a_type(tmp_path: Path, name: str) -> None:
    match name:
        case "json":
            (tmp_path / "a").write_text('{"id": null}\n')
        case "csv":
            (tmp_path / "a").write_text('id\n""\n')
        case _:
            WRITERS[name](pa.table({"id": pa.nulls(1)}), tmp_path / "a")
    found = read_widening(READERS[name], tmp_path / "a", "id tinyint", **options_of(name))
    assert found == [{"id": None, "_rescued_data": None}]


def test_a_type_set_by_the_user_is_not_widened(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "o": [{"x": 1, "y": 2}]}), tmp_path / "a")
    ddl = "id int, o struct<x: int, y: int>"
    hints = "id int, o.x int"
    assert (
        read_widening(ParquetReader, tmp_path / "a", ddl, schemaHints=hints) == "o struct<x: int, y: bigint>"
    )
    found = read_widening(
        ParquetReader, tmp_path / "a", "id int, o struct<x: int, y: bigint>", schemaHints=hints
    )
    rescued = {"id": 1, "o": {"x": 1, "y": 2}, "_file_path": str(tmp_path / "a")}
    assert found == [{"id": None, "o": None, "_rescued_data": rescued}]


JSON: dict[str, tuple[str, str, str | dict[str, Any]]] = {
    "a long number": ("id bigint", '{"id": 12345678901234567890}', "id decimal(20,0)"),
    "a longer number": ("id decimal(20,0)", '{"id": 1234567890123456789012}', "id decimal(22,0)"),
    "in a list": ("l array<bigint>", '{"l": [1, 12345678901234567890]}', "l array<decimal(20,0)>"),
    "beside a new column": (
        "id bigint", '{"id": 12345678901234567890, "b": 1}', "id decimal(20,0), b bigint",
    ),
    "a fraction": ("id bigint", '{"id": 1.5}', {"id": 1.5}),
    "another type": ("id bigint", '{"id": true}', {"id": True}),
}  # fmt: skip


@pytest.mark.parametrize("kind", JSON)
def test_json_widens_by_the_types_that_inference_finds(tmp_path: Path, kind: str) -> None:
    ddl, line, expected = JSON[kind]
    (tmp_path / "a").write_text(line + "\n")
    found = read_widening(JsonLinesReader, tmp_path / "a", ddl)
    if isinstance(expected, dict):
        expected_row = {"id": None, "_rescued_data": expected | {"_file_path": str(tmp_path / "a")}}
        assert found == [expected_row]
    else:
        assert found == expected


def test_json_lines_with_unfit_values_do_not_hide_a_line_that_widens_the_type(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"id": 1}\n{"id": "x"}\n{"id": 12345678901234567890}\n')
    with pytest.raises(NewColumnsError, match=r"byte 22: .* id decimal\(20,0\) instead of bigint"):
        read(JsonLinesReader, [tmp_path / "a"], "id bigint, _rescued_data string", **MODE)
    found = read(JsonLinesReader, [tmp_path / "a"], "id decimal(20,0), _rescued_data string", **MODE)
    assert [row["id"] for row in found] == [1, None, 12345678901234567890]
    assert found[1]["_rescued_data"]["id"] == "x"


CSV: dict[str, tuple[str, str]] = {
    "bigint": ("3000000000", "id bigint"),
    "decimal": ("12345678901234567890", "id decimal(20,0)"),
    "double": ("1.5", "id double"),
    "double instead of float": ("16777217", "id double"),
}


@pytest.mark.parametrize("kind", CSV)
def test_csv_widens_by_the_types_that_inference_finds(tmp_path: Path, kind: str) -> None:
    text, expected = CSV[kind]
    held = "float" if "instead" in kind else "int"
    (tmp_path / "a").write_text(f"id,name\n1,x\nmany,y\n{text},z\n")
    options = {"header": "true", "inferSchema": "true"}
    ddl = f"id {held}, name string, _rescued_data string"
    with pytest.raises(NewColumnsError, match="/a, byte 19: the schema needs a wider type") as caught:
        read(CsvLinesReader, [tmp_path / "a"], ddl, **MODE, **options)
    assert caught.value.columns == expected
    found = read(
        CsvLinesReader, [tmp_path / "a"], f"{expected}, _rescued_data string, name string", **MODE, **options
    )
    assert [str(row["id"]).removesuffix(".0") for row in found] == ["1", "None", text]
    assert found[1]["_rescued_data"]["id"] == "many"


def test_csv_without_type_inference_does_not_widen(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("id\n3000000000\n")
    found = read_widening(CsvLinesReader, tmp_path / "a", "id int", header="true", schemaHints="id int")
    assert found == [{"id": None, "_rescued_data": {"id": "3000000000", "_file_path": str(tmp_path / "a")}}]


UNFIT: list[tuple[str, str]] = [
    ("decimal(20,0)", "2.5"), ("decimal(20,0)", "0.4"), ("decimal(5,2)", "1.999"), ("decimal(5,2)", "1e-9"),
    ("decimal(5,2)", "1e-900"), ("double", "9007199254740993"), ("double", "-12345678901234567890.5"),
    ("double", "1e999"), ("date", "2026-01-01 10:00:00"), ("date", "2026-01-01T"),
]  # fmt: skip
FIT: list[tuple[str, str, Any]] = [
    ("decimal(20,0)", "2.0", Decimal(2)), ("float", "NaN", pytest.approx(math.nan, nan_ok=True)),
    ("double", "Infinity", math.inf), ("decimal(5,2)", "1.5e1", Decimal(15)),
    ("decimal(5,2)", "0e-900", Decimal(0)), ("double", "0.1", 0.1), ("double", "9007199254740992", 2.0**53),
    ("double", "12345678901234567000", 12345678901234567168.0), ("double", "1e23", 1e23),
    ("double", "99999999999999991611392", 1e23), ("float", "16777216", 2.0**24),
    ("float", "1e20", 1.0000000200408773e20), ("float", "0.1", 0.10000000149011612),
    ("date", "2026-01-01", dt.date(2026, 1, 1)), ("date", "2026-1-1", dt.date(2026, 1, 1)),
    ("timestamp", "2026-01-01", dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
]  # fmt: skip
TEXTS: dict[str, tuple[type[SplitReader[Any]], str, dict[str, str]]] = {
    "json": (JsonLinesReader, '{{"c": {}}}', {}),
    "csv": (CsvLinesReader, "{}", {"inferSchema": "true"}),
}


def read_texts(name: str, path: Path, kind: str, text: str, mode: str) -> list[dict[str, Any]]:
    """Read a text as a value of the column c, after one that fits every column."""
    reader, line, options = TEXTS[name]
    is_time = kind in ("date", "timestamp")
    texts = ("2026-01-01" if is_time else "1.0", text)
    path.write_text("".join(line.format(f'"{one}"' if is_time else one) + "\n" for one in texts))
    options = options | {"schemaEvolutionMode": mode, "timeZone": "UTC"}
    return read(reader, [path], f"c {kind}, _rescued_data string", **options)


@pytest.mark.parametrize("mode", ["rescue", "addNewColumnsWithTypeWidening"])
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(("kind", "text"), UNFIT)
def test_a_value_that_its_column_would_change_is_rescued(
    tmp_path: Path, kind: str, text: str, name: str, mode: str
) -> None:
    found = read_texts(name, tmp_path / "a", kind, text, mode)[1]
    assert found["c"] is None
    assert found["_rescued_data"]["c"] == (text if name == "csv" or kind == "date" else json.loads(text))


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(("kind", "text", "value"), FIT)
def test_a_value_that_its_column_holds_is_not_rescued(
    tmp_path: Path, kind: str, text: str, value: Any, name: str
) -> None:
    found = read_texts(name, tmp_path / "a", kind, text, "rescue")[1]
    assert found == {"c": value, "_rescued_data": None}


def test_a_json_number_that_jackson_wraps_around_widens_its_column_or_is_rescued(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"c": 200}\n')
    assert read_widening(JsonLinesReader, tmp_path / "a", "c tinyint") == "c bigint"
    (tmp_path / "a").write_text('{"c": 9223372036854775807}\n')
    ((row),) = read_widening(JsonLinesReader, tmp_path / "a", "c timestamp")
    assert row["c"] is None
    assert row["_rescued_data"]["c"] == 2**63 - 1


def test_a_wider_file_fails_the_query_once_and_the_restart_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "in" / "a")
    options = {
        "enumerator": "files", "reader": "parquet", "path": str(tmp_path / "in"), "maxPartitionBytes": "1",
        "stateLocation": str(tmp_path / "state"), **MODE,
    }  # fmt: skip
    source = Source.resolve(options)
    engine = MicroBatchEngine(options, schema=schema_of(source), available_now=True, max_failures=2)
    engine.process_all_available()
    for name, column in {
        "b": pa.array([2], pa.int32()),
        "c": pa.array([2**40]),
        "d": pa.array(["x"]),
    }.items():
        pq.write_table(pa.table({"id": column}), tmp_path / "in" / name)
    engine.restart()
    with pytest.raises(
        NewColumnsError, match="/in/c: the schema needs a wider type: id bigint instead of int"
    ):
        engine.process_all_available()
    engine.restart()
    engine.schema = schema_of(source)
    assert columns_text(engine.schema) == "id bigint, _rescued_data string"
    engine.process_all_available()
    rescued = json.dumps({"id": "x", "_file_path": str(tmp_path / "in" / "d")})
    assert [sorted(batch.rows, key=str) for batch in engine.batches] == [
        [(1, None)],
        [(1099511627776, None), (2, None), (None, rescued)],
    ]


def test_a_given_schema_is_not_widened(tmp_path: Path) -> None:
    source = Flip27DataSource({"path": str(tmp_path), "reader": "json", **MODE})
    with pytest.raises(SchemaError, match="addNewColumnsWithTypeWidening, but a schema is given"):
        source.streamReader(None)
