"""The files source in a simulation: its files, edits, cleaning and savepoints, and what must come of them."""

from __future__ import annotations

import gzip
import os
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from flip27_source.coordination.checkpoints import Snapshot
from flip27_source.coordination.edit_values import EditOperation
from flip27_source.errors import Flip27Error
from flip27_source.file_systems.file_ids import FileSplitId
from flip27_source.savepoints.format import read_savepoint
from flip27_source.snapshots import file_names
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.segment_files import unpack_segment
from flip27_source.testing.steps import Killed
from flip27_source.testing.under_test import SourceUnderTest
from tests.timed_lines import TIMED

from .landing import NAMES, OUT_OF_REACH, Landing, LocalLanding, SimulatedLanding, register_file_system
from .lives import SAVEPOINTS, STATE, DefectFound, Life, document_at
from .ordering import Bucketing, Ordering, check_order
from .query import Query
from .sources import LINE


def _folder_for(seed: int) -> Path:
    """A new folder; the same for a seed unless another process plays it, because the log contains paths."""
    shared = Path("/dev/shm")
    base = shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
    folder = base / f"flip27-simulated-{seed}"
    try:
        folder.mkdir()
    except FileExistsError:
        return Path(tempfile.mkdtemp(prefix="flip27-simulated-", dir=base))
    return folder


_OF_CLEANING = frozenset({"sourceArchiveDir", "cleanSource.retentionDuration"})


