"""Imports everything and streams a little; wheel_test.py runs it with the Python of a clean environment.

Its one argument is the folder of that environment, from which all modules of the wheel must be imported.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from importlib.metadata import entry_points
from pathlib import Path

ROWS_PER_FILE = 3
FILES = 4


def import_everything(home: Path) -> None:
    """Import every module of the wheel, and check that it comes from the wheel."""
    import flip27_source

    for info in pkgutil.walk_packages(flip27_source.__path__, "flip27_source."):
        if not info.name.endswith(".__main__"):
            importlib.import_module(info.name)
    importlib.import_module("pyspark_flip27")
    importlib.import_module("pyspark_flip27_state")
    ours = {name: module for name, module in sys.modules.items() if "flip27" in name}
    foreign = [name for name, module in ours.items() if not Path(str(module.__file__)).is_relative_to(home)]
    assert not foreign, f"not imported from the wheel: {foreign}"


def load_entry_points() -> None:
    """Load every built-in enumerator and reader by its name."""
    for group in ("flip27_source.enumerators", "flip27_source.readers"):
        found = entry_points(group=group)
        assert found, f"no entry points in the group {group}"
        for entry in found:
            entry.load()


def stream_a_few_files(folder: Path) -> None:
    """Stream files to rows, without spark.dataSource.register."""
    from pyspark.sql import SparkSession

    landing = folder / "landing"
    landing.mkdir()
    for number in range(FILES):
        rows = [json.dumps({"id": number * ROWS_PER_FILE + row}) for row in range(ROWS_PER_FILE)]
        (landing / f"{number}.json").write_text("\n".join(rows) + "\n", encoding="utf-8")
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    query = (
        spark.readStream.format("flip27")
        .option("enumerator", "files")
        .option("reader", "json")
        .option("stateLocation", str(folder / "checkpoint" / "flip27"))
        .schema("id long")
        .load(str(landing))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    ids = sorted(row.id for row in spark.read.parquet(str(folder / "out")).collect())
    state = spark.read.format("flip27_state").option("view", "files").load(str(folder / "checkpoint"))
    read = [row.path for row in state.where("status = 'finished'").collect()]
    spark.stop()
    assert len(read) == FILES, f"files in the state: {read}"
    assert ids == list(range(FILES * ROWS_PER_FILE)), f"rows out: {ids}"


if __name__ == "__main__":
    import_everything(Path(sys.argv[1]).resolve())
    load_entry_points()
    stream_a_few_files(Path.cwd())
