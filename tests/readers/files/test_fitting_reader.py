"""The error of a reader that does not fit the format of a file."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_source.errors import AccessError, NewColumnsError, SplitReadError
from flip27_source.schemas.source_schema import schema_of
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.mark.parametrize(
    ("reader", "name", "fitting"),
    [
        ("parquet", "a.csv", "csv"),
        ("orc", "a.parquet", "parquet"),
        ("json", "b.parquet", "parquet"),
        ("json", "a.json", None),
        ("parquet", "a", None),
    ],
)
def test_the_error_of_a_file_names_the_reader_that_its_name_tells(
    tmp_path: Path, reader: str, name: str, fitting: str | None
) -> None:
    if name == "b.parquet":
        pq.write_table(pa.table({"id": [1]}), tmp_path / name)
    else:
        (tmp_path / name).write_text("id\n1\n")
    options = {"path": str(tmp_path), "reader": reader, "mode": "FAILFAST"}
    if reader != "json":
        del options["mode"]
    engine = MicroBatchEngine(options, schema=SCHEMA, max_failures=1)
    with pytest.raises(SplitReadError, match=name) as caught:
        engine.run_batch()
    advice = f'set .option("reader", "{fitting}"), which reads files with such names; or '
    assert str(caught.value.remedy).startswith(advice) is (fitting is not None)


def test_so_does_the_error_of_an_inferred_schema(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    with pytest.raises(SplitReadError, match=r'What to do: set \.option\("reader", "csv"\)'):
        schema_of(Source.resolve({"path": str(tmp_path), "reader": "parquet"}))


def test_an_advised_error_is_the_same_error_with_more_advice() -> None:
    for error in (AccessError("a", remedy="b"), NewColumnsError("a", columns="c int", remedy="b")):
        advised = error.advised("first")
        assert (type(advised), advised.what, advised.remedy) == (type(error), "a", "first; or b")
        assert vars(pickle.loads(pickle.dumps(advised))) == vars(advised)
    assert AccessError("a").advised("first").remedy == "first"
