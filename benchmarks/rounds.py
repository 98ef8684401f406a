"""What one round is asked to do and what it tells: the values that travel between the processes."""

from __future__ import annotations

import msgspec


class RoundSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One query over one dataset.

    Attributes:
        options: what both sides are told besides the schema.
        files_per_trigger: for ``maxFilesPerTrigger``.
        batches: stop after so many batches, triggered as fast as possible; None to read
            everything with Trigger.AvailableNow.
        template: a checkpoint to go on from; the query works on a copy of it.
        keep: where the checkpoint is put at the end.
        is_parsed: flip27 reads lines, and ``flip27_source.parsed`` parses them.
        native_files: flip27 plans so many files, and Spark reads them (``native_batches``); 0 for its own
            reader.
        expected_rows: rows of these files; a warm-up with ``is_counted`` counts them.
        is_counted: count the rows of native reads, which takes time.
        select, where: the columns and the filter of the query; all if empty.
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
    """Peak resident memory (VmHWM) of each kind of process, in MB; None where it was not seen."""

    jvm: int | None = None
    coordinator: int | None = None
    worker: int | None = None


class CpuSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Processor time of each kind of process: less at the mercy of what else runs than the clock is."""

    jvm: float | None = None
    coordinator: float | None = None
    worker: float | None = None

    @property
    def total(self) -> float | None:
        """All of them; None where it is unknown."""
        known = [part for part in (self.jvm, self.coordinator, self.worker) if part is not None]
        return sum(known) if known else None


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What one query did.

    Attributes:
        load_ms: to make the DataFrame, ``load()`` included.
        start_ms: from ``start()`` to the begin of the first batch; 0 without one.
        seconds: from ``start()`` to the end of the query.
        batch_ms: ``triggerExecution`` of each batch with rows.
        phases_ms: for each part of ``durationMs`` the median over these batches.
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
    """What it measured.

    Attributes:
        latest_offset_ms: for each round.
        bytes_per_new_file: for each round, everything that was written to the state location.
        offset_bytes: the largest offset, as JSON.
        known_files: how many were known at the begin.
        restored_ms: from a restart until the state of all known files is there and their listing begins.
        restore_ms: the whole first call after a restart, their listing included.
        savepoint_ms: to take a savepoint. fork_ms: to begin a new query with it.
        savepoint_bytes: all of its files. spark_log_bytes: what Spark's own source keeps of the same files.
        coordinator_mb: peak resident memory, at the restart. resident_mb: after the rounds.
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
