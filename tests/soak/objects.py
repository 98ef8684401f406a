"""A query of S3 objects that is killed at random steps, and the rows that it has read."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from flip27_source.errors import Flip27Error
from flip27_source.snapshots.locations import find_lineages
from flip27_source.state_tables.history import History
from flip27_source.state_tables.views import VIEWS
from flip27_source.testing import Crashed, MicroBatchEngine, Step, Victim
from flip27_source.testing.steps import CrashPoint
from tests.s3_server import S3Bucket

MIB = 1 << 20
MOST_LIVES = 300


class Landing:
    """The objects below a prefix, and the rows of each version of them.

    Objects are put by a call inside the server, which has the effect of a PUT and is a hundred times faster.
    """

    def __init__(self, bucket: S3Bucket, prefix: str) -> None:
        from moto.s3.models import s3_backends

        self.url = f"s3://{bucket.name}/{prefix}"
        self._bucket = bucket
        self._prefix = prefix
        self._server = s3_backends["123456789012"]["aws"]
        self.versions: dict[str, list[list[str]]] = {}

    def put(self, names: Iterable[str]) -> None:
        """Put new objects, or new versions of known ones. Each version is longer than the one before."""
        for name in names:
            versions = self.versions.setdefault(name, [])
            rows = [f"{name} version {len(versions)} row {row}" for row in range(len(versions) + 1)]
            versions.append(rows)
            self._server.put_object(self._bucket.name, f"{self._prefix}/{name}", _lines(rows))

    def put_in_parts(self, name: str) -> None:
        """Put a large object, as a multipart upload with real requests."""
        rows = [f"{name} row {row} {'x' * (64 << 10)}" for row in range(100)]
        self.versions[name] = [rows]
        content = _lines(rows)
        file_system, path = self._bucket.file_system, f"{self._bucket.name}/{self._prefix}/{name}"
        with file_system.open(path, "wb", block_size=5 * MIB) as file:
            file.write(content[: 5 * MIB])
            file.write(content[5 * MIB :])
        assert file_system.info(path)["ETag"].endswith('-2"')

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._server.delete_object(self._bucket.name, f"{self._prefix}/{name}")

    def rows(self, name: str, version: int = -1) -> list[str]:
        return self.versions[name][version]

    def contents(self, prefix: str) -> dict[str, list[str]]:
        """The rows of the current objects below the prefix, by key."""
        found = self._server.get_bucket(self._bucket.name).keys.items()
        return {name: key.value.decode().splitlines() for name, key in found if name.startswith(f"{prefix}/")}


def _lines(rows: list[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


@dataclass(kw_only=True)
class Query:
    """A query that is killed at random steps, and restarted after each kill and each error.

    Attributes:
        kill_share: the share of batches for which kills are planned.
        on_death: called after each kill and each error, before the restart.
        kills: the number of kills by process and step.
    """

    engine: MicroBatchEngine
    chance: random.Random
    kill_share: float = 1.0
    on_death: Callable[[], None] = lambda: None
    kills: Counter[str] = field(default_factory=Counter)
    errors: list[Flip27Error] = field(default_factory=list)
    _planned_kills: list[CrashPoint] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _counted: int = 0

    @classmethod
    def on(cls, landing: Landing, bucket: S3Bucket, chance: random.Random, **options: str) -> Query:
        """A query whose state is in the same bucket. Only s3fs and flip27 retry requests, not botocore."""
        given = {
            "enumerator": "files", "reader": "text", "path": landing.url, "fileOrder": "name",
            "stateLocation": f"{landing.url}-state", "maxPartitionBytes": "2m", "requestInterval": "0s",
            **bucket.options, "storage.config_kwargs": '{"retries": {"total_max_attempts": 1}}',
            **options,
        }  # fmt: skip
        return cls(engine=MicroBatchEngine(given), chance=chance)

    @property
    def read(self) -> Counter[str]:
        return Counter(row[0] for row in self.engine.rows)

    @property
    def files_read(self) -> set[str]:
        batches = self.engine.batches
        for batch in batches[self._counted :]:
            self._names.update(row[0].partition(" ")[0] for row in batch.rows)
        # The last batch may be written again.
        self._counted = max(len(batches) - 1, 0)
        return self._names

    def batch(self, meanwhile: Callable[[list[str]], None] | None = None) -> bool:
        """Run one batch, through all kills and errors; return False if nothing is new.

        Args:
            meanwhile: called with the names of the files that the batch will read, once the batch is planned.
        """
        for life in range(MOST_LIVES):
            if life == 0:
                self._plan_crashes()
            try:
                if meanwhile is not None:
                    if not self.engine.logs.has_uncommitted:
                        self.engine.trigger()
                    meanwhile(self._planned())
                    meanwhile = None
                return self.engine.run_batch() is not None
            except Crashed:
                pass
            except Flip27Error as error:
                self.errors.append(error)
            self.on_death()
            self.engine.restart(parallelism=self.chance.randint(1, 4))
        raise AssertionError(f"no end after {MOST_LIVES} lives; the last error: {self.errors[-1:]}")

    def to_the_end(self) -> None:
        while self.batch():
            pass

    def plan_no_crashes(self) -> None:
        """Cancel the planned crashes that have not happened; count those that have."""
        points = self.engine.itinerary.crash_points
        happened = [point for point in self._planned_kills if point not in points]
        self.kills.update(f"{point.victim.value} {point.step.name}" for point in happened)
        self._planned_kills.clear()
        points.clear()

    def _plan_crashes(self) -> None:
        """Plan two crashes for the next batch."""
        self.plan_no_crashes()
        if self.chance.random() >= self.kill_share:
            return
        for step in self.chance.sample(list(Step), 2):
            alone = step.is_of_a_task and self.chance.random() < 0.5
            self.engine.crash_at(step, victim=Victim.EXECUTOR if alone else Victim.DRIVER)
        self._planned_kills += self.engine.itinerary.crash_points

    def _planned(self) -> list[str]:
        return [
            split.path.rpartition("/")[2]
            for task in self.engine.partitions()
            for split in self.engine.splits_of(task)
        ]

    def ignored(self) -> list[str]:
        """The names of the ignored files, as the state lists them."""
        options = self.engine.source.options
        storage = options.with_prefix("storage.")
        file = json.loads(self.engine.logs.offsets[-1])["state"]["file"]
        location = f"{options.get('stateLocation')}/{file.partition('/')[0]}"
        (lineage,) = find_lineages(location, storage)
        rows = VIEWS["files"].rows(History(lineage.store(storage), lineage))
        return sorted(row["path"].rpartition("/")[2] for row in rows if row["status"] == "ignored")
