"""``native_batches``: a foreachBatch function that reads the files of a batch with Spark's own reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from flip27_source.access_errors import access_error_of_spark, is_of_a_stop
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import NewColumnsError, OptionError, SchemaError, SplitReadError, kept_text
from flip27_source.file_systems.paths import local_path, with_percents
from flip27_source.log import LOG
from flip27_source.readers.files.base_paths import BasePaths
from flip27_source.readers.files.input import CorruptFileError
from flip27_source.readers.files.unchanged import changed_files
from flip27_source.schemas.column_comments import PATH_COLUMN, SourceOfSplits, source_in
from flip27_source.schemas.ddl import columns_text
from flip27_source.schemas.new_columns import additions
from flip27_source.schemas.recorded_schemas import SchemaOwner, SchemaStorage
from flip27_source.snapshots.store import open_store
from flip27_source.source_options import SCHEMA_EVOLUTION_MODE

from .csv_headers import CsvHeaders
from .options import HADOOP_PREFIXES, NativeOptions
from .planned_files import PlannedFiles
from .planned_tasks import files_without_tasks
from .spark_reads import SparkReads
from .unreadable_files import UnreadableFiles

_SHOWN_CHARACTERS = 1000


def native_batches(
    function: Callable[[DataFrame, int], Any],
    *,
    format: str,
    schema: StructType | str | None = None,
    **options: Any,
) -> Callable[[DataFrame, int], None]:
    """A function for ``foreachBatch`` on a stream of ``reader=splits``.

    For each batch it reads exactly the batch's files with ``spark.read.format(format)``, and calls
    ``function(frame, batch_id)``. The frame is Spark's own: columns are pruned, filters are pushed down, and
    ``_metadata`` exists. A batch without files makes no call::

        found = spark.readStream.format("flip27").option("enumerator", "files").option("reader", "splits")
        found.load("/landing").writeStream.foreachBatch(native_batches(write, format="parquet")).start()

    As in every foreachBatch, the function must be idempotent: it may be called again with the same
    ``batch_id`` after a failure, or without a file of the batch that could not be read.

    Args:
        function: gets the frame and the number of the batch.
        format: a format of Spark that reads files: parquet, orc, json, csv, text, xml, avro, binaryFile, ...
        schema: the columns, as DDL or StructType; with partition columns if there are some. If None, Spark
            infers them, and they are recorded in the ``stateLocation`` of the stream.
        **options: options of Spark's reader, and flip27's: ``hadoopPrefixes``, ``schemaEvolutionMode`` and
            ``storage.*``.

    Raises:
        OptionError: an option would make Spark leave out files, or is invalid.
    """
    parsed = NativeOptions.parse(options)
    if schema is not None and parsed.own.is_set(SCHEMA_EVOLUTION_MODE):
        raise OptionError(
            "schemaEvolutionMode is set, but a schema is given, which cannot grow",
            remedy="leave schema out, or leave schemaEvolutionMode out",
        )
    return _NativeBatches(function, format, schema, dict(options))


@dataclass(frozen=True)
class _NativeBatches:
    """The function for ``foreachBatch``; it holds only values, because Spark Connect pickles it."""

    function: Callable[[DataFrame, int], Any]
    format: str
    schema: StructType | str | None
    options: dict[str, Any]

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        source, options = _source_of(rows), NativeOptions.parse(self.options)
        files = files_without_tasks(rows, options.own)
        planned = PlannedFiles.of(rows.toArrow()) if files is None else PlannedFiles.whole(files, None)
        if planned.files:
            name = planned.checkpoint_name
            _Batch(self, source, options, rows.sparkSession, name, batch_id).deliver(planned.files)


class _Batch:
    """One batch: delivers its files, without those that cannot be read."""

    def __init__(
        self,
        native: _NativeBatches,
        source: SourceOfSplits,
        options: NativeOptions,
        spark: SparkSession,
        checkpoint_name: str | None,
        batch_id: int,
    ) -> None:
        self._native = native
        self._source = source
        self._options = options
        depth, names = source.base_depth, source.base_names
        self._reads = SparkReads(
            spark,
            native.format,
            options.spark,
            prefixes=options.own[HADOOP_PREFIXES],
            bases=None if depth is None else BasePaths(depth=depth, names=names),
            headers=CsvHeaders.of(native.format, options) if native.schema is None else None,
        )
        self._unreadable_files = UnreadableFiles(source, checkpoint_name, options.own)
        self._batch_id = batch_id

    def deliver(self, planned: Sequence[FileSplit]) -> None:
        files = self._unreadable_files.remaining(planned)
        while files:
            try:
                self._read(files)
                break
            except Exception as error:
                bad = self._bad_files(files, error)
                if not bad:
                    raise
                try:
                    self._unreadable_files.give_up(bad)
                except SplitReadError as refused:
                    raise refused from error
                gone = {file.split_id for file, _ in bad}
                files = [file for file in files if file.split_id not in gone]
        for file, changed in changed_files(files, self._options.own) if files else ():
            raise SplitReadError(
                f"{file.path} changed while its batch was read: {changed.what}",
                remedy="put the file back as it was and restart the query, which repeats the batch; write "
                "files elsewhere, and move them into the source's path when they are complete",
            )

    def _read(self, files: Sequence[FileSplit]) -> None:
        with self._reads.small_files():
            self._native.function(self._reads.frame(files, self._columns(files)), self._batch_id)

    def _columns(self, files: Sequence[FileSplit]) -> StructType | str:
        """The given schema, or the recorded one."""
        if self._native.schema is not None:
            return self._native.schema
        location, own = self._source.state_location, self._options.own
        if location is None:
            raise SchemaError(
                "native_batches has no schema, and the stream has no stateLocation to record one in",
                remedy='give native_batches a schema="id long, ...", or set the option stateLocation',
            )
        owner = SchemaOwner(enumerator="files", reader=self._native.format, data=self._source.data)
        store = open_store(location, own.with_prefix("storage."))
        storage = SchemaStorage(store, f"{self._source.uid}-native", owner)
        mode = own[SCHEMA_EVOLUTION_MODE] or "addNewColumns"
        return _recorded_columns(storage, mode, lambda known: self._inferred(files, known))

    def _inferred(self, files: Sequence[FileSplit], known: Sequence[pa.Field]) -> pa.Schema:
        """The schema of the files, whose names must be spelled as in ``known``."""
        found = self._reads.inferred(files)
        names = self._reads.differing_case(pa.schema([*known, *found]))
        if names is not None:
            others = f" or one of {len(files) - 1} other files" if len(files) > 1 else ""
            raise CorruptFileError(
                f"{files[0].path}{others} has the field {names[1]}, and there is the field {names[0]}: Spark "
                "would find one of them, and the values of the other would be null",
                remedy="write the names in one way; or give native_batches a schema, whose names are exact",
            )
        return found

    def _bad_files(
        self, files: Sequence[FileSplit], error: Exception
    ) -> list[tuple[FileSplit, SplitReadError]]:
        """The files that made the batch fail; none if its error has another cause."""
        bad = list(changed_files(files, self._options.own))
        if bad or not self._unreadable_files.is_possible or isinstance(error, _NOT_OF_A_FILE):
            return bad
        LOG.warning("batch %d failed, and its files are read one by one to find the cause: %s",
                     self._batch_id, kept_text(error))  # fmt: skip
        said = unquote(str(error))  # Spark writes paths as URIs
        named = [file for file in files if _name_of(file) in said]
        bad = list(self._unreadable(named))
        if not bad:
            others = {file.split_id for file in named}
            bad = list(self._unreadable([file for file in files if file.split_id not in others]))
        return bad

    def _unreadable(self, files: Sequence[FileSplit]) -> Iterator[tuple[FileSplit, SplitReadError]]:
        """The files that fail when they are read alone; found by halving."""
        error = self._error_of(files) if files else None
        if error is None:
            return
        if len(files) == 1:
            yield files[0], self._corrupt(files[0], error)
            return
        half = len(files) // 2
        yield from self._unreadable(files[:half])
        yield from self._unreadable(files[half:])

    def _error_of(self, files: Sequence[FileSplit]) -> Exception | None:
        try:
            with self._reads.small_files():
                self._reads.frame(files, self._columns(files)).write.format("noop").mode("overwrite").save()
        except _NOT_OF_A_FILE:
            raise
        except Exception as error:
            if is_of_a_stop(error):
                raise
            return error
        return None

    def _corrupt(self, file: FileSplit, error: Exception) -> SplitReadError:
        if isinstance(error, SplitReadError):
            return error
        no_access = access_error_of_spark(error, f"Spark cannot read {file.path}", name=_name_of(file))
        if no_access is not None:
            return no_access
        said = kept_text(error)[:_SHOWN_CHARACTERS]
        return CorruptFileError(
            f"{file.path} cannot be read by Spark as {self._native.format}: {said}",
            remedy="write the file again; to continue without it, move it out of the source's path, or set "
            "onSplitError=quarantine or ignoreCorruptFiles on the stream",
        )


_NOT_OF_A_FILE = (AnalysisException, ParseException, SchemaError, OptionError, MemoryError)
"""Errors that are not caused by a file."""


def _recorded_columns(
    storage: SchemaStorage, mode: str, infer: Callable[[Sequence[pa.Field]], pa.Schema]
) -> StructType:
    """The schema for a batch if none is given: every batch has the same columns, unless the mode adds some.

    Args:
        mode: none, addNewColumns or failOnNewColumns.
        infer: gives the schema that Spark infers from the files of the batch, for the recorded columns.

    Raises:
        NewColumnsError: there are new columns, and the mode is failOnNewColumns.
        SchemaError: the inferred schema cannot be recorded.
    """
    recorded = storage.newest()
    if recorded is None or mode != "none":
        inferred = infer([] if recorded is None else list(recorded.schema))
        new = additions(inferred if recorded is None else recorded.schema, inferred)
        if len(new) and mode == "failOnNewColumns":
            columns = columns_text(new)
            raise NewColumnsError(
                f"the files of the batch have columns that the recorded schema does not have: {columns}",
                columns=columns,
                remedy="set schemaEvolutionMode of native_batches to addNewColumns or none, or give a "
                "schema; no row of the batch was delivered",
            )
        if recorded is None or len(new):
            recorded = storage.add(inferred)
    return from_arrow_schema(recorded.schema, prefer_timestamp_ntz=True)


def _name_of(file: FileSplit) -> str:
    """The name of a file in errors of Spark, without percent escapes of its own."""
    return with_percents(local_path(file.path) or file.path.partition("://")[2])


def _source_of(rows: DataFrame) -> SourceOfSplits:
    """The source that the comment of the column ``path`` describes."""
    field = next((field for field in rows.schema.fields if field.name == PATH_COLUMN), None)
    comment = (field.metadata or {}).get("comment", "") if field is not None else ""
    source = source_in(comment)
    if source is None:
        raise SchemaError(
            f"the column {PATH_COLUMN} does not describe its source: native_batches takes the rows of "
            "reader=splits",
            remedy='load the stream with .option("reader", "splits") and without .schema(...), and keep the '
            f"column {PATH_COLUMN} as it is",
        )
    return source
