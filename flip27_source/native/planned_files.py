"""The files of a batch, from the rows of ``reader=splits``, and their groups by base path. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import ContractError, SchemaError
from flip27_source.file_systems.file_ids import FileSplitId
from flip27_source.readers.files.base_paths import BasePaths, parts_of_listed
from flip27_source.schemas.column_comments import PATH_COLUMN
from flip27_source.snapshots import file_names
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.snapshots.planned_subtask import PlannedSubtask

COLUMNS = (PATH_COLUMN, "start", "length", "fileLength", "modificationTime", "etag", "splitId", "checkpoint")
"""The columns that are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFiles:
    """The whole files of one batch.

    Attributes:
        files: in the order of the rows.
        checkpoint_name: lineage and document of the checkpoint; None if its tasks do not report.
        planned: a task of the batch, as the coordinator has planned it; None if only the rows are known.
    """

    files: tuple[FileSplit, ...]
    checkpoint_name: str | None
    planned: PlannedSubtask | None = None

    @property
    def document(self) -> tuple[str, CheckpointName] | None:
        """Lineage and document of the checkpoint, if they are known."""
        if self.planned is not None:
            return self.planned.document
        lineage, _, text = (self.checkpoint_name or "").partition("/")
        name = CheckpointName.parse(text)
        return None if name is None else (file_names.checked_lineage_name(lineage), name)

    @classmethod
    def of(cls, rows: pa.Table) -> PlannedFiles:
        """The files in the rows of a batch.

        Raises:
            SchemaError: a column is missing.
            ContractError: a row is a range of a file, or a file occurs twice.
        """
        missing = [name for name in COLUMNS if name not in rows.column_names]
        if missing:
            raise SchemaError(
                f"the rows have no column {missing[0]}: native_batches takes the rows of reader=splits",
                remedy='load the stream with .option("reader", "splits") and keep its columns '
                + ", ".join(COLUMNS),
            )
        listed = rows.select([name for name in COLUMNS if name != "modificationTime"]).to_pylist()
        times = pc.cast(rows.column("modificationTime"), pa.timestamp("us", "UTC"))
        files = tuple(
            FileSplit(
                path=row[PATH_COLUMN],
                length=row["fileLength"],
                modified_us=time,
                start=row["start"],
                end=None if row["length"] == row["fileLength"] else row["start"] + row["length"],
                # Reports name a split by its id, which has a version with allowOverwrites.
                version=FileSplitId.parse(row["splitId"]).version,
                etag=row["etag"],
            )
            for row, time in zip(listed, pc.cast(times, pa.int64()).to_pylist(), strict=True)
        )
        names = sorted({row["checkpoint"] for row in listed} - {None})
        return cls.whole(files, names[0] if len(names) == 1 else None)

    @classmethod
    def whole(
        cls,
        splits: Sequence[FileSplit],
        checkpoint_name: str | None = None,
        planned: PlannedSubtask | None = None,
    ) -> PlannedFiles:
        """The files of splits, each of which must be a whole file.

        Raises:
            ContractError: a split is a range of a file, or a file occurs twice.
        """
        for split in splits:
            if not split.is_whole:
                raise ContractError(
                    f"a row is bytes {split.start} to {split.end} of {split.path}, which has "
                    f"{split.length}: Spark's readers read whole files, and cut large ones into ranges "
                    "themselves",
                    remedy="remove the option fileRanges from the stream",
                )
        if len({split.path for split in splits}) < len(splits):
            raise ContractError(
                "a file is in the batch twice, so its rows would be delivered twice",
                remedy="pass the rows of reader=splits on unchanged: no union, join or explode; if they "
                "are versions of an overwritten file, write it once more and restart the query with "
                "onSplitError=quarantine, which sets them aside and reads the newest version",
            )
        return cls(files=tuple(splits), checkpoint_name=checkpoint_name, planned=planned)


def by_partition_columns(
    files: Sequence[FileSplit], bases: BasePaths | None
) -> Mapping[tuple[str | None, tuple[str, ...]], Sequence[FileSplit]]:
    """The files by the directory above their partition columns, and by the names of these columns.

    Spark reads files together only if both are equal. None and no names are for files without such columns.

    Args:
        bases: the directories above the partition columns; None if there are no such columns.
    """
    groups: dict[tuple[str | None, tuple[str, ...]], list[FileSplit]] = {}
    for file in files:
        groups.setdefault(_partitioning(file.path, bases), []).append(file)
    return groups


def _partitioning(path: str, bases: BasePaths | None) -> tuple[str | None, tuple[str, ...]]:
    folder, _, _ = path.rpartition("/")
    pairs = bases.partitions_of(folder) if bases is not None and "=" in folder else []
    if bases is None or not pairs:
        return None, ()
    parts = parts_of_listed(path)
    base = path.rsplit("/", len(parts) - bases.depth_of(parts[:-1]))[0] or "/"
    return base, tuple(name for name, _ in pairs)
