"""The splits reader: one row for each file or range of a file, without its content.

The rows are an exactly-once feed of new files, for programs that read the files themselves and for
``flip27_source.native``. Each file is checked when its row is returned: it must be as it was discovered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.file_systems.paths import canonical_path, names_a_user
from flip27_source.options import NextBatchOption, Option, Options, boolean
from flip27_source.reader import ReadsRanges, ReadsTogether, SplitReader
from flip27_source.readers.files.base_paths import BASE_PATH, BasePaths
from flip27_source.readers.files.file_columns import partition_values
from flip27_source.readers.files.input import IGNORE_CORRUPT_FILES, IGNORED_BY, is_compressed
from flip27_source.readers.files.reader import check_bucket, check_columns
from flip27_source.readers.files.unchanged import changed_files
from flip27_source.schemas.column_comments import PATH_COLUMN, SourceOfSplits, commented, splits_comment
from flip27_source.schemas.recorded_schemas import data_of
from flip27_source.source_options import (
    MAX_QUARANTINED_SPLITS,
    ON_DATA_LOSS,
    ON_SPLIT_ERROR,
    STATE_LOCATION,
    UID,
)
from flip27_source.values.times import datetime_or_none

FILE_RANGES = NextBatchOption(
    name="fileRanges",
    parse=boolean,
    doc="Return a row for each range of at most maxPartitionBytes of a file that is not compressed, instead "
    "of one for the whole file. native_batches needs whole files.",
)

_SCHEMA = pa.schema(
    [
        pa.field(PATH_COLUMN, pa.string()),
        pa.field("start", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("fileLength", pa.int64()),
        pa.field("modificationTime", pa.timestamp("us", tz="UTC")),
        pa.field("etag", pa.string()),
        pa.field("partitionValues", pa.map_(pa.string(), pa.string())),
        pa.field("splitId", pa.string()),
        pa.field("checkpointId", pa.int64()),
        pa.field("checkpoint", pa.string()),
    ]
)
_BATCH_ROWS = 1 << 16


class SplitsReader(SplitReader[FileSplit], ReadsTogether[FileSplit], ReadsRanges):
    """Returns each split as one row."""

    options: ClassVar[tuple[Option[Any], ...]] = (FILE_RANGES, BASE_PATH, IGNORE_CORRUPT_FILES)
    ignored_by: ClassVar[tuple[str, ...]] = IGNORED_BY
    reads_later: ClassVar[bool] = True

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """All columns; the comment of ``path`` describes the source for ``native_batches``."""
        return _SCHEMA.set(0, commented(_SCHEMA.field(0), splits_comment(_source(options))))

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        """With ``fileRanges``: every file that is not compressed."""
        return options[FILE_RANGES] and not is_compressed(path)

    def read(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        return self.read_together([split])

    def read_together(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        """Yield one row for each split, in order."""
        check_columns("splits", self.context.schema, _SCHEMA)
        for split in splits:
            if split.bucket:
                check_bucket(split, type(self))
        for at in range(0, len(splits), _BATCH_ROWS):
            group = splits[at : at + _BATCH_ROWS]
            for _, error in changed_files(group, self.context.options):
                raise error
            yield self._batch(group)

    def _batch(self, splits: Sequence[FileSplit]) -> pa.RecordBatch:
        context = self.context
        count = len(splits)
        bases = BasePaths.of(context.options)
        columns: dict[str, Any] = {
            PATH_COLUMN: [split.path for split in splits],
            "start": [split.start for split in splits],
            "length": [split.known_end - split.start for split in splits],
            "fileLength": [split.length for split in splits],
            "modificationTime": [datetime_or_none(0, split.modified_us) for split in splits],
            "etag": [split.etag for split in splits],
            "partitionValues": [list(partition_values(split.path, bases).items()) for split in splits],
            "splitId": [split.split_id for split in splits],
            "checkpointId": [context.checkpoint_id] * count,
            "checkpoint": [context.checkpoint_name] * count,
        }
        schema = context.schema
        arrays = [pa.array(columns[field.name], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _source(options: Options) -> SourceOfSplits:
    location = options.get(STATE_LOCATION.name)
    bases = BasePaths.of(options)
    return SourceOfSplits(
        base_depth=None if bases is None else bases.depth,
        base_names=() if bases is None else bases.names,
        on_error=options.get(ON_SPLIT_ERROR.name, ON_SPLIT_ERROR.default),
        ignored_by=tuple(name for name in IGNORED_BY if options.get(name, False)),
        reports_loss=options.get(ON_DATA_LOSS.name, ON_DATA_LOSS.default) == "report",
        max_quarantined=options.get(MAX_QUARANTINED_SPLITS.name, MAX_QUARANTINED_SPLITS.default),
        state_location=None if location is None or names_a_user(location) else canonical_path(location),
        uid=options.get(UID.name) or "files",
        data=data_of(options),
    )
