"""``native_batches``: a foreachBatch function that reads the files of a batch with Spark's own reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from flip27_source.access_errors import access_error_of_spark, is_of_a_stop, is_of_reading, without_frames
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import AccessError, Flip27Error, OptionError, SchemaError, SplitReadError, kept_text
from flip27_source.file_systems.paths import local_path, with_percents
from flip27_source.file_systems.secrets_in_texts import Hidden
from flip27_source.log import LOG
from flip27_source.readers.files.base_paths import BasePaths
from flip27_source.readers.files.input import CorruptFileError
from flip27_source.readers.files.unchanged import changed_files
from flip27_source.schemas.column_comments import PATH_COLUMN, SourceOfSplits, source_in
from flip27_source.schemas.recorded_schemas import SchemaOwner, SchemaStorage
from flip27_source.snapshots.store import open_store
from flip27_source.snapshots.task_failures import at_batch, keep_error
from flip27_source.source_options import SCHEMA_EVOLUTION_MODE

from .batch_columns import BatchColumns
from .csv_headers import CsvHeaders
from .options import HADOOP_PREFIXES, NativeOptions, kind_of
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
        planned = files_without_tasks(rows, options.own) or PlannedFiles.of(rows.toArrow())
        if planned.files:
            _Batch(self, source, options, rows.sparkSession, planned, batch_id).deliver()


class _Batch:
    """One batch: delivers its files, without those that cannot be read."""

    def __init__(
        self,
        native: _NativeBatches,
        source: SourceOfSplits,
        options: NativeOptions,
        spark: SparkSession,
        planned: PlannedFiles,
        batch_id: int,
    ) -> None:
        self._native = native
        self._planned = planned
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
        self._columns = self._batch_columns() if native.schema is None else None
        self._hide = Hidden(native.options).in_text
        self._unreadable_files = UnreadableFiles(source, planned.checkpoint_name, options.own)
        self._batch_id = batch_id

    def deliver(self) -> None:
        """Deliver the files; an error that ends the query is stored, if the state can be written."""
        try:
            self._deliver()
        except Exception as error:
            document, location = self._planned.document, self._source.state_location
            if not (document is None or location is None or is_of_a_stop(error)):
                planned, given = self._planned.planned, self._native.options
                at_batch(
                    lambda: open_store(location, self._options.own.with_prefix("storage.")),
                    document,
                    given,
                    partial(
                        keep_error,
                        error=self._with_its_file(error),
                        secrets=given,
                        epoch=None if planned is None else planned.epoch,
                    ),
                )
            raise

    def _with_its_file(self, error: Exception) -> Exception:
        """The error of the file that Spark has failed to read; the error itself if it names none."""
        is_told = isinstance(error, Flip27Error) or _FAILED_FILE not in str(error)
        said = "" if is_told else unquote(str(error))  # Spark writes paths as URIs
        named = [file for file in self._planned.files if _name_of(file) in said]
        longest = max(named, key=lambda file: len(file.path), default=None)
        return error if longest is None else self._corrupt(longest, error)

    def _deliver(self) -> None:
        files = self._unreadable_files.remaining(self._planned.files)
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
            columns = self._columns.recorded(files) if self._columns else self._native.schema
            frame = self._frame(files, columns)
            if frame is not None:
                self._native.function(frame, self._batch_id)

    def _frame(self, files: Sequence[FileSplit], columns: StructType | str | None) -> DataFrame | None:
        """The rows of the files; None if there are neither columns nor rows."""
        if columns is not None:
            return self._reads.frame(files, columns)
        files = [file for file in files if file.length]
        frame = self._reads.frame(files, None) if files else None
        return None if frame is None or frame.isEmpty() else frame

    def _batch_columns(self) -> BatchColumns:
        location, own = self._source.state_location, self._options.own
        if location is None:
            raise SchemaError(
                "native_batches has no schema, and the stream has no stateLocation to record one in",
                remedy='give native_batches a schema="id long, ...", or set the option stateLocation',
            )
        owner = SchemaOwner(enumerator="files", reader=kind_of(self._native.format), data=self._source.data)
        store = open_store(location, own.with_prefix("storage."))
        storage = SchemaStorage(store, f"{self._source.uid}-native", owner)
        return BatchColumns(self._reads, storage, own[SCHEMA_EVOLUTION_MODE] or "addNewColumns", own)

    def _bad_files(
        self, files: Sequence[FileSplit], error: Exception
    ) -> list[tuple[FileSplit, SplitReadError]]:
        """The files that made the batch fail; none if its error has another cause."""
        bad = list(changed_files(files, self._options.own))
        if bad or not self._unreadable_files.is_possible or self._is_of_no_file(error):
            return bad
        LOG.warning("batch %d failed, and its files are read one by one to find the cause: %s",
                     self._batch_id, kept_text(error, self._hide))  # fmt: skip
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
                columns = self._columns.tried(files) if self._columns else self._native.schema
                frame = self._frame(files, columns)
                if frame is not None:
                    frame.write.format("noop").mode("overwrite").save()
        except Exception as error:
            if is_of_a_stop(error) or not (self._may_be_of_a_file(error) or self._no_access(files[0], error)):
                raise
            return error
        if self._columns:
            self._columns.keep_tried()
        return None

    def _is_of_no_file(self, error: Exception) -> bool:
        is_analysis = isinstance(error, AnalysisException) and not self._may_be_of_a_file(error)
        return is_analysis or isinstance(error, _NOT_OF_A_FILE)

    def _may_be_of_a_file(self, error: Exception) -> bool:
        """Whether an error of flip27 or of Spark's readers may be caused by the content of a file."""
        if isinstance(error, AnalysisException):
            return self._columns is not None and error.getCondition() in _OF_INFERRED_COLUMNS
        return isinstance(error, SplitReadError) or is_of_reading(error)

    def _no_access(self, file: FileSplit, error: Exception) -> AccessError | None:
        return access_error_of_spark(
            error, f"Spark cannot read {file.path}", name=_name_of(file), hide=self._shown
        )

    def _shown(self, text: str) -> str:
        """The text of an error of Spark, without secrets; before it is cut, as a part of one is not found."""
        return self._hide(without_frames(text))

    def _corrupt(self, file: FileSplit, error: Exception) -> SplitReadError:
        if isinstance(error, SplitReadError):
            return error
        no_access = self._no_access(file, error)
        if no_access is not None:
            return no_access
        said = kept_text(error, self._shown)[:_SHOWN_CHARACTERS]
        return CorruptFileError(
            f"{file.path} cannot be read by Spark as {self._native.format}: {said}",
            remedy="check the file; restart the query with onSplitError=quarantine or ignoreCorruptFiles to "
            "continue without it",
        )


_FAILED_FILE = "[FAILED_READ_FILE"
_NOT_OF_A_FILE = (ParseException, SchemaError, OptionError, MemoryError)
"""Errors that are not caused by a file."""
_OF_INFERRED_COLUMNS = {
    "COLUMN_ALREADY_EXISTS", "UNABLE_TO_INFER_SCHEMA",
    "PARQUET_TYPE_ILLEGAL", "PARQUET_TYPE_NOT_RECOGNIZED", "PARQUET_TYPE_NOT_SUPPORTED",
}  # fmt: skip
"""Conditions of an AnalysisException that a file causes if its columns are inferred."""


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
