"""Checks that need a Spark session: its version, the executors, and schemas that only Spark can parse."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flip27_source.errors import Flip27Error, SchemaError
from flip27_source.source_checks import Finding, failed, ok, warning

from .machine import OLDEST_PYSPARK, package_version, python_version, required_packages

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SERVER_S = 10.0
"""Maximum time for a Spark Connect server to accept a connection; pyspark tries for minutes."""
_TASKS = 8
"""Number of tasks: several, so that they run on several executors."""


@contextlib.contextmanager
def session(remote: str | None) -> Iterator[SparkSession]:
    """A Spark session for this program: on a Spark Connect server, or as set in spark-defaults.

    Raises:
        Flip27Error: the session cannot be started.
    """
    try:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName("flip27 check")
        if remote is None:
            builder = builder.config("spark.ui.enabled", "false")
        else:
            _connect(remote)
            builder = builder.remote(remote)
        spark = builder.getOrCreate()
    except Exception as error:
        raise Flip27Error(
            f"no Spark session can be started: {type(error).__name__}: {error}",
            remedy="check JAVA_HOME and the master (spark-defaults.conf), or the URL of --remote",
        ) from error
    try:
        yield spark
    finally:
        spark.stop()


def _connect(remote: str) -> None:
    if not remote.startswith("sc://"):
        return  # local[n]: pyspark starts the server
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    with DefaultChannelBuilder(remote).toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(SERVER_S)
        except grpc.FutureTimeoutError:
            raise TimeoutError(f"the server has accepted no connection in {SERVER_S:g} s") from None


def executors(spark: SparkSession, own: dict[str, str | None], python: str) -> Iterator[Finding]:
    """Whether executors have the same Python and packages as the driver.

    Args:
        own: versions of packages on the driver. python: version of Python on the driver, ``3.12.1``.
    """
    yield package_version("spark", "pyspark", spark.version, OLDEST_PYSPARK)
    try:
        tasks = _findings_of_tasks(spark, list(own))
    except Exception as error:  # noqa: BLE001 - any failure of a task is the finding
        remedy = "see the executors' logs; executors need the same Python as the driver (PYSPARK_PYTHON)"
        yield failed("executors", f"{type(error).__name__}: {_first_line(error)}", remedy)
        return
    for host in sorted({item["host"] for item in tasks}):
        there = next(item for item in tasks if item["host"] == host)
        yield _same_python(host, there["python"], python)
        for name, version in there["packages"].items():
            yield _same_package(host, name, version, own[name])


def spark_schema(spark: SparkSession, ddl: str) -> pa.Schema:
    """The Arrow schema that Spark parses from a DDL text.

    Raises:
        SchemaError: Spark cannot parse it.
    """
    from pyspark.errors import PySparkException

    from flip27_source.spark.versions import arrow_schema

    try:
        return arrow_schema(spark.createDataFrame([], ddl).schema)
    except PySparkException as error:
        raise SchemaError(
            f"the schema cannot be parsed: {_first_line(error)}",
            remedy="write the schema as for .schema(...): name type, name type",
        ) from error


def _findings_of_tasks(spark: SparkSession, names: list[str]) -> list[dict[str, Any]]:
    def probe(_: Any) -> Any:
        # Pickled by value, so that it also runs if flip27-source is not installed there.
        import json
        import platform
        import socket
        from importlib import metadata

        import pyarrow as pa

        def version(name: str) -> str | None:
            try:
                return metadata.version(name)
            except metadata.PackageNotFoundError:
                return None

        facts = {
            "host": socket.gethostname(),
            "python": platform.python_version(),
            "packages": {name: version(name) for name in names},
        }
        yield pa.RecordBatch.from_pydict({"found": [json.dumps(facts)]})

    rows = spark.range(0, _TASKS, 1, _TASKS).mapInArrow(probe, "found string").collect()
    return [json.loads(row.found) for row in rows]


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "")


def _same_python(host: str, version: str, own: str) -> Finding:
    check = f"executor {host}: python"
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if version.split(".")[:2] != own.split(".")[:2]:
        return failed(check, f"{version}, but {own} on the driver", "set PYSPARK_PYTHON to the same Python")
    return python_version(check, numbers)


def _same_package(host: str, name: str, version: str | None, own: str | None) -> Finding:
    check = f"executor {host}: package {name}"
    finding = package_version(check, name, version, required_packages().get(name))
    if finding.remedy is None and version != own:
        return warning(check, f"{version}, but {own} on the driver", "install the same version on all nodes")
    return finding if finding.remedy is not None else ok(check, str(version))
