"""The specification and the result of a round: the values that the processes exchange."""

from __future__ import annotations

import msgspec


class RoundSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A query over a dataset.

    Attributes:
        options: the options of both sides, without the schema.
        files_per_trigger: the value of ``maxFilesPerTrigger``.
        batches: stop after this number of batches, triggered as fast as possible; None to read
            everything with Trigger.AvailableNow.
        template: a checkpoint from which the query continues; it works on a copy.
        keep: where the checkpoint is moved at the end; if None, it is deleted.
        is_parsed: flip27 reads lines, and ``flip27_source.parsed`` parses them.
        native_files: the number of files that flip27 plans and Spark reads (``native_batches``); 0 for
            flip27's own reader.
        expected_rows: the rows of these files, which a warm-up with ``is_counted`` checks.
        is_counted: count the rows of native reads, which takes time.
        select, where: the columns and the filter of the query; if empty, all columns or all rows.
    """

    folder: str
    reader: str
    schema: str
    options: dict[str, str]
    files_per_trigger: int
    batches: int | None = None
    template: str | None = None
    keep: str | None = None
    is_parsed: bool = False
    native_files: int = 0
    expected_rows: int = 0
    is_counted: bool = False
    select: tuple[str, ...] = ()
    where: str = ""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Peak resident memory (VmHWM) of each kind of process, in MB; None if no such process was seen."""

    jvm: int | None = None
    coordinator: int | None = None
    worker: int | None = None


class CpuSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Processor time of each kind of process. Other load affects it less than the elapsed time."""

    jvm: float | None = None
    coordinator: float | None = None
    worker: float | None = None

    @property
    def total(self) -> float | None:
        """The sum of the known values; None if no value is known."""
        known = [part for part in (self.jvm, self.coordinator, self.worker) if part is not None]
        return sum(known) if known else None


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a query.

    Attributes:
        load_ms: the time to create the DataFrame, including ``load()``.
        start_ms: the time from ``start()`` to the beginning of the first batch; 0 if there was none.
        seconds: the time from ``start()`` to the end of the query.
        batch_ms: ``triggerExecution`` of each batch with rows.
        phases_ms: for each part of ``durationMs``, the median over these batches.
    """

    rows: int
    load_ms: float
    start_ms: float
    seconds: float
    batch_ms: list[int]
    phases_ms: dict[str, float]
    memory: Memory
    cpu: CpuSeconds


class KnownFilesSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The case of ``latestOffset`` with many known files; see known_files."""

    known_files: int
    new_files: int
    rounds: int


class KnownFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What the case of many known files measured.

    Attributes:
        latest_offset_ms: the time of the call in each round.
        bytes_per_new_file: the growth of the state location in each round, divided by the new files.
        offset_bytes: the size of the largest offset, as JSON.
        known_files: the number of known files at the beginning.
        restored_ms: the time from a restart until the state of all known files is restored.
        restore_ms: the time of the whole first call after a restart, including the listing.
        savepoint_ms: the time to take a savepoint.
        fork_ms: the time to begin a new query with the savepoint.
        savepoint_bytes: the size of all files of the savepoint.
        spark_log_bytes: the size of the log that Spark's own source keeps of the same files.
        coordinator_mb: the peak resident memory since the restart.
        resident_mb: the resident memory after the rounds.
        listing: where the listing came from.
    """

    latest_offset_ms: list[float]
    bytes_per_new_file: list[float]
    offset_bytes: int
    known_files: int
    restored_ms: float
    restore_ms: float
    savepoint_ms: float
    fork_ms: float
    savepoint_bytes: int
    spark_log_bytes: int
    coordinator_mb: int | None
    resident_mb: int | None
    listing: str
