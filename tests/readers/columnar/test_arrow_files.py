"""The arrow reader: IPC files and streams, whatever their names."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather

from flip27_source.readers.columnar.arrow_files import ArrowReader
from flip27_source.readers.files.input import CorruptFileError
from flip27_source.registry import find_reader
from tests.readers.formats import write_ipc
from tests.readers.spark_reading import arrow_schema, read_batches, read_table, split_of

MICROS = pa.timestamp("us", "UTC")
NOON = dt.datetime(2024, 5, 6, 12, tzinfo=dt.UTC)
DAY = dt.date(2024, 5, 6)

COLUMNS: list[tuple[pa.Array, str, list[Any]]] = [
    (pa.array([1, None], pa.int32()), "long", [1, None]),
    (pa.array([NOON, None], pa.timestamp("ns", "Asia/Tokyo")), "timestamp", [NOON, None]),
    (pa.array(["a", None]).dictionary_encode(), "string", ["a", None]),
    (pa.array(["a", None], pa.string_view()), "string", ["a", None]),
    (pa.array([1.5, None], pa.float16()), "float", [1.5, None]),
    (pa.array([1.5, None], pa.float16()), "double", [1.5, None]),
    (pa.array([DAY, None], pa.date64()), "date", [DAY, None]),
    (pa.array([DAY, None], pa.date64()), "timestamp_ntz", [dt.datetime(2024, 5, 6), None]),
    (pa.array([[1], None], pa.large_list(pa.int32())), "array<long>", [[1], None]),
    (pa.array([{"A": 1, "b": "x"}, None]), "struct<a: long>", [{"a": 1}, None]),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("stored", "wanted", "expected"), COLUMNS, ids=[str(row[0].type) for row in COLUMNS])
def test_columns_are_converted_to_the_schema(
    tmp_path: Path, stored: pa.Array, wanted: str, expected: list[Any], stream: bool
) -> None:
    write_ipc(pa.table({"other": [7, 8], "V": stored}), tmp_path / "a", stream=stream)
    table = read_table(ArrowReader(), [tmp_path / "a"], f"missing int, v {wanted}")
    assert table.to_pydict() == {"missing": [None, None], "v": expected}
    assert read_table(ArrowReader(), [tmp_path / "a"], "missing int").to_pydict() == {"missing": [None, None]}


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_feather_is_another_name_of_the_arrow_reader(tmp_path: Path, compression: str) -> None:
    feather.write_feather(pa.table({"n": [1, 2]}), tmp_path / "a.feather", compression=compression)
    assert find_reader("feather") is ArrowReader
    assert read_table(ArrowReader(), [tmp_path / "a.feather"], "n long").to_pydict() == {"n": [1, 2]}


def test_large_record_batches_are_cut_into_batches_that_suit_spark(tmp_path: Path) -> None:
    write_ipc(pa.table({"n": list(range(600_000))}), tmp_path / "a", stream=False, rows=600_000)
    batches = read_batches(ArrowReader(), [split_of(tmp_path / "a")], arrow_schema("n long"))
    assert [batch.num_rows for batch in batches] == [262_144, 262_144, 75_712]


def test_a_stream_truncated_between_two_batches_is_an_error(tmp_path: Path) -> None:
    write_ipc(pa.table({"n": list(range(100))}), tmp_path / "one", stream=True)
    write_ipc(pa.table({"n": list(range(200))}), tmp_path / "two", stream=True)
    one, two = (tmp_path / "one").read_bytes(), (tmp_path / "two").read_bytes()
    (tmp_path / "cut").write_bytes(two[: len(one) - 8])
    with pytest.raises(CorruptFileError, match=r"/cut is .*: no end mark of the stream"):
        read_table(ArrowReader(), [tmp_path / "cut"], "n long")


def test_text_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    text = pa.array([b"caf\xe9"], pa.binary()).view(pa.string())
    write_ipc(pa.table({"t": text}), tmp_path / "a", stream=False)
    with pytest.raises(CorruptFileError, match=r"/a is truncated or damaged.*UTF8"):
        read_table(ArrowReader(), [tmp_path / "a"], "t string")


def test_feather_of_version_1_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"FEA1" + bytes(100))
    with pytest.raises(CorruptFileError, match="Feather file of version 1; write the file as version 2"):
        read_table(ArrowReader(), [tmp_path / "a"], "n long")
