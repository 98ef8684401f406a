"""Plays histories of files, without Spark: rows out must equal rows in, whatever happens in between."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import itertools
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import fastavro
import hypothesis
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from pyarrow import feather, orc

from flip27_source.testing import Crashed, MicroBatchEngine

from .file_histories import LINES, ROUND_S, History, NewFile, Round, histories

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
TEXT = pa.schema([pa.field("value", pa.string())])
START_S = 1_700_000_000
WIDE_BYTES = 40 << 10
MOST_BATCHES = 150

Row = tuple[int, str]


def _as_csv(rows: list[Row]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _as_avro(rows: list[Row]) -> bytes:
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    stream = io.BytesIO()
    records = [{"id": number, "name": name} for number, name in rows]
    fastavro.writer(stream, {"type": "record", "name": "row", "fields": fields}, records)
    return stream.getvalue()


def _by_arrow(write: Callable[[pa.Table, pa.BufferOutputStream], object]) -> Callable[[list[Row]], bytes]:
    def written(rows: list[Row]) -> bytes:
        stream = pa.BufferOutputStream()
        write(pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=SCHEMA), stream)
        return bytes(stream.getvalue())

    return written


WRITERS: dict[str, Callable[[list[Row]], bytes]] = {
    "json": lambda rows: "".join(json.dumps({"id": n, "name": t}) + "\n" for n, t in rows).encode(),
    "csv": _as_csv,
    "text": lambda rows: "".join(f"{number} {name}\n" for number, name in rows).encode(),
    "parquet": _by_arrow(pq.write_table),
    "orc": _by_arrow(orc.write_table),
    "avro": _as_avro,
    "arrow": _by_arrow(feather.write_feather),
}
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: bytes(pa.compress(content, "zstd")),
}


class Play:
    """Plays one history in its own folders."""

    def __init__(self, history: History, folder: Path) -> None:
        self.history = history
        self.landing = folder / "landing"
        self.outside = folder / "outside"
        self.archive = folder / "archive"
        self.expected: Counter[int] = Counter()
        self._ids = itertools.count()
        self._ids_in: dict[Path, list[int]] = {}
        self._written: dict[Path, NewFile] = {}
        for path in (self.landing, self.outside):
            path.mkdir()
        self.engine = self._new_engine()

    def run(self) -> None:
        """Play all rounds, then read to the end.

        Raises:
            AssertionError: rows were lost or delivered twice, or a repeated batch had other rows.
        """
        for number, round_ in enumerate(self.history.rounds):
            self._arrive(number, round_)
            self._begin(round_)
            self._batches(round_)
        last = self.history.rounds[-1]
        for available_now in (False, True):
            self.engine.restart(parallelism=last.parallelism, available_now=available_now)
            self._drain(last, None)
        self._check()

    def _check(self) -> None:
        found = Counter(self._id_of(row) for row in self.engine.rows)
        lost, duplicated = self.expected - found, found - self.expected
        assert not lost, f"lost: {lost}"
        assert not duplicated, f"read too often: {duplicated}"
        for before, after in self.engine.sink.overwritten:
            assert Counter(before.rows) == Counter(after.rows), f"batch {before.batch_id} differs"
        if "cleanSource" in self.history.options:
            self._check_cleaned()

    def _check_cleaned(self) -> None:
        left = [path for path in self.landing.rglob("*") if path.is_file()]
        assert not left, f"read but not cleaned: {left}"
        if self.history.options["cleanSource"] == "archive":
            archived = sum(path.is_file() for path in self.archive.rglob("*"))
            assert archived == len(self._written), f"only {archived} archived"

    def _arrive(self, number: int, round_: Round) -> None:
        read = {self._id_of(row) for row in self.engine.rows}
        if self.history.may_be_overwritten:
            known = [path for path, ids in self._ids_in.items() if ids and read.issuperset(ids)]
            for index in dict.fromkeys(index for index in round_.overwritten if index < len(known)):
                self._move_in(known[index], self._written[known[index]], number)
        for index, file in enumerate(round_.files):
            # In orderly histories names grow; in others, later files sort before earlier ones.
            first = number if self.history.orderly else 9 - number
            name = f"{first}-{file.place:02d}-{index}.{self.history.format}{file.compression}"
            self._move_in(self.landing / file.folder / name, file, number)

    def _move_in(self, path: Path, file: NewFile, number: int) -> None:
        ids = list(itertools.islice(self._ids, file.rows))
        padding = "x" * (WIDE_BYTES if file.wide else 3)
        rows = [(identity, f"é {identity % 7} {padding}") for identity in ids]
        outside = self.outside / "file"
        outside.write_bytes(COMPRESSORS[file.compression](WRITERS[self.history.format](rows)))
        moment = START_S + ROUND_S * (number if self.history.orderly else file.age_s % 3) - file.age_s
        if path in self._written:
            moment += (10 + number) * ROUND_S  # an overwritten file differs at least in its modification time
        os.utime(outside, (moment, moment))
        path.parent.mkdir(parents=True, exist_ok=True)
        outside.replace(path)
        self.expected.update(ids)
        self._ids_in[path] = ids
        self._written[path] = file

    def _begin(self, round_: Round) -> None:
        if round_.strategy is None:
            return
        self.engine.restart(
            parallelism=round_.parallelism,
            available_now=round_.bounded,
            options={"seenFiles": round_.strategy},
        )

    def _batches(self, round_: Round) -> None:
        for crash in round_.crashes:
            self.engine.crash_at(crash.step, nth=crash.nth, victim=crash.victim)
        self._drain(round_, round_.batches)
        self.engine.itinerary.crash_points.clear()

    def _drain(self, round_: Round, most: int | None) -> None:
        """Run batches, restarting after crashes, until nothing is new or ``most`` batches have run."""
        done = 0
        for _ in range(MOST_BATCHES):
            try:
                batch = self.engine.run_batch()
            except Crashed:
                self.engine.restart(parallelism=round_.parallelism)
                continue
            if batch is None:
                return
            self._check_limit(batch.rows)
            done += 1
            if done == most:
                return
        raise AssertionError(f"no end after {MOST_BATCHES} batches")

    def _check_limit(self, rows: tuple[tuple[object, ...], ...]) -> None:
        limit = self.history.options.get("maxFilesPerTrigger")
        if limit is None or self.history.format not in LINES:
            return  # only in files of lines does the first row show that a batch began the file
        found = {self._id_of(row) for row in rows}
        begun = sum(bool(ids) and ids[0] in found for ids in self._ids_in.values())
        assert begun <= int(limit), f"{begun} files in a batch of {limit}"

    def _id_of(self, row: tuple[object, ...]) -> int:
        value = row[0]
        return value if isinstance(value, int) else int(str(value).partition(" ")[0])

    def _new_engine(self) -> MicroBatchEngine:
        is_text = self.history.format == "text"
        given = {
            "enumerator": "files", "reader": self.history.format, "path": str(self.landing),
            "seenFiles": "exact", "requestInterval": "0s", **self.history.options,
        }  # fmt: skip
        if given.get("cleanSource") == "archive":
            given["sourceArchiveDir"] = str(self.archive)
        return MicroBatchEngine(given, schema=TEXT if is_text else SCHEMA)


def play(history: History) -> None:
    """Play a history in a new folder; raises AssertionError like :meth:`Play.run`."""
    with tempfile.TemporaryDirectory(prefix="flip27-files-") as folder:
        Play(history, Path(folder)).run()


def play_many(count: int, seed: int) -> None:
    """Play this many random histories; raises with the shortest history that fails."""
    checks = list(HealthCheck)
    how = settings(max_examples=count, deadline=None, database=None, suppress_health_check=checks)
    hypothesis.seed(seed)(how(given(histories())(play)))()
