"""Reads the files of a case with Spark's own readers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tests.spark.jvm import jvm_of

from .case import METADATA, Case

FILE = "flip27_fuzz_file"
_OF_FILES = "struct(_metadata.file_path, _metadata.file_name, _metadata.file_size) AS _metadata"
_GROUPS = 4
"""The number of groups into which files are divided that cannot be read together."""
FAILURES = (PySparkException, Py4JJavaError)
SETTINGS = {
    # Each case is a small job: compiling code for it would take longer than running it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


@dataclass(frozen=True, slots=True)
class Failed:
    """A failure to read, with its reason."""

    why: str


Outcome: TypeAlias = "pa.Table | Failed"


@dataclass(frozen=True, slots=True)
class Theirs:
    """The rows that Spark reads for a case.

    Attributes:
        schema: the schema of the case, or the inferred one.
        outcomes: the rows or the failure, by the path of the file.
    """

    schema: StructType | Failed
    outcomes: Mapping[str, Outcome]


def small_jobs(spark: SparkSession) -> SparkSession:
    """A new session, which differs from ``spark`` in a few settings."""
    session = spark.newSession()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return session


class _JvmZone:
    """The time zone of Spark's JVM, which all its readers share: those with another zone wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users = 0
        self._zone = ""
        self._before: Any = None

    @contextmanager
    def set_to(self, zone: str, spark: SparkSession) -> Iterator[None]:
        """Set the zone while the context lasts."""
        zones = jvm_of(spark).java.util.TimeZone
        with self._changed:
            self._changed.wait_for(lambda: zone == self._zone or not self._users)
            if not self._users:
                self._zone, self._before = zone, zones.getDefault()
                zones.setDefault(zones.getTimeZone(zone))
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                if not self._users:
                    zones.setDefault(self._before)
                self._changed.notify_all()


JVM_ZONE = _JvmZone()


class SparkSide:
    """Reads cases in a session of its own."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = small_jobs(spark)

    def read(self, case: Case, folder: Path) -> Theirs:
        """Read all files of the case below ``folder``."""
        self._spark.conf.set("spark.sql.session.timeZone", case.zone)
        for name, value in case.settings_of_spark.items():
            self._spark.conf.set(name, value)
        try:
            with JVM_ZONE.set_to(case.jvm_zone, self._spark):
                return self._read(case, folder)
        finally:
            for name in case.settings_of_spark:
                self._spark.conf.unset(name)

    def _read(self, case: Case, folder: Path) -> Theirs:
        schema = self._schema(case, folder)
        if isinstance(schema, Failed) or not len(schema) or case.is_hidden_from_spark:
            return Theirs(schema, {})
        return Theirs(schema, self._outcomes(case, schema, folder))

    def _schema(self, case: Case, folder: Path) -> StructType | Failed:
        if case.ddl is not None:
            return StructType.fromDDL(case.ddl)
        try:
            return self._frame(case, None, [folder], folder).schema
        except FAILURES as error:
            return failed(error)

    def _outcomes(self, case: Case, schema: StructType, folder: Path) -> dict[str, Outcome]:
        names = self._listed(case, folder)
        return self._of_files(case, schema, names, [folder], folder)

    def _of_files(
        self, case: Case, schema: StructType, names: Mapping[str, str], paths: Sequence[Path], folder: Path
    ) -> dict[str, Outcome]:
        """The outcomes of the files with these names, which are all that is below ``paths``.

        If they cannot be read in one job, they are read in smaller groups, down to one file.
        """
        try:
            rows = self._rows(case, schema, paths, folder)
        except FAILURES as error:
            if len(names) == 1:
                return dict.fromkeys(names.values(), failed(error))
            outcomes: dict[str, Outcome] = {}
            left = iter(names.items())
            while group := dict(islice(left, max(1, len(names) // _GROUPS))):
                files = [folder / path for path in group.values()]
                outcomes |= self._of_files(case, schema, group, files, folder)
            return outcomes
        found = pa.array([unquote(name) for name in rows.column(FILE).to_pylist()], pa.string())
        data = rows.drop_columns([FILE])
        return {path: data.filter(pc.equal(found, name)) for name, path in names.items()}

    def _listed(self, case: Case, folder: Path) -> dict[str, str]:
        """The paths of the files that Spark finds, by their names."""
        paths = {file.path.rpartition("/")[2]: file.path for file in case.files}
        if not case.modified_s:
            return paths
        # Spark compares the time in the option with that of the file plus the offset of the zone; in UTC both
        # are right.
        time = jvm_of(self._spark).java.time
        zone = time.ZoneId.of(case.options["timeZone"], time.ZoneId.SHORT_IDS)
        chosen = {
            name: time.LocalDateTime.parse(text).atZone(zone).toInstant().toString()
            for name, text in case.own_options.items()
            if name.startswith("modified")
        }
        found = self._spark.read.format("binaryFile").options(**chosen, timeZone="UTC").load(str(folder))
        names = {unquote(row[0]) for row in found.select("_metadata.file_name").collect()}
        return {name: path for name, path in paths.items() if name in names}

    def _of_file(self, case: Case, schema: StructType, path: Path, folder: Path) -> Outcome:
        try:
            return self._rows(case, schema, [path], folder).drop_columns([FILE])
        except FAILURES as error:
            return failed(error)

    def _rows(self, case: Case, schema: StructType, paths: Sequence[Path], folder: Path) -> pa.Table:
        frame = self._frame(case, schema, paths, folder)
        columns = [_OF_FILES if name == METADATA[0] else f"`{name}`" for name in schema.names]
        return frame.selectExpr(*columns, f"_metadata.file_name as {FILE}").toArrow()

    def _frame(self, case: Case, schema: StructType | None, paths: Sequence[Path], folder: Path) -> DataFrame:
        reader = self._spark.read.format(case.format).options(**case.options)
        if any("/" in file.path for file in case.files):
            reader = reader.option("basePath", str(folder))
        if schema is not None:
            reader = reader.schema(in_files(schema))
        return reader.load([str(path) for path in paths])


def in_files(schema: StructType | None) -> StructType | None:
    """The schema without the column that Spark adds."""
    if schema is None:
        return None
    return StructType([field for field in schema if field.name != METADATA[0]])


def failed(error: Exception) -> Failed:
    """A failure with the first line of the error and with its last cause, which gives the reason."""
    lines = str(error).splitlines()
    causes = [line for line in lines if line.startswith("Caused by:")]
    return Failed("\n".join([*lines[:1], *causes[-1:]]))


@contextmanager
def quiet(spark: SparkSession) -> Iterator[SparkSession]:
    """Silence Spark's log, because many cases fail on purpose."""
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.sparkContext.setLogLevel("ERROR")
