"""pandas is imported in Spark's Python processes only if somebody needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

READ = """
import sys
from flip27_source.schemas.ddl import parse_columns
from flip27_source.pandas_on_demand import import_pandas_on_demand
from flip27_source.testing import MicroBatchEngine

reader, path, ddl = sys.argv[1:]
import_pandas_on_demand()
engine = MicroBatchEngine(
    {"enumerator": "files", "reader": reader, "path": path}, schema=parse_columns(ddl), available_now=True
)
engine.process_all_available()
engine.stop()
print(len(engine.rows), "pandas" in sys.modules)
"""

KNOWN_AFTERWARDS = """
import sys
import pyarrow as pa
from flip27_source.pandas_on_demand import import_pandas_on_demand

import_pandas_on_demand()
import_pandas_on_demand()
assert pa.array([1, None], pa.int64()).null_count == 1 and "pandas" not in sys.modules
import pandas as pd

series = pd.Series(["a", None, float("nan")])
assert pa.array(series).null_count == 2
assert pa.array(series).to_pandas().equals(pd.Series(["a", None, None]))
assert pa.types.is_dictionary(pa.array(pd.Categorical(["x", "y", "x"])).type)
assert isinstance(pa.scalar(1, pa.timestamp("ns")).as_py(), pd.Timestamp)
assert pd.__spec__.loader is pd.__loader__ and type(pd.__loader__).__name__ == "SourceFileLoader"
print("same")
"""

FROM_ARROW = """
import sys
import pyarrow as pa
from flip27_source.pandas_on_demand import import_pandas_on_demand

import_pandas_on_demand()
assert "pandas" not in sys.modules
frame = pa.table({"a": [1, 2]}).to_pandas()
import pandas as pd
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
print(type(frame).__module__.partition(".")[0])
"""


def said(code: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("reader", "content", "ddl"),
    [
        (
            "json",
            '{"a": 1, "b": ["x\\n"], "t": "2026-01-01", "f": 1.5, "o": {"x": true}}\n{"a": "?", "o": null}\n',
            "a long, b array<string>, t date, f double, o struct<x: boolean>",
        ),
        (
            "csv",
            '1,"x\ny",2026-01-01T00:00:00Z,1.5,true\n2,,,-0.0,\n',
            "a long, b string, t timestamp, f double, o boolean",
        ),
        ("text", "1\n2\n", "value string"),
    ],
)
def test_a_task_that_reads_lines_does_not_import_pandas(
    tmp_path: Path, reader: str, content: str, ddl: str
) -> None:
    pytest.importorskip("pandas")
    (tmp_path / "a").write_text(content)
    assert said(READ, reader, str(tmp_path), ddl) in ("2 False", "3 False")


def test_pyarrow_knows_objects_of_pandas_as_soon_as_pandas_is_imported() -> None:
    pytest.importorskip("pandas")
    assert said(KNOWN_AFTERWARDS) == "same"


def test_pyarrow_itself_imports_pandas_when_it_is_asked_for_a_frame() -> None:
    pytest.importorskip("pandas")
    assert said(FROM_ARROW) == "pandas"
