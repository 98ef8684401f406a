"""Kills drivers while they read files of an object store and store their state there."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.azurite_server import azurite_server
from tests.child_processes import ChildProcess
from tests.gcs_server import gcs_endpoint, new_gcs_bucket
from tests.object_storage import ObjectStorage
from tests.s3_server import new_bucket, s3_endpoint
from tests.slow_down import slow_down

from .cloud_program import FINISH, batch_files

FILES_A_LIFE = 20
ROWS_OF_LARGE_FILE = 3000
MOST_FAILURES = 100
LONGEST_LIFE_S = 3.0
SLOW_SHARE = 0.02
"""The share of requests to S3 that are refused at first, with 503 SlowDown."""


@contextmanager
def on_s3(seed: int) -> Iterator[ObjectStorage]:
    with s3_endpoint() as endpoint, slow_down(endpoint, seed=seed) as proxy:
        bucket = new_bucket(proxy.url)
        proxy.share = SLOW_SHARE
        yield bucket


@contextmanager
def on_azure(seed: int) -> Iterator[ObjectStorage]:
    with azurite_server() as server:
        yield server.container()


@contextmanager
def on_gcs(seed: int) -> Iterator[ObjectStorage]:
    with gcs_endpoint() as endpoint:
        yield new_gcs_bucket(endpoint)


CLOUDS = {"s3": on_s3, "azure": on_azure, "gcs": on_gcs}


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The result of the kills on one cloud.

    Attributes:
        lost, doubled: numbers of rows.
        misplaced: files that are missing in the archive, differ there, or are still in the landing folder.
        errors: the logs of lives that ended with an error, without being killed.
    """

    cloud: str
    kills: int = 0
    files: int = 0
    batches: int = 0
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    misplaced: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.doubled or self.misplaced) and self.rows > 0

    def __str__(self) -> str:
        return (
            f"{self.cloud}: kills {self.kills}  files {self.files}  batches {self.batches}  "
            f"rows {self.rows}  lost {self.lost}  doubled {self.doubled}  "
            f"not archived {len(self.misplaced)}  errors {len(self.errors)}"
        )


class CloudSoak:
    """A query on one cloud, through many lives.

    Its tasks always report, so each needs the file system's exclusive creation. Some batches, chosen at
    random, are read by two attempts of each task at once.
    """

    def __init__(self, cloud: ObjectStorage, folder: Path, *, seed: int, longest_life_s: float) -> None:
        self._cloud = cloud
        self._folder = folder
        self._chance = random.Random(seed)
        self._longest_life_s = longest_life_s
        self._contents: dict[str, bytes] = {}
        self.outcome = Outcome(cloud=cloud.protocol)

    def run(self, kills: int) -> Outcome:
        while self.outcome.kills < kills:
            self._one_life()
        (self._folder / FINISH).touch()
        # The first run reads what is left, the second cleans the files of the last batch.
        for _ in range(2):
            self._to_the_end()
        self._count()
        return self.outcome

    def _one_life(self) -> None:
        child = self._child()
        writer = threading.Thread(target=self._put_files)
        writer.start()
        try:
            if any(line.strip() == b"started" for line in child.stdout):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.popen.wait(self._chance.uniform(0, self._longest_life_s))
        finally:
            has_ended = child.popen.poll() is not None
            child.kill()
            writer.join()
        if has_ended:
            self._note_error(child)
        else:
            self.outcome.kills += 1

    def _to_the_end(self) -> None:
        while True:
            child = self._child()
            try:
                for _ in child.stdout:
                    pass
                code = child.popen.wait()
            finally:
                child.kill()
            if code == 0:
                return
            self._note_error(child)

    def _child(self) -> ChildProcess:
        cloud = self._cloud
        asked = {
            "folder": str(self._folder),
            "seed": self._chance.randrange(1 << 32),
            "options": {
                "enumerator": "files", "reader": "text", "path": f"{cloud.url}/landing",
                "recursiveFileLookup": "true", "stateLocation": f"{cloud.url}/state", "taskReports": "always",
                "cleanSource": "archive", "sourceArchiveDir": f"{cloud.url}/archive",
                "discoveryInterval": "1ms", "requestInterval": "0s",
                "maxFilesPerTrigger": "7", "maxPartitionBytes": "20k", "retainedCheckpoints": "10",
                **cloud.options,
            },
        }  # fmt: skip
        return ChildProcess(
            "tests.soak.cloud_program", [json.dumps(asked)], log=self._folder / "log", stdout=-1
        )

    def _put_files(self) -> None:
        """Put small files and a large one, which is read in ranges."""
        for number in range(FILES_A_LIFE):
            name = f"day={len(self._contents) % 3}/{len(self._contents):06d} #{number}%20.txt"
            rows = ROWS_OF_LARGE_FILE if number == 0 else self._chance.randint(1, 5)
            content = "".join(f"{name} row {row}\n" for row in range(rows)).encode()
            self._cloud.file_system.pipe_file(f"{self._cloud.name}/landing/{name}", content)
            self._contents[name] = content

    def _note_error(self, child: ChildProcess) -> None:
        self.outcome.errors.append(child.log_tail(30))
        assert len(self.outcome.errors) <= MOST_FAILURES, child.log_tail(60)

    def _count(self) -> None:
        expected = Counter(line for data in self._contents.values() for line in data.decode().splitlines())
        sink = batch_files(self._folder / "sink")
        read = Counter(row for file in sink for row in json.loads(file.read_text()))
        outcome = self.outcome
        outcome.files, outcome.batches, outcome.rows = len(self._contents), len(sink), read.total()
        outcome.lost, outcome.doubled = (expected - read).total(), (read - expected).total()
        there = self._files("landing") | self._files("archive/landing")
        wanted = {f"archive/landing/{name}": data for name, data in self._contents.items()}
        outcome.misplaced = sorted(name for name in there | wanted if there.get(name) != wanted.get(name))

    def _files(self, folder: str) -> dict[str, bytes]:
        fs, root = self._cloud.file_system, f"{self._cloud.name}/{folder}"
        fs.invalidate_cache()
        found = fs.find(root) if fs.exists(root) else []
        return {f"{folder}/{name[len(root) + 1 :]}": fs.cat_file(name) for name in found}


def play(
    cloud: str,
    folder: Path,
    *,
    kills: int,
    seed: int,
    longest_life_s: float = LONGEST_LIFE_S,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Kill drivers on one of ``CLOUDS`` this often. The folder is removed unless something is wrong."""
    began = time.monotonic()
    folder.mkdir()
    with CLOUDS[cloud](seed) as place:
        outcome = CloudSoak(place, folder, seed=seed, longest_life_s=longest_life_s).run(kills)
    say(f"{outcome}  {time.monotonic() - began:.0f} s")
    for error in dict.fromkeys(outcome.errors):
        say(f"  an error: {error}")
    if outcome.is_exact:
        shutil.rmtree(folder)
    return outcome
