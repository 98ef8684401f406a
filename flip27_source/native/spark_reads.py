"""SparkReads: a DataFrame of exactly the given files, by Spark's own reader.

By default Spark lists every path in a separate task and plans a task for every 32 small files, which suits
directories. These settings are changed while a batch is read, unless the user has set them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError
from flip27_source.file_systems.paths import local_path
from flip27_source.readers.files.base_paths import BasePaths
from flip27_source.readers.schemas.merging import nested_names
from flip27_source.schemas.ddl import parse_columns, type_name
from flip27_source.schemas.new_columns import NoCommonTypeError, wider
from flip27_source.spark.versions import arrow_schema

from .csv_headers import CsvHeaders
from .hadoop_paths import hadoop_name, hadoop_path
from .null_columns import without_void
from .options import kind_of
from .planned_files import by_partition_columns

_DISCOVERY = "spark.sql.sources.parallelPartitionDiscovery"
_THRESHOLD, _PARALLELISM = f"{_DISCOVERY}.threshold", f"{_DISCOVERY}.parallelism"
_OPEN_COST = "spark.sql.files.openCostInBytes"
_CASE = "spark.sql.caseSensitive"
_DEFAULTS = {_THRESHOLD: "32", _PARALLELISM: "10000", _OPEN_COST: "4194304", _CASE: "false"}
_ALL_FILES = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""They replace the session's settings: the policies of the source decide."""
_READ_ID = "flip27ReadId"
"""Spark ignores options that it does not know, but tells plans apart by them. Without it, the cached rows of
an older version of the same files would answer."""

_MANY_PATHS = 64
_LISTING_TASKS = 32
_SMALL_OPEN_COST_BYTES = 256 * 1024
_MERGED = ("parquet", "orc")
_EXACT_NAMES = ("json", "xml")
_FIXED_COLUMNS = ("text", "binaryfile", "image")
"""Formats whose columns do not depend on the content of files."""


class SparkReads:
    def __init__(
        self,
        spark: SparkSession,
        format_name: str,
        options: Mapping[str, str],
        *,
        prefixes: Mapping[str, str],
        bases: BasePaths | None,
        headers: CsvHeaders | None = None,
    ) -> None:
        """``headers``: they name the columns of CSV files; otherwise the schema does, by position."""
        self._spark = spark
        self._format = format_name
        self.kind = kind_of(format_name)
        self._options = {**options, **_ALL_FILES}
        self._prefixes = prefixes
        self._bases = bases
        self._headers = headers

    def frame(self, files: Sequence[FileSplit], schema: StructType | str | None) -> DataFrame:
        """The rows of the files.

        Raises:
            SplitReadError: a file has a path that Spark cannot read.
        """
        by_names = self._headers is not None and self._headers.name_columns
        parts = list(self._parts(files, by_names))
        everywhere = {name.lower() for _, names, _ in parts for name in names}
        with self._listing(files):
            frames = [
                self._of_group(
                    base, part, self._fitting(schema, everywhere.difference(map(str.lower, names)))
                )
                for base, names, part in parts
            ]
        return functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    def _parts(
        self, files: Sequence[FileSplit], by_headers: bool
    ) -> Iterator[tuple[str | None, tuple[str, ...], Sequence[FileSplit]]]:
        """Files that Spark can read together, with their base path and their partition columns."""
        for (base, names), group in by_partition_columns(files, self._bases).items():
            for part in self._headers.groups(group) if by_headers and self._headers else [group]:
                yield base, names, part

    def _fitting(self, schema: StructType | str | None, absent: Collection[str]) -> StructType | str | None:
        """The schema without the partition columns that other files of the batch have, if Spark needs this.

        Files of other formats may have a column of this name, and otherwise Spark returns null.
        """
        if schema is None or not absent or self.kind not in _FIXED_COLUMNS:
            return schema
        columns: Any = StructType.fromDDL(schema) if isinstance(schema, str) else schema
        return StructType([field for field in columns if field.name.lower() not in absent])

    def partition_columns(self, files: Sequence[FileSplit]) -> set[str]:
        """The names of the partition columns that any of the files has, as in its path."""
        return {name for _, names in by_partition_columns(files, self._bases) for name in names}

    def inferred(self, files: Sequence[FileSplit]) -> pa.Schema:
        """The schema that Spark infers from the files; for Parquet and ORC, from all of them.

        Files without content say nothing. Names may differ only in case.
        """
        is_exact = self._has_exact_names
        told = [file for file in files if file.length or self.kind in _FIXED_COLUMNS]
        # Spark refuses names that differ only in case, but without the name of a file.
        with self._listing(told), _settings(self._spark, {_CASE: "true"} if is_exact else {}):
            schemas = [
                schema for part in self._parts(told, by_headers=True) for schema in self._of_part(*part)
            ]
        return functools.reduce(functools.partial(both, is_exact=is_exact), schemas, pa.schema([]))

    def _of_part(
        self, base: str | None, names: tuple[str, ...], files: Sequence[FileSplit]
    ) -> list[pa.Schema]:
        try:
            schema = self._of_group(base, files, None, merges=True).schema
        except Exception as error:
            # Spark merges fewer types than ``both``.
            if "CANNOT_MERGE_SCHEMAS" not in str(error) or len(files) == 1:
                raise
            half = len(files) // 2
            return [
                found for part in (files[:half], files[half:]) for found in self._of_part(base, names, part)
            ]
        return [_in_arrow(schema, names)]

    @property
    def _has_exact_names(self) -> bool:
        """Whether the format's reader finds fields by their exact names."""
        return self.kind in _EXACT_NAMES or self._spark.conf.get(_CASE, "false") == "true"

    def differing_case(
        self, known: pa.Schema, found: pa.Schema, partitions: Collection[str]
    ) -> tuple[str, str] | None:
        """A name that is known, or that another field has, and one in ``found`` with another case.

        None if the format's reader finds fields however they are spelled.

        Args:
            partitions: columns in ``found`` whose values Spark takes from paths.
        """
        if not self._has_exact_names:
            return None
        given = [*((name,) for name in partitions), *nested_names(known)]
        names = {tuple(map(str.lower, path)): path for path in given}
        for path in nested_names(field for field in found if field.name not in partitions):
            other = names.setdefault(tuple(map(str.lower, path)), path)
            if other != path:
                return ".".join(other), ".".join(path)
        return None

    def small_files(self) -> contextlib.AbstractContextManager[None]:
        """Let a task read more than 32 small files in this context."""
        return _settings(self._spark, {_OPEN_COST: str(_SMALL_OPEN_COST_BYTES)})

    def _of_group(
        self,
        base: str | None,
        files: Sequence[FileSplit],
        schema: StructType | str | None,
        *,
        merges: bool = False,
    ) -> DataFrame:
        reader: Any = self._spark.read.format(self._format)
        if merges and self.kind in _MERGED:
            reader = reader.option("mergeSchema", "true")
        reader = reader.options(**self._options).option(_READ_ID, uuid.uuid4().hex)
        wanted = schema
        if self._headers is not None and self._headers.name_columns and isinstance(schema, StructType):
            names = reader.options(inferSchema="false").load(self._paths(files[:1])).columns
            wanted = self._as_in_header(names, files, schema)
            reader = reader.options(**self._options)
        if wanted is not None:
            reader = reader.schema(wanted)
        if base is not None:
            reader = reader.option("basePath", hadoop_name(base, self._prefixes))
        paths = self._paths(files)
        sequence = _java_sequence(self._spark, paths) if len(paths) > _MANY_PATHS else None
        frame: DataFrame = (
            reader.load(paths) if sequence is None else reader._df(reader._jreader.load(sequence))
        )
        return frame.to(schema) if wanted is not schema and isinstance(schema, StructType) else frame

    def _paths(self, files: Sequence[FileSplit]) -> list[str]:
        return [hadoop_path(file.path, self._prefixes) for file in files]

    def _as_in_header(
        self, names: Sequence[str], files: Sequence[FileSplit], schema: StructType
    ) -> StructType:
        """The schema for CSV files with a header of these names; unread columns get other names."""
        folders = {file.path.rpartition("/")[0] for file in files}
        bases = self._bases
        pairs = [] if bases is None else [pair for folder in folders for pair in bases.partitions_of(folder)]
        found = {name.lower() for name, _ in pairs}
        known = {field.name.lower(): field for field in schema}
        partitions = [known.pop(name) for name in list(known) if name in found]
        if not names or [name.lower() for name in names] == list(known):
            return schema
        unread = (StructField(f"_flip27_unread_{number}", StringType()) for number in itertools.count())
        return StructType([*(known.get(name.lower()) or next(unread) for name in names), *partitions])

    def _listing(self, files: Sequence[FileSplit]) -> contextlib.AbstractContextManager[None]:
        if len(files) < int(_DEFAULTS[_THRESHOLD]):
            return contextlib.nullcontext()
        if all(local_path(file.path) is not None for file in files):
            # The driver takes 0.1 ms for a local file, less than a task takes to start.
            return _settings(self._spark, {_THRESHOLD: str(1 << 30)})
        return _settings(self._spark, {_PARALLELISM: str(_LISTING_TASKS)})


