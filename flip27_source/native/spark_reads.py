"""SparkReads: a DataFrame of exactly the given files, by Spark's own reader.

By default Spark lists every path in a separate task and plans a task for every 32 small files, which suits
directories. These settings are changed while a batch is read, unless the user has set them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.file_systems.paths import local_path
from flip27_source.readers.files.base_paths import BasePaths

from .hadoop_paths import hadoop_name, hadoop_path
from .planned_files import by_base_path

_DISCOVERY = "spark.sql.sources.parallelPartitionDiscovery"
_THRESHOLD, _PARALLELISM = f"{_DISCOVERY}.threshold", f"{_DISCOVERY}.parallelism"
_OPEN_COST = "spark.sql.files.openCostInBytes"
_DEFAULTS = {_THRESHOLD: "32", _PARALLELISM: "10000", _OPEN_COST: "4194304"}
_ALL_FILES = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""They replace the session's settings: the policies of the source decide."""

_MANY_PATHS = 64
_LISTING_TASKS = 32
_SMALL_OPEN_COST_BYTES = 256 * 1024
_MERGED = ("parquet", "orc")


class SparkReads:
    def __init__(
        self,
        spark: SparkSession,
        format_name: str,
        options: Mapping[str, str],
        *,
        prefixes: Mapping[str, str],
        bases: BasePaths | None,
    ) -> None:
        self._spark = spark
        self._format = format_name
        self._options = {**options, **_ALL_FILES}
        self._prefixes = prefixes
        self._bases = bases

    def frame(self, files: Sequence[FileSplit], schema: StructType | str | None) -> DataFrame:
        """The rows of the files.

        Raises:
            SplitReadError: a file has a path that Spark cannot read.
        """
        groups = by_base_path(files, self._bases)
        with self._listing(files):
            frames = [self._of_group(base, group, schema) for base, group in groups.items()]
        return functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    def inferred(self, files: Sequence[FileSplit]) -> StructType:
        """The schema that Spark infers from the files; for Parquet and ORC, from all of them."""
        merged = {"mergeSchema": "true"} if self._format.lower() in _MERGED else {}
        reads = SparkReads(
            self._spark, self._format, {**merged, **self._options}, prefixes=self._prefixes, bases=self._bases
        )
        return reads.frame(files, None).schema

    def small_files(self) -> contextlib.AbstractContextManager[None]:
        """Let a task read more than 32 small files in this context."""
        return _settings(self._spark, {_OPEN_COST: str(_SMALL_OPEN_COST_BYTES)})

    def _of_group(
        self, base: str | None, files: Sequence[FileSplit], schema: StructType | str | None
    ) -> DataFrame:
        reader: Any = self._spark.read.format(self._format).options(**self._options)
        if schema is not None:
            reader = reader.schema(schema)
        if base is not None:
            reader = reader.option("basePath", hadoop_name(base, self._prefixes))
        paths = [hadoop_path(file.path, self._prefixes) for file in files]
        sequence = _java_sequence(self._spark, paths) if len(paths) > _MANY_PATHS else None
        load = reader._jreader.load
        frame: DataFrame = reader.load(paths) if sequence is None else reader._df(load(sequence))
        return frame

    def _listing(self, files: Sequence[FileSplit]) -> contextlib.AbstractContextManager[None]:
        if len(files) < int(_DEFAULTS[_THRESHOLD]):
            return contextlib.nullcontext()
        if all(local_path(file.path) is not None for file in files):
            # The driver takes 0.1 ms for a local file, less than a task takes to start.
            return _settings(self._spark, {_THRESHOLD: str(1 << 30)})
        return _settings(self._spark, {_PARALLELISM: str(_LISTING_TASKS)})


def _java_sequence(spark: SparkSession, paths: Sequence[str]) -> Any:
    """Pass the paths to the JVM in one call, as each takes py4j 0.1 ms; None if the session has no JVM."""
    try:
        jvm: Any = spark._jvm
        texts = jvm.java.util.regex.Pattern.compile("\0").splitAsStream("\0".join(paths)).toList()
        return jvm.PythonUtils.toSeq(texts)
    except Exception:  # noqa: BLE001 - Spark Connect, or a later PySpark: the public call does the same
        return None


@contextlib.contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change these settings in this context, except those that the user has set."""
    before = {name: spark.conf.get(name, _DEFAULTS[name]) or "" for name in settings}
    changed = [name for name, value in before.items() if value.rstrip("b") == _DEFAULTS[name]]
    for name in changed:
        spark.conf.set(name, settings[name])
    try:
        yield
    finally:
        for name in changed:
            spark.conf.set(name, before[name])