class FilesLife(Life):
    """The files source: files with any names arrive, some broken; with cleaning, replays and savepoints."""

    OPTIONS: ClassVar = {
        "maxFilesPerTrigger": (None, "1", "3"), "taskReports": (None, "always"),
        "onSplitError": (None, "quarantine"), "onDataLoss": (None, "report"),
        "maxSplitAttempts": (None, "1"), "discoveryRetries": ("0", "3"), "parallelism": (None, "1", "3"),
        "onMissingReport": (None, "repeat"), "ignoreMissingFiles": (None, None, "true"),
        "maxQuarantinedSplits": (None, None, "1"), "latestFirst": (None, "true"),
    }  # fmt: skip
    RARELY_CHANGED: ClassVar = {
        "cleanSource": (None, None, "delete", "archive"),
        "retainedCheckpoints": (None, None, None, "2", "5"),
        "allowOverwrites": (None, None, None, "true"),
    }
    NAME = "landing"

    def begin(self) -> None:
        draw, of = self.random, self.of
        first = self.drawn(self.RARELY_CHANGED)
        # The documents show what was read again, so all of them must be retained.
        self.edits: EditOperation | None = None
        if not first.keys() - {"cleanSource"}:
            self.edits = draw.choice((None, EditOperation.REPLAY, EditOperation.REPLAY, EditOperation.REWIND))
        if draw.random() < 0.5 and not (self.edits and first):
            of.folder = of.folder or _folder_for(of.outcome.seed)
            self.landing: Landing = LocalLanding(of.folder / self.NAME)
        else:
            register_file_system()
            self.landing = SimulatedLanding(of.outcome.seed, self.NAME, lambda: of.outcome.steps)
            self.landing.trouble = draw.choice((0.0, 0.02, 0.1))
        self.trouble_bucket()
        if of.bucket is not None:
            of.bucket.stale_lists = draw.choice((0.0, 0.1))
        self.options = {
            "path": self.landing.path,
            "enumerator": "files",
            "reader": "text",
            "requestInterval": "1s",
        }
        self.options |= {**first, **self.drawn(self.OPTIONS)}
        # Drawn from a separate generator, so that the other random decisions of a seed do not change.
        self.retention_ms = random.Random(of.outcome.seed).choice((0, 30_000, 3_600_000))
        self._add_options_of_cleaning()
        self.ordering = Ordering(of.outcome.seed, self.NAME)
        self.bucketing = Bucketing(of.outcome.seed, self.NAME, self.ordering)
        self.options = self.bucketing.redraw(self.ordering.redraw(self.options))
        self.schema = TIMED if self.bucketing.is_used else LINE
        self.is_always_cleaned = "cleanSource" in self.options
        self.arrived_ms: dict[str, int] = {}
        self.arrived: dict[str, list[str]] = {}
        self.broken: set[str] = set()
        self.asked: set[str] = set()
        self.has_sent = False
        self.breaks = draw.random() < 0.5

    def _add_options_of_cleaning(self) -> None:
        self.options = {name: value for name, value in self.options.items() if name not in _OF_CLEANING}
        if self.options.get("cleanSource") == "archive":
            self.options["sourceArchiveDir"] = self.landing.archive
        if "cleanSource" in self.options and self.retention_ms:
            self.options["cleanSource.retentionDuration"] = f"{self.retention_ms} ms"

    def redraw(self) -> None:
        # The checks of edits need all documents, and the times at which files were cleaned.
        if self.edits is None and self.random.random() < 0.2:
            self.options = {k: v for k, v in self.options.items() if k not in self.RARELY_CHANGED}
            self.options |= self.drawn(self.RARELY_CHANGED)
            self.is_always_cleaned = False
            self._add_options_of_cleaning()
        super().redraw()
        self.options = self.bucketing.redraw(self.ordering.redraw(self.options))

    def given(self) -> SourceUnderTest:
        return SourceUnderTest(options=self.options, schema=self.schema)

    def can_be_rolled_back(self) -> bool:
        is_kept = self.arrived.keys() <= self.landing.names()
        return is_kept and self.edits is None and not self.options.keys() & self.RARELY_CHANGED.keys()

    def arrive(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            number = len(self.arrived)
            name = self.ordering.dated(f"{number}{self.random.choice(NAMES)}")
            rows = [f"{number}-{line}" for line in range(self.random.choice((0, 1, 3)))]
            name, content = self.bucketing.timed(name, rows)
            if self.random.random() < 0.1:
                name, content = f"{name}.gz", gzip.compress(content, mtime=0)
                if self.breaks and self.random.random() < 0.5:
                    content, rows = content[:-9], []
                    self.broken.add(name)
            self.of.tell(f"{name!r} arrives with {len(rows)} rows")
            self.landing.put(name, content, 1_600_000_000 + number)
            self.arrived[name] = rows
            self.arrived_ms[name] = self.of.steady_ms
        self._check_that_files_stay()

    def ask(self) -> None:
        if self.edits is None or self.random.random() < 0.3:
            self.ask_for_a_savepoint()
        else:
            self._ask_for_an_edit()

    def _ask_for_an_edit(self) -> None:
        """Replays at any time; at most one rewind: the effect of a second one would depend on the first."""
        query, folder = self.of.query, self.requests()
        offsets = query.offsets
        if folder is None or not offsets or (self.edits is EditOperation.REWIND and self.has_sent):
            return
        offset = self.random.choice(offsets)
        plans: dict[str, tuple[str, ...]] = {}
        if self.edits is EditOperation.REPLAY:
            ids = self._splits_of(offset)
            if not ids:
                return
            plans[str(offset.name)] = tuple(self.random.sample(ids, self.random.randint(1, len(ids))))
        assert self.edits is not None
        checkpoint = None if plans else str(offset.name)
        request = self.edit(folder, self.edits, plans=plans, checkpoint=checkpoint)
        self.of.tell(f"{self.edits} {request.request_id} is requested: {plans or offset.name}")
        self.has_sent = True  # a request whose answer is lost may have arrived
        try:
            folder.submit(request)
        except (Flip27Error, Killed) as error:
            self.of.tell(f"refused: {error}")
        else:
            self.asked.add(request.request_id)

    def check_document(self, before: Snapshot[Any] | None, snapshot: Snapshot[Any]) -> None:
        if before is not None:
            check_order(before, snapshot)

    def _splits_of(self, offset: Offset) -> list[str]:
        """The splits of a batch."""
        with self.of.looking():
            store = self.of.store(STATE, self.of.new_process("an operator", is_driver=False))
            document = document_at(store, offset)

            def load(name: str) -> bytes:
                return unpack_segment(name, store.read(file_names.segment_file(str(offset.lineage), name)))

            codec = SnapshotCodec(self.of.query.source.enumerator_type)
            plan = document.plan_segments(load)
            return [split.split_id for _, segment in plan for split in codec.decode_splits(1, segment)]

    def _rows_of(self, split_id: str) -> list[str]:
        return self.bucketing.rows_of(FileSplitId.parse(split_id), self.arrived[self._name_of(split_id)])

    def _name_of(self, split_id: str) -> str:
        return FileSplitId.parse(split_id).path.removeprefix(f"{self.landing.path}/")

    def calm(self) -> None:
        if isinstance(self.landing, SimulatedLanding):
            self.landing.trouble = 0.0
        # The remedies of the errors about files that cannot be read, or that are gone.
        self.options.pop("maxQuarantinedSplits", None)
        if self.broken:
            self.options["onSplitError"] = "quarantine"
        if self.edits is not None and "cleanSource" in self.options:
            self.options["onDataLoss"] = "report"

    def check(self) -> None:
        self._retry_what_trouble_quarantined()
        self._check_rows()
        quarantined = (self.of.query.holder.report() or {}).get("quarantinedSplits", 0)
        if quarantined < len(self.broken) and "allowOverwrites" not in self.options:
            raise DefectFound(f"{len(self.broken)} files are broken and {quarantined} are quarantined")
        self._check_that_files_stay()
        if "cleanSource.retentionDuration" in self.options:
            self.of.wait(self.retention_ms)
            self.of.run_to_the_end()
        if self.is_always_cleaned:
            left = self.landing.names() - self.broken
            if left:
                raise DefectFound(f"were read and are not cleaned: {sorted(left)}")
        if self.is_always_cleaned and "sourceArchiveDir" in self.options:
            archived = self.landing.archived()
            if archived != self.arrived.keys() - self.broken:
                wanted = self.arrived.keys() - self.broken
                raise DefectFound(f"the archive has {sorted(archived)} instead of {sorted(wanted)}")
        if overwritten := self.landing.overwritten():
            raise DefectFound(f"were overwritten in the archive: {sorted(overwritten)}")
        self._check_forks()

    def _check_rows(self) -> None:
        """Every row is there once, and once more for each edit that had its file read again.

        A file that was cleaned before the cycle that applied the edit cannot be read again.
        """
        once = Counter(row for rows in self.arrived.values() for row in rows)
        again, perhaps = self._rows_edited()
        found = Counter(self.of.query.lines)
        missing = {row for row, times in perhaps.items() if found[row] < (once + again + perhaps)[row]}
        gone = Counter({row: (once + again + perhaps)[row] - found[row] for row in missing})
        if any(count > perhaps[row] for row, count in gone.items()):
            gone = Counter()
        self.of.check_rows(once + again + perhaps - gone)

    def _check_that_files_stay(self) -> None:
        """Check that no file is gone before it can have been there for the retention time."""
        if "cleanSource.retentionDuration" not in self.options:
            return
        there = self.landing.names()
        passed_ms = self.of.steady_ms + self.of.set_forward_ms
        for name, arrived_ms in self.arrived_ms.items():
            if name not in there and passed_ms < arrived_ms + self.retention_ms:
                raise DefectFound(f"{name!r} was cleaned before its time")

    def _retry_what_trouble_quarantined(self) -> None:
        """Retry intact files that are quarantined after repeated failures.

        Raises:
            DefectFound: a file is quarantined although it was only out of reach.
        """
        self.of.run_to_the_end()
        items = self.of.quarantined()
        if unreached := [item.split.split_id for item in items if OUT_OF_REACH in item.error]:
            raise DefectFound(f"are quarantined because they were out of reach: {unreached}")
        ids = [item.split.split_id for item in items]
        self.of.retry_quarantined([name for name in ids if self._name_of(name) not in self.broken])

    def _rows_edited(self, upto: int | None = None) -> tuple[Counter[str], Counter[str]]:
        """The rows that edits delivered again, according to the documents on the line up to a checkpoint.

        Returns:
            Those of files that were there when the cycle of the edit began, and those of files that were not.

        Raises:
            DefectFound: an edit was applied twice, or never.
        """
        store = self.of.store(STATE, self.of.new_process("a reader", is_driver=False))
        there: Counter[str] = Counter()
        gone: Counter[str] = Counter()
        applied: Counter[str] = Counter()
        if self.edits is None:
            return there, gone
        for offset in self.of.query.offsets:
            if upto is not None and offset.checkpoint_id > upto:
                break
            for edit in document_at(store, offset).raw.edits:
                if edit.operation is EditOperation.QUARANTINE_RETRY:
                    continue
                applied[edit.request_id] += 1
                file = file_names.checkpoint_file("", offset.name).rpartition("/")[2]
                planned = self.of.planned_from[file]
                for split_id in edit.split_ids:
                    is_gone = self.landing.gone.get(self._name_of(split_id), planned) < planned
                    rows = Counter(self._rows_of(split_id))
                    # A file of an undone batch may have been quarantined in it.
                    rows &= self._delivered(self.of.query, offset.checkpoint_id - 1)
                    (gone if is_gone else there).update(rows)
        if twice := [name for name, count in applied.items() if count > 1]:
            raise DefectFound(f"applied twice: {twice}")
        if upto is None and (never := self.asked - applied.keys()):
            raise DefectFound(f"requested and never answered: {sorted(never)}")
        return there, gone

    def _delivered(self, query: Query, upto: int) -> Counter[str]:
        """The rows of the batches up to a checkpoint."""
        ends = ((Offset.from_json(batch.end).checkpoint_id, batch) for batch in query.sink.batches)
        return Counter(row[0] for end, batch in ends if end <= upto for row in batch.rows)

    def _check_forks(self) -> None:
        """Check that a query from a savepoint reads exactly what the batches after the savepoint read."""
        of = self.of
        # A savepoint may be of a line that the query has left.
        whole = [] if of.outcome.faults["rolled back"] else self.savepoints()
        if not whole or "cleanSource" in self.options or self.arrived.keys() - self.landing.names():
            return
        folder = self.random.choice(whole)
        savepoint = read_savepoint(of.store(SAVEPOINTS, of.new_process("a reader", is_driver=False)), folder)
        upto = savepoint.name.checkpoint_id
        expected = Counter(row for rows in self.arrived.values() for row in rows) + self._rows_edited(upto)[0]
        fork = Query(
            of,
            SourceUnderTest(
                options={**self.options, "savepoint": f"{SAVEPOINTS}/{folder}"}, schema=self.schema
            ),
            "/fork",
        )
        original, of.query = of.query, fork
        try:
            of.run_to_the_end()
            self._retry_what_trouble_quarantined()
        finally:
            of.query = original
        found = self._delivered(original, upto) + Counter(fork.lines)
        if found != expected:
            raise DefectFound(
                f"with savepoint {folder}: lost {expected - found}, duplicated {found - expected}"
            )


class NeighbourLife(FilesLife):
    """The second source of a query."""

    NAME = "landing-2"

    def ask(self) -> None:
        """Nothing: edits and savepoints are those of the other source."""
