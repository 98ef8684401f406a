"""New columns, misfits and rescued data, in every format that supports them."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

from flip27_source.errors import NewColumnsError, SchemaError
from flip27_source.reader import SplitReader
from flip27_source.readers.columnar.arrow_files import ArrowReader
from flip27_source.readers.columnar.orc import OrcReader
from flip27_source.readers.columnar.parquet import ParquetReader
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.schemas.ddl import columns_text, parse_columns
from flip27_source.schemas.new_columns import additions, evolved
from tests.readers.formats import COLUMNAR, READERS, WRITERS, write_csv_with_header
from tests.readers.spark_reading import read_batches, split_of

Rows = list[dict[str, Any]]
NOON = dt.datetime(2026, 1, 2, 12)


def read(reader: type[SplitReader[Any]], paths: Sequence[Path], ddl: str, **options: str) -> Rows:
    batches = read_batches(reader(), map(split_of, paths), parse_columns(ddl), options)
    rows = [row for batch in batches for row in batch.to_pylist()]
    for row in rows:
        row.update({k: json.loads(v) for k, v in row.items() if k.startswith("_rescued") and v})
    return rows


def write_row(name: str, path: Path, row: dict[str, Any]) -> None:
    write = write_csv_with_header if name == "csv" else WRITERS[name]
    write(pa.table({key: [value] for key, value in row.items()}), path)


NAMES = ("json", "csv", *COLUMNAR)


def options_of(name: str, **options: str) -> dict[str, str]:
    return options | ({"header": "true", "inferSchema": "true"} if name == "csv" else {})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["addNewColumns", "failOnNewColumns"])
def test_a_new_column_is_refused_with_the_file_and_its_type(tmp_path: Path, name: str, mode: str) -> None:
    write_row(name, tmp_path / "old", {"id": 1})
    write_row(name, tmp_path / "new", {"id": 2, "name": "x", "More": 3})
    options = options_of(name, schemaEvolutionMode=mode)
    assert read(READERS[name], [tmp_path / "old"], "id bigint", **options) == [{"id": 1}]
    with pytest.raises(NewColumnsError) as caught:
        read(READERS[name], [tmp_path / "old", tmp_path / "new"], "id bigint", **options)
    kinds = "int" if name == "csv" else "bigint"
    expected = f"More {kinds}, name string" if name == "json" else f"name string, More {kinds}"
    assert caught.value.columns == expected
    assert str(tmp_path / "new") in str(caught.value)


@pytest.mark.parametrize("name", COLUMNAR)
def test_rows_without_any_column_of_the_schema_are_kept_and_have_no_rescued_data(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "day=7"
    folder.mkdir()
    write_row(name, folder / "a", {"day": 1})
    options = options_of(name, schemaEvolutionMode="rescue")
    found = read(READERS[name], [folder / "a"], "day int, _rescued_data string", **options)
    assert found == [{"day": 7, "_rescued_data": None}]


@pytest.mark.parametrize("names", [["id", "value"], ["_col0", "_col1"]], ids=["named", "as in old Hive"])
@pytest.mark.parametrize("name", COLUMNAR)
def test_a_schema_of_partition_columns_reads_no_content(tmp_path: Path, name: str, names: list[str]) -> None:
    folder = tmp_path / "day=7"
    folder.mkdir()
    write_row(name, folder / "a", dict.fromkeys(names, 1))
    read_day = partial(read, READERS[name], [folder / "a"], "day int")
    assert read_day() == [{"day": 7}]
    with pytest.raises(NewColumnsError) as error:
        read_day(schemaEvolutionMode="addNewColumns")
    assert parse_columns(error.value.columns).names == names


@pytest.mark.parametrize("name", NAMES)
def test_by_default_columns_missing_from_the_schema_are_not_read(tmp_path: Path, name: str) -> None:
    write_row(name, tmp_path / "a", {"id": 2, "name": "x"})
    assert read(READERS[name], [tmp_path / "a"], "id bigint", **options_of(name))[0]["id"] == 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given", [{"schemaEvolutionMode": "rescue"}, {"rescuedDataColumn": "_rescued_data"}])
def test_new_columns_are_rescued_with_their_path(tmp_path: Path, name: str, given: dict[str, str]) -> None:
    write_row(name, tmp_path / "old", {"id": 1})
    write_row(name, tmp_path / "new", {"id": 2, "name": "x"})
    found = read(
        READERS[name], [tmp_path / "old", tmp_path / "new"], "_rescued_data string, id bigint",
        **options_of(name, **given),
    )  # fmt: skip
    assert found == [
        {"_rescued_data": None, "id": 1},
        {"_rescued_data": {"name": "x", "_file_path": str(tmp_path / "new")}, "id": 2},
    ]


@pytest.mark.parametrize("name", NAMES)
def test_values_that_do_not_fit_are_rescued_and_their_rows_are_not_malformed(
    tmp_path: Path, name: str
) -> None:
    write_row(name, tmp_path / "a", {"id": "many", "name": "x"})
    options = options_of(name, rescuedDataColumn="_rescued") | (
        {"mode": "FAILFAST"} if name in ("json", "csv", "avro") else {}
    )
    assert read(READERS[name], [tmp_path / "a"], "id bigint, name string, _rescued string", **options) == [
        {"id": None, "name": "x", "_rescued": {"id": "many", "_file_path": str(tmp_path / "a")}}
    ]


NOT_UTF_8 = pa.Array.from_buffers(pa.string(), 1, [None, *pa.array([b"a\xff"]).buffers()[1:]])
RESCUED_VALUES: list[tuple[pa.Array, object]] = [
    (pa.array([2_932_897], pa.date32()), "10000-01-01"),
    (pa.array([-719_529], pa.date32()), "-001-12-31"),
    (pa.array([2**31 - 1], pa.date32()), "5881580-07-11"),
    (pa.array([253_402_300_800_000_001], pa.timestamp("us")), "10000-01-01 00:00:00.000001"),
    (pa.array([-(2**62)], pa.timestamp("us", "UTC")), "-144169-06-28 09:59:32.612096+00:00"),
    (pa.array([[{"d": 2_932_897}]], pa.list_(pa.struct([("d", pa.date32())]))), [{"d": "10000-01-01"}]),
    (NOT_UTF_8, "Yf8="),
    (pa.array([[float("nan"), float("-inf"), 1.5]]), ["NaN", "-Infinity", 1.5]),
    (pa.array([[("k", float("inf"))]], pa.map_(pa.string(), pa.float64())), {"k": "Infinity"}),
    (pa.array([[(7, "x")]], pa.map_(pa.int32(), pa.string())), {"7": "x"}),
    (pa.array(["x"]).dictionary_encode(), "x"),
    (pa.array([[{"a": None}, None]]), [{"a": None}, None]),
    (pa.array([NOON]), "2026-01-02 12:00:00"),
]


@pytest.mark.parametrize(("stored", "expected"), RESCUED_VALUES)
def test_every_value_is_rescued_as_json(tmp_path: Path, stored: pa.Array, expected: object) -> None:
    pq.write_table(pa.table({"id": [1], "v": stored}), tmp_path / "a")
    [row] = read(ParquetReader, [tmp_path / "a"], "id bigint, _rescued string", rescuedDataColumn="_rescued")
    assert row["_rescued"] == {"v": expected, "_file_path": str(tmp_path / "a")}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_without_the_column_of_rescued_data_is_refused(tmp_path: Path, name: str) -> None:
    write_row(name, tmp_path / "a", {"id": 1})
    with pytest.raises(SchemaError, match="the column _rescued_data is for rescued data") as caught:
        read(READERS[name], [tmp_path / "a"], "id bigint", **options_of(name, schemaEvolutionMode="rescue"))
    assert "_rescued_data string" in str(caught.value)


def test_columns_of_old_hive_matched_by_position_are_rescued_under_their_own_names(tmp_path: Path) -> None:
    orc.write_table(pa.table({"_col0": [1], "_col1": ["x"], "_col2": ["y"]}), tmp_path / "a")
    ddl = "_rescued string, id bigint, name bigint"
    assert read(OrcReader, [tmp_path / "a"], ddl, rescuedDataColumn="_rescued") == [
        {"id": 1, "name": None, "_rescued": {"name": "x", "_col2": "y", "_file_path": str(tmp_path / "a")}}
    ]


def test_columns_of_old_hive_are_new_only_beyond_the_last_column_of_the_schema(tmp_path: Path) -> None:
    orc.write_table(pa.table({"_col0": [1], "_col1": ["x"]}), tmp_path / "a")
    options = {"schemaEvolutionMode": "failOnNewColumns"}
    assert read(OrcReader, [tmp_path / "a"], "id bigint, name string", **options) == [{"id": 1, "name": "x"}]
    with pytest.raises(NewColumnsError) as caught:
        read(OrcReader, [tmp_path / "a"], "id bigint", **options)
    assert caught.value.columns == "_col1 string"


JSON_RESCUED: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "nothing": ("a bigint", '{"a": 1}', None),
    "a null is no loss": ("a bigint", '{"a": null}', None),
    "an unknown null": ("a bigint", '{"b": null}', {"b": None}),
    "inside a struct": ("o struct<a: bigint>", '{"o": {"a": 1, "b": [2.50]}}', {"o": {"b": [2.5]}}),
    "a misfit inside a struct": ("o struct<a: bigint>", '{"o": {"a": "x"}}', {"o": {"a": "x"}}),
    "a struct that is none": ("o struct<a: bigint>", '{"o": 1}', {"o": 1}),
    "a list with a misfit": ("l array<bigint>", '{"l": [1, "x"]}', {"l": [1, "x"]}),
    "a list of more": ("l array<struct<a: int>>", '{"l": [{"a": 1}, {"b": 2}]}', {"l": [{"a": 1}, {"b": 2}]}),
    "a map with a misfit": ("m map<string, bigint>", '{"m": {"k": "x"}}', {"m": {"k": "x"}}),
    "a map": ("m map<string, bigint>", '{"m": {"k": 1}}', None),
    "different case": ("a bigint", '{"A": 1}', {"A": 1}),
    "text that is not ascii": ("a bigint", '{"\u00e9": "\\ud83d\\ude00"}', {"\u00e9": "\U0001f600"}),
    "half a pair": ("a bigint", '{"b": "\\ud83d"}', {"b": "?"}),
    "large numbers": ("a int", '{"a": 12345678901234567890.5}', {"a": 12345678901234567890.5}),
    "no numbers of JSON": ("a int", '{"b": [NaN, -Infinity]}', {"b": ["NaN", "-Infinity"]}),
    "single quotes": ("a bigint", "{'b': 'x'}", {"b": "x"}),
    "base64 without its end": ("a binary, b bigint", '{"a": "0", "b": 1}', {"a": "0"}),
    "base64 without its end in an array": ("a binary", '[{"a": "0"}]', {"a": "0"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", JSON_RESCUED)
def test_json_rescues_values_that_its_columns_cannot_hold(tmp_path: Path, kind: str) -> None:
    ddl, line, expected = JSON_RESCUED[kind]
    (tmp_path / "a").write_text(line + "\n")
    (row,) = read(JsonLinesReader, [tmp_path / "a"], f"{ddl}, _rescued string", rescuedDataColumn="_rescued")
    assert row["_rescued"] == (None if expected is None else expected | {"_file_path": str(tmp_path / "a")})


def test_malformed_json_is_not_rescued_and_is_handled_by_the_mode(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"a": 1}\n{"a": \n[{"a": 2}, {"b": 3}]\n')
    ddl = "_corrupt_record string, a bigint, _rescued string"
    found = read(JsonLinesReader, [tmp_path / "a"], ddl, rescuedDataColumn="_rescued")
    rescued = {"b": 3, "_file_path": str(tmp_path / "a")}
    assert found == [
        {"_corrupt_record": None, "a": 1, "_rescued": None},
        {"_corrupt_record": '{"a": ', "a": None, "_rescued": None},
        {"_corrupt_record": None, "a": 2, "_rescued": None},
        {"_corrupt_record": None, "a": None, "_rescued": rescued},
    ]
    dropped = read(JsonLinesReader, [tmp_path / "a"], ddl, rescuedDataColumn="_rescued", mode="DROPMALFORMED")
    assert [row["a"] for row in dropped] == [1, 2, None]


def test_a_new_field_in_one_of_very_many_lines_is_noticed_in_large_blocks(tmp_path: Path) -> None:
    """Most lines take the fast paths."""
    lines = [f'{{"id": {number}, "name": "name {number}"}}' for number in range(20_000)]
    lines[12_345] = '{"id": 12345, "name": "x", "more": {"a": 1.5}}'
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode(), 1))
    position = sum(len(line) + 1 for line in lines[:12_345])
    with pytest.raises(NewColumnsError, match=rf"a.gz, byte {position}: .*: more struct<a: double>"):
        read(JsonLinesReader, [path], "id bigint, name string", schemaEvolutionMode="addNewColumns")
    found = read(
        JsonLinesReader, [path], "id bigint, name string, _rescued string", rescuedDataColumn="_rescued"
    )
    assert [row["id"] for row in found] == list(range(20_000))
    rescued = [row["_rescued"] for row in found if row["_rescued"]]
    assert rescued == [{"more": {"a": 1.5}, "_file_path": str(path)}]


def test_lines_of_one_layout_with_a_new_field_are_noticed_too(tmp_path: Path) -> None:
    lines = "".join(f'{{"id": {number}, "new": "n{number}"}}\n' for number in range(20_000))
    (tmp_path / "a").write_text(lines)
    with pytest.raises(NewColumnsError, match="new string"):
        read(JsonLinesReader, [tmp_path / "a"], "id bigint", schemaEvolutionMode="failOnNewColumns")


def test_csv_rescues_values_under_their_header_names_and_short_lines_stay_malformed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('id,name,"my tag"\n1,x,"a, b"\n2\nmany,y,z,w\n')
    ddl, path = "id bigint, name string, _corrupt_record string, _rescued string", str(tmp_path / "a")
    found = read(CsvLinesReader, [tmp_path / "a"], ddl, rescuedDataColumn="_rescued", header="true")
    assert found == [
        {"id": 1, "name": "x", "_corrupt_record": None, "_rescued": {"my tag": "a, b", "_file_path": path}},
        {"id": 2, "name": None, "_corrupt_record": "2", "_rescued": None},
        {
            "id": None, "name": "y", "_corrupt_record": None,
            "_rescued": {"id": "many", "my tag": "z", "_c3": "w", "_file_path": path},
        },
    ]  # fmt: skip
    plain = read(CsvLinesReader, [tmp_path / "a"], "a string, b string, _rescued string",
                 rescuedDataColumn="_rescued")  # fmt: skip
    assert plain[1]["_rescued"] == {"_c2": "a, b", "_file_path": path}


@pytest.mark.parametrize("mode", ["addNewColumns", "failOnNewColumns", "rescue"])
def test_csv_with_a_column_order_different_from_the_schema_is_refused(tmp_path: Path, mode: str) -> None:
    """By position alone, a new column in the middle would be read as the one that it displaces."""
    (tmp_path / "a").write_text("id,new,name\n1,x,y\n")
    ddl = "id bigint, name string, _rescued_data string" if mode == "rescue" else "id bigint, name string"
    options = {"header": "true", "schemaEvolutionMode": mode}
    with pytest.raises(
        SchemaError, match="the header names the columns id, new, name, but the schema has id, name"
    ):
        read(CsvLinesReader, [tmp_path / "a"], ddl, **options)
    (tmp_path / "b").write_text("ID\n7\n")
    assert [row["id"] for row in read(CsvLinesReader, [tmp_path / "b"], ddl, **options)] == [7]


@pytest.mark.parametrize(
    ("option", "name"),
    [("columnNameOfCorruptRecord", "_corrupt_record"), ("rescuedDataColumn", "_rescued_data")],
)
def test_a_csv_header_with_a_column_of_the_query_is_refused_with_the_option_that_renames_the_querys(
    tmp_path: Path, option: str, name: str
) -> None:
    """enforceSchema=true, the remedy for other headers, would read each value after it to a wrong column."""
    (tmp_path / "a").write_text(f"id,{name},note\n1,own,x\n")
    ddl = "id bigint, _corrupt_record string, note string, _rescued_data string"
    options = {"header": "true", "schemaEvolutionMode": "rescue"}
    with pytest.raises(SchemaError, match=rf"uses the name {name} itself: set {option} to another name"):
        read(CsvLinesReader, [tmp_path / "a"], ddl, **options)


def test_csv_without_a_header_refuses_lines_with_more_fields_and_names_their_position(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1,x\n2,y,z,w\n")
    with pytest.raises(NewColumnsError, match=r"/a, byte 4: .*: _c2 string, _c3 string"):
        read(CsvLinesReader, [tmp_path / "a"], "a int, b string", schemaEvolutionMode="failOnNewColumns")


def test_parquet_rescues_structs_with_new_fields_as_a_whole(tmp_path: Path) -> None:
    table = pa.table({"o": [{"a": 1, "b": b"\x01"}], "d": pa.array([1], pa.date32())})
    pq.write_table(table, tmp_path / "a")
    found = read(ParquetReader, [tmp_path / "a"], "o struct<a: bigint>, _rescued string",
                 rescuedDataColumn="_rescued")  # fmt: skip
    assert found == [
        {
            "o": {"a": 1},
            "_rescued": {"o": {"a": 1, "b": "AQ=="}, "d": "1970-01-02", "_file_path": str(tmp_path / "a")},
        }
    ]


@pytest.mark.parametrize("reader", [ParquetReader, ArrowReader])
def test_lists_and_maps_that_are_equal_in_schema_and_file_are_neither_new_nor_rescued(
    tmp_path: Path, reader: type[SplitReader[Any]]
) -> None:
    maps = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    table = pa.table({"l": [["x"]], "m": maps})
    write = pq.write_table if reader is ParquetReader else feather.write_feather
    write(table, tmp_path / "a")
    schema = "l array<string>, m map<string, bigint>"
    rows = [{"l": ["x"], "m": [("k", 1)]}]
    for mode in ("addNewColumns", "failOnNewColumns"):
        assert read(reader, [tmp_path / "a"], schema, schemaEvolutionMode=mode) == rows
    found = read(reader, [tmp_path / "a"], f"{schema}, more string", rescuedDataColumn="more")
    assert found == [rows[0] | {"more": None}]


def test_fields_with_the_name_of_a_partition_column_are_not_new(tmp_path: Path) -> None:
    folder = tmp_path / "day=1"
    folder.mkdir()
    (folder / "a").write_text('{"id": 1, "day": 7}\n')
    found = read(
        JsonLinesReader, [folder / "a"], "id bigint, day int", schemaEvolutionMode="failOnNewColumns"
    )
    assert found == [{"id": 1, "day": 1}]


@pytest.mark.parametrize(
    ("schema", "found", "new", "wide"),
    [
        ("a int", "A string", "", "a int"),
        ("a int", "b int, a string", "b int", "a int, b int"),
        ("s struct<x: int>", "S struct<X: date, y: int>", "s struct<x: int, y: int>",
         "s struct<x: int, y: int>"),
        ("l array<struct<x: int>>", "l array<struct<y: int>>", "l array<struct<x: int, y: int>>",
         "l array<struct<x: int, y: int>>"),
        ("m map<string, struct<x: int>>, b int", "m map<string, struct<y: int>>",
         "m map<string, struct<x: int, y: int>>", "m map<string, struct<x: int, y: int>>, b int"),
        ("s string", "s struct<x: int>", "", "s string"),
        ("l array<string>", "l array<string>", "", "l array<string>"),
        ("l array<string>", "L array<int>", "", "l array<string>"),
        ("l array<struct<x: int>>", "l array<struct<X: date>>", "", "l array<struct<x: int>>"),
        ("m map<string, array<int>>", "m map<string, array<int>>", "", "m map<string, array<int>>"),
        ("s struct<l: array<map<string, int>>>", "s struct<l: array<map<string, int>>>", "",
         "s struct<l: array<map<string, int>>>"),
    ],
)  # fmt: skip
def test_a_schema_grows_at_its_end_and_keeps_its_types(schema: str, found: str, new: str, wide: str) -> None:
    assert columns_text(additions(parse_columns(schema), parse_columns(found))) == new
    assert columns_text(evolved(parse_columns(schema), parse_columns(found))) == wide


NESTED = {"arrays": ("[", "]"), "objects": ('{"x":', "}"), "both": ('[{"x":', "}]")}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("levels", [150, 400, 1500])
def test_a_deeply_nested_field_is_rescued_as_it_is_written_unless_the_parser_refuses_its_depth(
    tmp_path: Path, kind: str, levels: int
) -> None:
    opening, closing = NESTED[kind]
    nested = f"{opening * levels}1{closing * levels}"
    line = f'{{"u":{nested},"id":1}}'
    (tmp_path / "a").write_text(f"{line}\n")
    ddl = "id bigint, _corrupt_record string, rescued string"
    [row] = read(JsonLinesReader, [tmp_path / "a"], ddl, rescuedDataColumn="rescued")
    if levels == 1500:
        assert row == {"id": None, "_corrupt_record": line, "rescued": None}
    else:
        assert (row["id"], row["_corrupt_record"]) == (1, None)
        assert nested in row["rescued"]


def test_all_values_of_a_name_that_occurs_twice_are_rescued_as_an_array(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"m":{"x":1},"m":{"y":2,"z":["q"]},"id":3}\n{"id":4,"id":"five"}\n')
    ddl = "id bigint, m map<string,bigint>, rescued string"
    rows = read(JsonLinesReader, [tmp_path / "a"], ddl, rescuedDataColumn="rescued")
    assert [row["id"] for row in rows] == [3, 4]
    path = str(tmp_path / "a")
    told = [f'{{"m":[{{"x":1}},{{"y":2,"z":["q"]}}],"_file_path":{json.dumps(path)}}}',
            f'{{"id":[4,"five"],"_file_path":{json.dumps(path)}}}']  # fmt: skip
    assert [row["rescued"] for row in rows] == told


@pytest.mark.parametrize("name", NAMES)
def test_fields_that_have_the_name_of_the_path_are_rescued_beside_it(tmp_path: Path, name: str) -> None:
    write_row(name, tmp_path / "a", {"id": 1, "_file_path": "mine", "__file_path": "too"})
    options = options_of(name, schemaEvolutionMode="rescue")
    [row] = read(READERS[name], [tmp_path / "a"], "id bigint, _rescued_data string", **options)
    path = str(tmp_path / "a")
    assert row["_rescued_data"] == {"__file_path": "mine", "___file_path": "too", "_file_path": path}


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_all_values_of_a_key_that_a_map_has_twice_are_rescued_as_an_array(tmp_path: Path, name: str) -> None:
    items = pa.array([[("k", 1), ("k", 2), ("l", 3)]], pa.map_(pa.string(), pa.int64()))
    WRITERS[name](pa.table({"id": [1], "m": items}), tmp_path / "a")
    options = {"schemaEvolutionMode": "rescue"}
    [row] = read(READERS[name], [tmp_path / "a"], "id bigint, _rescued_data string", **options)
    assert row["_rescued_data"] == {"m": {"k": [1, 2], "l": 3}, "_file_path": str(tmp_path / "a")}


@pytest.mark.parametrize("name", ["json", *COLUMNAR])
def test_a_column_that_has_the_name_of_the_column_of_rescued_data_is_rescued(
    tmp_path: Path, name: str
) -> None:
    write_row(name, tmp_path / "a", {"id": 1, "_rescued_data": "of an earlier stage"})
    for mode in ("rescue", "addNewColumnsWithTypeWidening"):
        options = options_of(name, schemaEvolutionMode=mode)
        [row] = read(READERS[name], [tmp_path / "a"], "id bigint, _rescued_data string", **options)
        rescued = {"_rescued_data": "of an earlier stage", "_file_path": str(tmp_path / "a")}
        assert row == {"id": 1, "_rescued_data": rescued}


@pytest.mark.parametrize("name", ["parquet", "arrow", "orc"])
def test_columns_of_one_name_that_the_schema_lacks_are_rescued_as_an_array(tmp_path: Path, name: str) -> None:
    columns = [pa.array([1, 2, 3]), pa.array(["x", None, None]), pa.array([5, 6, None])]
    WRITERS[name](pa.table(columns, names=["id", "more", "more"]), tmp_path / "a")
    rows = read(
        READERS[name], [tmp_path / "a"], "id bigint, _rescued_data string", schemaEvolutionMode="rescue"
    )
    path = {"_file_path": str(tmp_path / "a")}
    assert [row["_rescued_data"] for row in rows] == [{"more": ["x", 5]} | path, {"more": 6} | path, None]
