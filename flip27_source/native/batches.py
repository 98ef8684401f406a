"""``native_batches``: a foreachBatch function that reads the files of a batch with Spark's own reader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import OptionError, SchemaError, SplitReadError, kept_text
from flip27_source.file_systems.paths import local_path, with_percents
from flip27_source.readers.files.base_paths import BasePaths
from flip27_source.readers.files.errors import CorruptFileError
from flip27_source.readers.files.unchanged import changed_files
from flip27_source.schemas.recorded_schemas import SchemaOwner, SchemaStorage
from flip27_source.snapshots.store import open_store
from flip27_source.source_options import SCHEMA_EVOLUTION_MODE
from flip27_source.splits_column import PATH_COLUMN, SourceOfSplits, source_in

from .left_out import LeftOutFiles
from .options import PATH_REWRITES, NativeOptions
from .planned_files import PlannedFiles
from .planned_tasks import files_without_tasks
from .schemas import recorded_columns
from .spark_reads import SparkReads

_log = logging.getLogger("flip27_source")

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
        **options: options of Spark's reader, and flip27's: ``pathRewrites``, ``schemaEvolutionMode`` and
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


class _NativeBatches:
    """The function for ``foreachBatch``; it holds only values, because Spark Connect pickles it."""

    def __init__(
        self,
        function: Callable[[DataFrame, int], Any],
        format_name: str,
        schema: StructType | str | None,
        options: dict[str, Any],
    ) -> None:
        self._function = function
        self._format = format_name
        self._schema = schema
        self._raw_options = options

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        source = _source_of(rows)
        options = NativeOptions.parse(self._raw_options)
        planned = _planned_files(rows, options)
        if planned.files:
            reads = SparkReads(
                rows.sparkSession,
                self._format,
                options.spark,
                rewrites=options.own[PATH_REWRITES],
                bases=_base_paths_of(source),
            )
            left_out = LeftOutFiles(source, planned.checkpoint_name, options.own)
            _Batch(self, source, options, reads, left_out, batch_id).deliver(planned.files)

    def columns(
        self, reads: SparkReads, files: Sequence[FileSplit], source: SourceOfSplits, options: NativeOptions
    ) -> StructType | str:
        """The schema for a batch."""
        if self._schema is not None:
            return self._schema
        if source.state_location is None:
            raise SchemaError(
                "native_batches has no schema, and the stream has no stateLocation to record one in",
                remedy='give native_batches a schema="id long, ...", or set the option stateLocation',
            )
        store = open_store(source.state_location, options.own.with_prefix("storage."))
        owner = SchemaOwner(enumerator="files", reader=self._format, data=source.data)
        storage = SchemaStorage(store, f"{source.uid}-native", owner)
        mode = options.own[SCHEMA_EVOLUTION_MODE] or "addNewColumns"
        return recorded_columns(storage, mode, lambda: reads.inferred(files))

    def call(self, frame: DataFrame, batch_id: int) -> None:
        """Call the user's function."""
        self._function(frame, batch_id)

    @property
    def format_name(self) -> str:
        """The format, for messages."""
        return self._format


class _Batch:
    """One batch: delivers its files, without those that cannot be read."""

    def __init__(
        self,
        native: _NativeBatches,
        source: SourceOfSplits,
        options: NativeOptions,
        reads: SparkReads,
        left_out: LeftOutFiles,
        batch_id: int,
    ) -> None:
        self._native = native
        self._source = source
        self._options = options
        self._reads = reads
        self._left_out = left_out
        self._batch_id = batch_id

    def deliver(self, planned: Sequence[FileSplit]) -> None:
        files = self._left_out.remaining(planned)
        while files:
            try:
                self._read(files)
                break
            except Exception as error:
                bad = self._bad_files(files, error)
                if not bad:
                    raise
                try:
                    self._left_out.leave_out(bad)
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
        schema = self._native.columns(self._reads, files, self._source, self._options)
        with self._reads.small_files():
            self._native.call(self._reads.frame(files, schema), self._batch_id)

    def _bad_files(
        self, files: Sequence[FileSplit], error: Exception
    ) -> list[tuple[FileSplit, SplitReadError]]:
        """The files that made the batch fail; none if its error has another cause."""
        bad = list(changed_files(files, self._options.own))
        if bad or not self._left_out.is_possible or isinstance(error, _NOT_OF_A_FILE):
            return bad
        _log.warning("batch %d failed, and its files are read one by one to find the cause: %s",
                     self._batch_id, kept_text(error))  # fmt: skip
        named = _files_named_in(str(error), files)
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
            schema = self._native.columns(self._reads, files, self._source, self._options)
            with self._reads.small_files():
                self._reads.frame(files, schema).write.format("noop").mode("overwrite").save()
        except _NOT_OF_A_FILE:
            raise
        except Exception as error:  # noqa: BLE001 - each format raises its own errors
            return error
        return None

    def _corrupt(self, file: FileSplit, error: Exception) -> SplitReadError:
        if isinstance(error, SplitReadError):
            return error
        said = kept_text(error)[:_SHOWN_CHARACTERS]
        return CorruptFileError(
            f"{file.path} cannot be read by Spark as {self._native.format_name}: {said}",
            remedy="write the file again; to continue without it, move it out of the source's path, or set "
            "onSplitError=quarantine or ignoreCorruptFiles on the stream",
        )


_NOT_OF_A_FILE = (AnalysisException, ParseException, SchemaError, OptionError, MemoryError)
"""Errors that are not caused by a file."""


def _files_named_in(text: str, files: Sequence[FileSplit]) -> list[FileSplit]:
    """The files whose paths are in an error of Spark, which writes paths as URIs."""
    decoded = unquote(text)
    return [
        file
        for file in files
        if with_percents(local_path(file.path) or _without_scheme(file.path)) in decoded
    ]


def _without_scheme(path: str) -> str:
    return path.partition("://")[2]


def _planned_files(rows: DataFrame, options: NativeOptions) -> PlannedFiles:
    files = files_without_tasks(rows, options.own)
    return PlannedFiles.of(rows.toArrow()) if files is None else PlannedFiles.whole(files, None)


def _base_paths_of(source: SourceOfSplits) -> BasePaths | None:
    return None if source.base_depth is None else BasePaths(depth=source.base_depth, names=source.base_names)


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
