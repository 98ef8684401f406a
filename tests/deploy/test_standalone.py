"""The recipe for Spark Standalone: from an empty folder to a query that was killed, moved and resumed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from tests.deploy.recipe import Recipe, all_killed
from tests.spark_home import link_spark

HOSTS = {
    "master": "127.0.24.1", "workers-1": "127.0.24.2", "workers-2": "127.0.24.3",
    "driver-1": "127.0.24.4", "driver-2": "127.0.24.5",
}  # fmt: skip


def spark_home(home: Path) -> Path:
    """The installed Spark with archives of its own, which the recipe changes."""
    home.mkdir()
    link_spark(home)
    shutil.copytree(Path(pyspark.__file__).parent / "python" / "lib", home / "python" / "lib")
    return home


@pytest.mark.slow  # it downloads packages, and starts a cluster and two drivers
def test_standalone_from_nothing_to_a_query_that_was_killed_moved_and_resumed(tmp_path: Path) -> None:
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ}
    environment = {
        **clean,
        "SPARK_HOME": str(spark_home(tmp_path / "spark")),
        "MASTER": HOSTS["master"],
        "FLIP27_RECIPE": str(tmp_path),
    }
    with all_killed("FLIP27_RECIPE", str(tmp_path)):
        for page in ("deploy/README.md", "deploy/standalone/README.md"):
            recipe = Recipe(page=page, below=tmp_path, hosts=HOSTS, environment=environment)
            recipe.run()
    lake = pq.read_table(tmp_path / "srv" / "flip27" / "lake")
    assert sorted(lake["id"].to_pylist()) == [1, 2]
