"""Fixtures for the tests of a source; pytest finds them automatically if flip27-source is installed.

``flip27_engine`` and ``flip27_state_dir`` need no Spark. ``flip27_spark`` starts one session for all
tests that use it. Modules are imported when a fixture is used, so other tests do not wait for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .testing import MicroBatchEngine


@pytest.fixture
def flip27_state_dir(tmp_path: Path) -> Path:
    """A directory for ``stateLocation`` that does not exist yet; each test gets its own."""
    return tmp_path / "flip27-state"


@pytest.fixture
def flip27_engine() -> Iterator[Callable[..., MicroBatchEngine]]:
    """Creates engines, ``flip27_engine(source, enumerator=..., reader=...)``; stops them after the test."""
    from .testing import MicroBatchEngine

    engines: list[MicroBatchEngine] = []

    def new_engine(*arguments: Any, **more: Any) -> MicroBatchEngine:
        engines.append(MicroBatchEngine(*arguments, **more))
        return engines[-1]

    yield new_engine
    for engine in engines:
        engine.stop()


def quick_checkpoint_files() -> str:
    """The class with which Spark starts 6 processes per batch to write to a local disk, instead of 30."""
    from pyspark.sql.datasource import DataSourceReader

    # Spark 4.1 has moved the class; it is the first version that pushes filters.
    package = "streaming.checkpointing" if hasattr(DataSourceReader, "pushFilters") else "streaming"
    return f"org.apache.spark.sql.execution.{package}.FileSystemBasedCheckpointFileManager"


@pytest.fixture(scope="session")
def flip27_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark session with two cores, in UTC, only on loopback and without a UI.

    Its workers run in the interpreter of the tests. A session that is already active is used and not stopped.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        pytest.fail(f"fixture flip27_spark needs PySpark ({error}): pip install 'flip27-source[spark]'")
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    session = (
        SparkSession.builder.master("local[2]")
        .appName("flip27 tests")
        .config("spark.pyspark.python", sys.executable)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.streaming.checkpointFileManagerClass", quick_checkpoint_files())
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
