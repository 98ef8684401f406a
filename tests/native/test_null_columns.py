"""Which columns of Parquet files have only nulls."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flip27_source.native.null_columns import without_null_columns
from flip27_source.options import Options
from tests.readers.spark_reading import split_of


def test_a_column_or_field_with_a_type_in_no_file_is_left_out(tmp_path: Path) -> None:
    first = {
        "id": pa.array([1], pa.int32()),
        "note": pa.nulls(1),
        "s": pa.array([{"n": None, "k": 1}], pa.struct([("n", pa.null()), ("k", pa.int32())])),
        "list": pa.array([[None]], pa.list_(pa.null())),
        "items": pa.array([[("a", None)]], pa.map_(pa.string(), pa.null())),
        "later": pa.nulls(1),
    }
    pq.write_table(pa.table(first), tmp_path / "a")
    pq.write_table(pa.table({"later": pa.array([7], pa.int32())}), tmp_path / "b")
    (tmp_path / "c").write_text("not Parquet")
    of_spark = pa.schema(
        {
            "ID": pa.int32(),
            "note": pa.int32(),
            "s": pa.struct([("n", pa.int32()), ("k", pa.int32())]),
            "list": pa.list_(pa.int32()),
            "items": pa.map_(pa.string(), pa.int32()),
            "later": pa.int32(),
            "day": pa.int32(),
        }
    )
    files = [split_of(tmp_path / name) for name in "cab"]
    assert without_null_columns(of_spark, of_spark, files, Options.parse({}, ())) == pa.schema(
        {"ID": pa.int32(), "s": pa.struct([("k", pa.int32())]), "later": pa.int32(), "day": pa.int32()}
    )
