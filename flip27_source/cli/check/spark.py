"""The Spark session of the check: how it is started, and schemas that only Spark can parse."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flip27_source.errors import Flip27Error, SchemaError
from flip27_source.file_systems.secrets_in_texts import Hidden

from ..tune.bytecode import spark_home
from .time_limits import ANSWER_S, within

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SERVER_S = 10.0
"""Maximum time for a Spark Connect server to accept a connection; pyspark tries for minutes."""

_CLASSIC = "spark.api.mode=classic"
"""A session of Spark Connect does not tell the executors, and pyspark cannot start one in this way."""

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
    def server(self) -> str | None:
        """The URL of the Spark Connect server; pyspark takes that of the environment whatever else is set."""
        return self.remote or os.environ.get("SPARK_REMOTE") or None

    @property
    def submit_arguments(self) -> str:
        """The value of PYSPARK_SUBMIT_ARGS, after what it contains already: a later option replaces one."""
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
        words = words[:-1] if words[-1:] == ["pyspark-shell"] else words
        words += [] if self.master is None else ["--master", self.master]
        words += [] if self.properties_file is None else ["--properties-file", self.properties_file]
        words += [word for pair in (*self.conf, _CLASSIC) for word in ("--conf", pair)]
        return shlex.join([*words, "pyspark-shell"])

    def master_of_spark(self) -> tuple[str, str]:
        """The master that ``spark-submit`` takes, and where it is named; empty if it is named nowhere.

        Raises:
            Flip27Error: the file of settings does not exist.
        """
        given: dict[str, list[str]] = {"--master": [], "--conf": [], "--properties-file": []}
        words = iter(shlex.split(self.submit_arguments))
        for word in words:
            name, mark, value = word.partition("=")
            if (values := given.get("--conf" if name == "-c" else name)) is not None:
                values.append(value if mark else next(words, ""))
        for master in given["--master"][-1:]:
            return master, "--master" if self.master is not None else "PYSPARK_SUBMIT_ARGS"
        places = {"--conf or PYSPARK_SUBMIT_ARGS": [pair.replace("=", " ", 1) for pair in given["--conf"]]}
        places |= {file: _lines(file) for file in given["--properties-file"][-1:]}
        if not given["--properties-file"] or "--load-spark-defaults" in self.submit_arguments:
            folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(spark_home(), "conf")
            file = os.path.join(folder, "spark-defaults.conf")
            places[file] = _lines(file) if os.path.isfile(file) else []
        for place, lines in places.items():
            named = (re.match(r"\s*spark\.master\s*[=:\s]\s*(\S+)", line) for line in reversed(lines))
            for match in filter(None, named):
                return match[1], place
        return os.environ.get("MASTER", ""), "the environment variable MASTER"


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        said = f"{file} cannot be read: {error.strerror}"
        raise _no_session(said, "give an existing file with --properties-file") from None


@contextlib.contextmanager
def session(settings: SessionSettings) -> Iterator[SparkSession]:
    """A Spark session for this program.

    Raises:
        Flip27Error: the session cannot be started, or not in time, or it cannot be used with its settings.
    """
    late = _no_session(
        f"it has not started in {settings.timeout_s:g} s; Spark's log says what it waits for",
        "start what it waits for, or give it more time with --timeout",
    )
    try:
        spark = within(settings.timeout_s, lambda: _started(settings), lambda: late)
    except Flip27Error:
        raise
    except Exception as error:
        remedy = (
            "see what Spark has printed; check JAVA_HOME, the master and the settings (--master, --conf, "
            "--properties-file or spark-defaults.conf)"
        )
        if settings.server is not None:
            named_by = "SPARK_REMOTE" if settings.remote is None else "--remote"
            remedy = f"check the URL, which {named_by} names, and that the Spark Connect server runs"
        # The text of the JVM's error begins with its class; that of py4j contains all calls.
        of_jvm = getattr(error, "java_exception", None)
        said = _first_line(error) if of_jvm is None else _first_line(of_jvm.toString())
        # An error of parsing a URL has a part of it, from which it cannot be seen that it has a token.
        given = (part.partition("=") for part in (settings.server or "").split(";"))
        said = Hidden({name: value for name, _, value in given}).in_text(said)
        raise _no_session(
            said if of_jvm is not None else f"{type(error).__name__}: {said}", remedy
        ) from error
    try:
        within(settings.timeout_s, lambda: _check_settings(spark), lambda: late)
        yield spark
    finally:
        if settings.server is None:
            spark.stop()
        else:
            with contextlib.suppress(TimeoutError):  # the server may be silent by now
                within(SERVER_S, spark.stop, TimeoutError)


def _no_session(why: str, remedy: str) -> Flip27Error:
    return Flip27Error(f"no Spark session can be started: {why}", remedy=remedy)


def _started(settings: SessionSettings) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("flip27 check")
    server = settings.server
    if server is not None:
        if settings.master or settings.conf or settings.properties_file:
            raise _no_session(
                f"SPARK_REMOTE is {server.partition(';')[0]}, so a session would be one of Spark Connect",
                "unset SPARK_REMOTE to check a cluster; or leave out --master, --conf and --properties-file",
            )
        _connect(server)
        return builder.remote(server).getOrCreate()
    home = os.environ.get("SPARK_HOME")
    if home and not os.path.isdir(os.path.join(home, "bin")):
        raise _no_session(
            f"SPARK_HOME is {home}, where no Spark is installed",
            "unset SPARK_HOME to use the Spark of the package pyspark, or set it to the folder that has bin/",
        )
    check_masters(*settings.master_of_spark())
    os.environ["PYSPARK_SUBMIT_ARGS"] = settings.submit_arguments
    for name, value in _FORCED.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _check_settings(spark: SparkSession) -> None:
    """Check that Spark accepts the settings of SQL, which it reads at the first use of a session."""
    from pyspark.errors import PySparkException

    try:
        spark.conf.get("spark.sql.session.timeZone")
    except PySparkException as error:
        raise Flip27Error(
            f"Spark refuses a setting: {_first_line(_deepest(error))}",
            remedy="correct this setting where it is set: --conf, --properties-file or spark-defaults.conf",
        ) from error


def _deepest(error: Any) -> Exception:
    """The error of Spark that caused this one; Spark 4.0 names the setting only there."""
    while (cause := getattr(error, "_cause", None)) is not None:
        error = cause
    found: Exception = error
    return found


def check_masters(master: str, named_by: str) -> None:
    """Check that one of the masters of a standalone cluster accepts connections; others are not checked.

    Args:
        named_by: where the master is named.

    Raises:
        Flip27Error: none does.
    """
    refused = []
    for host, port in re.findall(r"(?:^spark://|,)(\[[^\]]+\]|[^:,\[]+):(\d+)", master):
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
        except OSError as error:
            refused.append(f"{host}:{port} ({error})")
        else:
            return
    if refused:
        raise _no_session(
            f"no master accepts connections: {', '.join(refused)}",
            f"check the address of the master, which {named_by} names, and check that it runs",
        )


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


def _first_line(error: object) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "")
