"""Spark Declarative Pipelines: flip27 as the source of a streaming table, run by ``spark-pipelines``."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.spark_features import needs

from .streams import Folders

SPEC = """
name: orders
storage: file://{root}/storage
libraries:
  - glob:
      include: transformations/**
"""

ORDERS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()

@dp.table
def orders():
    source = spark.readStream.format("flip27").options(enumerator="files", reader="text")
    return source.option("stateLocation", {state!r}).load({landing!r})
"""


@needs("Declarative Pipelines")
@pytest.mark.slow  # each run starts a JVM
def test_a_streaming_table_has_each_row_once_over_two_runs(folders: Folders) -> None:
    root = folders.root
    (root / "transformations").mkdir()
    (root / "spark-pipeline.yml").write_text(SPEC.format(root=root))
    places = {"state": str(root / "state"), "landing": str(folders.landing)}
    (root / "transformations" / "orders.py").write_text(ORDERS.format(**places))
    # The second run finds the table in the metastore that the first one has created in this folder.
    settings = ["--conf", "spark.sql.catalogImplementation=hive"]
    settings += ["--conf", f"spark.sql.warehouse.dir={root}/warehouse"]
    for lines in (["1", "2"], ["3"]):
        folders.land(f"{lines[0]}.txt", lines)
        program = Path(os.environ["SPARK_HOME"]) / "bin" / "spark-pipelines"
        done = subprocess.run(
            [program, "run", *settings], cwd=root, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    table = ds.dataset(root / "warehouse" / "orders", format="parquet").to_table()
    assert sorted(table["value"].to_pylist()) == ["1", "2", "3"]