def _in_arrow(schema: StructType, partitions: Sequence[str]) -> pa.Schema:
    """The inferred columns with Arrow's types, without those that have only nulls.

    Partition columns that have only nulls are texts, because all values are.

    Raises:
        SchemaError: a type cannot be recorded. The files are not damaged.
    """
    # Of a column in a file and in its path, which Spark adds last, Spark returns the one in the path.
    own = {name.lower() for name in partitions}
    fields = {field.name.lower() if field.name.lower() in own else field.name: field for field in schema}
    found: list[pa.Field] = []
    for field in fields.values():
        kind = _recorded_type(field)
        is_untyped = field.name.lower() in own and pa.types.is_null(kind)
        found.append(pa.field(field.name, pa.string() if is_untyped else kind))
    return without_void(pa.schema(found))


def _recorded_type(field: StructField) -> pa.DataType:
    try:
        in_arrow = arrow_schema(StructType([field])).field(0).type
        kind = parse_columns(f"c {type_name(in_arrow)}").field(0).type
        returned = from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString()
    except Exception:  # noqa: BLE001 - types that Arrow or PySpark do not have raise various errors
        kind, returned = pa.null(), None
    said = field.dataType.simpleString()
    if returned != said:
        raise SchemaError(
            f"the schema of the files cannot be recorded: column {field.name}: the type {said}",
            remedy='give native_batches a schema="id long, ..."',
        )
    return kind


def both(one: pa.Schema, other: pa.Schema, *, is_exact: bool) -> pa.Schema:
    """The columns of both, by name; columns without a common type are texts."""
    fields = {field.name if is_exact else field.name.lower(): field for field in one}
    for field in other:
        name = field.name if is_exact else field.name.lower()
        first = fields.setdefault(name, field)
        try:
            kind = wider(first.type, field.type)
        except NoCommonTypeError:
            kind = pa.string()
        fields[name] = first.with_type(kind)
    return pa.schema(list(fields.values()))


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
