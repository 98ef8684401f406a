"""The queries that the disasters strike: how each is started, what it reads, and how its rows are counted.

Each has its own folders. Spark's checkpoint and the sink are on a disk that stays sound; flip27's state
location is on the disk with the faults.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import DataStreamWriter

from flip27_source import hybrid
from flip27_source.cli.demo.folder import committed_files

BACKLOG_FILES = 40
FILES_PER_BATCH = 4
BUCKETS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders of a query; ``state`` is on the disk with the faults."""

    root: Path
    state: Path

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def archive(self) -> Path:
        return self.root / "archive"

    @property
    def differing(self) -> Path:
        """Where a sink records that a repeated batch has other rows."""
        return self.root / "differing"

    def landing(self, feed: str) -> Path:
        return self.root / f"landing-{feed}"

    def source_options(self, feed: str) -> dict[str, str]:
        """Where a source of files finds them and keeps its state."""
        return {"path": str(self.landing(feed)), **self.state_options(feed)}

    def state_options(self, name: str) -> dict[str, str]:
        """Where a source keeps its state."""
        return {"stateLocation": str(self.state / name)}

    def batches(self) -> int:
        """How many batches Spark has committed."""
        commits = self.checkpoint / "commits"
        names = os.listdir(commits) if commits.exists() else []
        return 1 + max((int(name) for name in names if name.isdigit()), default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The counted rows of a query. ``complaint`` describes anything else that is wrong."""

    rows: int
    lost: int
    duplicated: int
    complaint: str = ""

    @classmethod
    def of(cls, found: Counter[Any], expected: Iterable[Any], complaint: str = "") -> Count:
        wanted = Counter(expected)
        return cls(
            rows=found.total(),
            lost=(wanted - found).total(),
            duplicated=(found - wanted).total(),
            complaint=complaint,
        )


class Shape(ABC):
    """A query that flip27 has to keep exact."""

    name: ClassVar[str]
    feeds: ClassVar[tuple[str, ...]] = ("a",)
    settings: ClassVar[Mapping[str, str]] = {}
    """Settings of Spark for this query alone."""

    def __init__(self, places: Places, given: Mapping[str, str]) -> None:
        """Create a query in its folders; ``given`` are options of the soak's source, or of a server."""
        self.places = places
        self.given = given
        self.run_options: Mapping[str, Any] = {}
        """Options of the sources for the next run alone."""

    @abstractmethod
    def writer(self, spark: SparkSession) -> DataStreamWriter:
        """The query without its checkpoint location and trigger."""

    @abstractmethod
    def count(self, arrived: int) -> Count:
        """Compare the sink with the numbers below ``arrived``, which each feed has written."""

    def _files(self, spark: SparkSession, feed: str = "a", **options: Any) -> DataFrame:
        given = {
            "enumerator": "files",
            "reader": "text",
            "discoveryInterval": "50ms",
            "maxFilesPerTrigger": FILES_PER_BATCH,
            **self.places.source_options(feed),
            **self.run_options,
        } | options
        loaded = spark.readStream.format("flip27").options(**given).load()
        return loaded.select(f.col("value").cast("long").alias("number"))

    def _to_lake(self, frame: DataFrame) -> DataStreamWriter:
        return frame.writeStream.format("parquet").option("path", str(self.places.lake))

    def _lake_rows(self) -> list[dict[str, Any]]:
        return list(ds.dataset(committed_files(self.places.lake)).to_table().to_pylist())


class Files(Shape):
    """Files to Parquet."""

    name = "files"

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        return self._to_lake(self._files(spark))

    def count(self, arrived: int) -> Count:
        return Count.of(Counter(row["number"] for row in self._lake_rows()), range(arrived))


class Archived(Shape):
    """Spark retains two batches and flip27 two checkpoints; tasks report; files are archived once read."""

    name = "archived"
    # With two batches retained, Spark's file sink deletes compact files of its own log after ten minutes, and
    # a restart then derives another interval between them: BATCH_METADATA_NOT_FOUND, for ever.
    settings: ClassVar[Mapping[str, str]] = {
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.fileSink.log.deletion": "false",
    }

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        options = {
            "retainedCheckpoints": "2",
            "taskReports": "always",
            "cleanSource": "archive",
            "sourceArchiveDir": str(self.places.archive),
        }
        return self._to_lake(self._files(spark, **options))

    def count(self, arrived: int) -> Count:
        found = Counter(row["number"] for row in self._lake_rows())
        kept: Counter[int] = Counter()
        for folder in (self.places.archive, self.places.landing("a")):
            for path in folder.rglob("*.txt"):
                kept.update(int(line) for line in path.read_text().split())
        missing = Counter(range(arrived)) - kept
        return Count.of(found, range(arrived), f"{len(missing)} rows of files are gone" if missing else "")


class SelfUnion(Shape):
    """One stream used twice: Spark requests the plan of each batch twice and runs each task twice."""

    name = "self-union"

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        stream = self._files(spark)
        left, right = (stream.withColumn("side", f.lit(side)) for side in (0, 1))
        return self._to_lake(left.union(right))

    def count(self, arrived: int) -> Count:
        found = Counter((row["number"], row["side"]) for row in self._lake_rows())
        return Count.of(found, ((number, side) for number in range(arrived) for side in (0, 1)))


class Join(Files):
    """A stream-stream join of two flip27 sources."""

    name = "join"
    feeds = ("left", "right")

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        return self._to_lake(self._files(spark, "left").join(self._files(spark, "right"), "number"))


class Totals(Shape):
    """A stateful aggregation. Each batch writes the whole result under its batch id."""

    name = "totals"

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        bucket = (f.col("number") % BUCKETS).alias("bucket")
        frame = self._files(spark).groupBy(bucket).agg(f.count("*").alias("n"), f.sum("number").alias("sum"))
        sink = OnceSink(self.places)

        def write(batch: DataFrame, batch_id: int) -> None:
            sink.publish(batch_id, sorted([row.bucket, row.n, row.sum] for row in batch.collect()))

        return frame.writeStream.outputMode("complete").foreachBatch(write)

    def count(self, arrived: int) -> Count:
        sink = OnceSink(self.places)
        found = {bucket: (n, total) for bucket, n, total in sink.read(max(sink.batch_ids(), default=-1))}
        rows = sum(n for n, _ in found.values())
        lost = duplicated = 0
        wrong = []
        for bucket in range(BUCKETS):
            numbers = range(bucket, arrived, BUCKETS)
            n, total = found.get(bucket, (0, 0))
            lost += max(0, len(numbers) - n)
            duplicated += max(0, n - len(numbers))
            if total != sum(numbers):
                wrong.append(bucket)
        told = [*sink.complaints(), *(f"the sum of bucket {bucket} is wrong" for bucket in wrong)]
        return Count(rows=rows, lost=lost, duplicated=duplicated, complaint="; ".join(told))


class Chain(Shape):
    """A chain of as many sources as there can be: numbers, and every third time files of numbers."""

    name = "chain"
    feeds = ()
    parts = 99
    numbers = 40

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        chain = hybrid(
            *map(self._part, range(self.parts)), **self.places.state_options("chain"), maxFilesPerTrigger=2
        )
        return self._to_lake(
            spark.readStream.format("flip27").options(**{**chain, **self.run_options}).load()
        )

    def count(self, arrived: int) -> Count:
        return Count.of(
            Counter(int(row["value"]) for row in self._lake_rows()), range(self.parts * self.numbers)
        )

    def _part(self, number: int) -> tuple[str, dict[str, Any]]:
        first, end = number * self.numbers, (number + 1) * self.numbers
        if number % 3 == 2:
            folder = self.places.landing(f"part-{number}")
            write_numbers(folder, first, end)
            return "files", {"path": folder, "reader": "text"}
        start = "{switch}" if number % 3 == 1 else first
        reader = "tests.toy_sources:NumbersAsLines"
        return "sequence", {"start": start, "end": end, "rowsPerSplit": 9, "numSplits": 2, "reader": reader}


def write_numbers(folder: Path, first: int, end: int) -> None:
    """Write files of nine numbers each, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(first, end, 9):
        path = folder / f"{start}.txt"
        if not path.exists():
            hidden = folder / f".{uuid.uuid4().hex}"
            hidden.write_text("".join(f"{number}\n" for number in range(start, min(start + 9, end))))
            hidden.rename(path)


TALKING = {"enumerator": "tests.audited_source:AuditedEnumerator", "reader": "tests.soak.source:SoakReader"}


class Talking(Shape):
    """The source of the soak to Parquet: pages that the reader bounds, and events in both directions."""

    name = "talking"
    feeds = ()

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        return self._to_lake(self._stream(spark))

    def count(self, arrived: int) -> Count:
        return self._count(self._lake_rows())

    def _stream(self, spark: SparkSession) -> DataFrame:
        state = self.places.state_options("talking")
        options = {**TALKING, **state, "parallelism": 2, **self.given, **self.run_options}
        return spark.readStream.format("flip27").options(**options).load()

    def _count(self, rows: list[dict[str, Any]]) -> Count:
        counters, length = int(self.given["counters"]), int(self.given["rows"])
        audits = [row["words"] for row in rows if row["split"] == "audit"]
        found = Counter((row["split"], row["number"]) for row in rows if row["split"] != "audit")
        expected = ((f"counter-{counter}", n) for counter in range(counters) for n in range(length))
        is_audited = len(audits) == 1 and audits[0].endswith(" anomalies=0")
        return Count.of(found, expected, "" if is_audited else f"events: {audits}")


class ThreeActions(Talking):
    """``foreachBatch`` with three actions, which read the source of the soak three times."""

    name = "three-actions"

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        sink = OnceSink(self.places)

        def write(batch: DataFrame, batch_id: int) -> None:
            written = sink.scratch()
            batch.write.parquet(str(written))
            collected = _lines(row.asDict() for row in batch.collect())
            sums = batch.agg(f.count("*").alias("n"), f.sum("number").alias("sum")).first()
            seen = _lines(pq.read_table(written).to_pylist()) if any(written.glob("*.parquet")) else []
            shutil.rmtree(written)
            total = sum(int(json.loads(line)["number"]) for line in collected)
            if seen != collected or (sums.n, sums.sum or 0) != (len(collected), total):
                sink.complain(batch_id, f"{len(seen)}, {len(collected)} and {sums.n} rows for three actions")
            sink.publish(batch_id, collected)

        return self._stream(spark).writeStream.foreachBatch(write)

    def count(self, arrived: int) -> Count:
        sink = OnceSink(self.places)
        rows = [json.loads(line) for batch_id in sink.batch_ids() for line in sink.read(batch_id)]
        count = self._count(rows)
        told = [text for text in (count.complaint, *sink.complaints()) if text]
        return replace(count, complaint="; ".join(told))


class OnceSink:
    """Writes the content of a batch once, atomically, under the batch id.

    Overwriting a folder would be wrong: it is deleted before it is written, and a driver that was replaced
    may die in between, long after its successor has continued with later batches.
    """

    def __init__(self, places: Places) -> None:
        self._places = places

    def scratch(self) -> Path:
        """The path of a folder that does not exist yet."""
        self._places.lake.mkdir(exist_ok=True)
        return self._places.lake / f".{uuid.uuid4().hex}"

    def publish(self, batch_id: int, content: list[Any]) -> None:
        """Write a batch, or compare it with what its first run has written."""
        hidden, target = self.scratch(), self._places.lake / f"{batch_id}.json"
        hidden.write_text(json.dumps(content))
        try:
            os.link(hidden, target)
        except FileExistsError:
            if json.loads(target.read_text()) != content:
                self.complain(batch_id, f"{target.read_text()} and now {json.dumps(content)}")
        finally:
            hidden.unlink()

    def complain(self, batch_id: int, text: str) -> None:
        self._places.differing.mkdir(exist_ok=True)
        (self._places.differing / f"{batch_id}-{uuid.uuid4().hex}").write_text(text)

    def complaints(self) -> list[str]:
        folder = self._places.differing
        found = sorted(folder.iterdir()) if folder.exists() else []
        return [f"batch {path.name} differs: {path.read_text()[:300]}" for path in found]

    def batch_ids(self) -> list[int]:
        return sorted(int(path.stem) for path in self._places.lake.glob("[0-9]*.json"))

    def read(self, batch_id: int) -> list[Any]:
        return list(json.loads((self._places.lake / f"{batch_id}.json").read_text()))


def _lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(json.dumps(dict(row), sort_keys=True) for row in rows)


SHAPES: dict[str, Callable[[Places, Mapping[str, str]], Shape]] = {
    shape.name: shape for shape in (Files, Archived, SelfUnion, Join, Totals, Chain, Talking, ThreeActions)
}


class Feed:
    """Writes small files of consecutive numbers into a landing folder, each atomically."""

    def __init__(self, landing: Path, chance: random.Random) -> None:
        self.landing = landing
        self.files = 0
        self.numbers = 0
        self._chance = chance
        landing.mkdir(parents=True)

    def write(self, most: int) -> None:
        """Write another file, with numbers below ``most``."""
        end = min(most, self.numbers + self._chance.randint(1, 20))
        self._put(f"{self.files:06d}.txt", range(self.numbers, end))
        self.files += 1
        self.numbers = end

    def _put(self, name: str, numbers: range) -> None:
        hidden = self.landing / f".{name}"
        hidden.write_text("".join(f"{number}\n" for number in numbers))
        hidden.rename(self.landing / name)
