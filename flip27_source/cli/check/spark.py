"""The Spark session of the check: how it is started, and schemas that only Spark can parse."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flip27_source.errors import Flip27Error, SchemaError

from .time_limits import ANSWER_S, within

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SERVER_S = 10.0
"""Maximum time for a Spark Connect server to accept a connection; pyspark tries for minutes."""

_FORCED = {
    "spark.ui.enabled": "false",
    # A task that prefers an executor waits for that one.
    "spark.locality.wait": "1h",
    # Executors come although there are no tasks yet.
    "spark.dynamicAllocation.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """How the session is started: as ``spark-submit`` does it with the same options.

    Attributes:
        remote: the URL of a Spark Connect server, for which master, conf and properties_file are not used.
        conf: each ``NAME=VALUE``.
        timeout_s: maximum time until the session has started and every executor has answered.
    """

    remote: str | None = None
    master: str | None = None
    conf: Sequence[str] = ()
    properties_file: str | None = None
    timeout_s: float

    @property
    def submit_arguments(self) -> str:
        """The value of PYSPARK_SUBMIT_ARGS, after what it contains already: a later option replaces one."""
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
        words = words[:-1] if words[-1:] == ["pyspark-shell"] else words
        words += [] if self.master is None else ["--master", self.master]
        words += [] if self.properties_file is None else ["--properties-file", self.properties_file]
        words += [word for pair in self.conf for word in ("--conf", pair)]
        return shlex.join([*words, "pyspark-shell"])


@contextlib.contextmanager
def session(settings: SessionSettings) -> Iterator[SparkSession]:
    """A Spark session for this program.

    Raises:
        Flip27Error: the session cannot be started, or not in time.
    """
    late = TimeoutError(f"it has not started in {settings.timeout_s:g} s; Spark's log says what it waits for")
    try:
        spark = within(settings.timeout_s, lambda: _started(settings), lambda: late)
    except Exception as error:
        raise Flip27Error(
            f"no Spark session can be started: {type(error).__name__}: {error}",
            remedy="check JAVA_HOME and the master (--master, --properties-file or spark-defaults.conf), or "
            "the URL of --remote",
        ) from error
    try:
        yield spark
    finally:
        spark.stop()


def _started(settings: SessionSettings) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("flip27 check")
    if settings.remote is not None:
        _connect(settings.remote)
        return builder.remote(settings.remote).getOrCreate()
    if settings.properties_file is not None and not os.path.isfile(settings.properties_file):
        raise FileNotFoundError(f"{settings.properties_file} of --properties-file does not exist")
    check_masters(settings.master or "")
    os.environ["PYSPARK_SUBMIT_ARGS"] = settings.submit_arguments
    for name, value in _FORCED.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check_masters(master: str) -> None:
    """Check that one of the masters of a standalone cluster accepts connections; others are not checked.

    Raises:
        ConnectionError: none does.
    """
    refused = []
    for host, port in re.findall(r"(?:^spark://|,)([^:,]+):(\d+)", master):
        try:
            socket.create_connection((host, int(port)), ANSWER_S).close()
        except OSError as error:
            refused.append(f"{host}:{port} ({error})")
        else:
            return
    if refused:
        raise ConnectionError(f"no master accepts connections: {', '.join(refused)}")


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
        raise wrong_schema(error) from error


def wrong_schema(error: Exception) -> SchemaError:
    """The error for a DDL text that a parser refuses."""
    return SchemaError(
        f"the schema cannot be parsed: {_first_line(error)}",
        remedy="write the schema as for .schema(...): name type, name type",
    )


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "")
