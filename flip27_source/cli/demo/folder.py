"""The demo's folder: its layout, and Spark's logs in it. Read-only, without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlparse


@dataclass(frozen=True)
class DemoFolder:
    """One run of the demo on disk."""

    root: Path

    @classmethod
    def new(cls, parent: Path) -> DemoFolder:
        """A new folder below ``parent``, named after the current time."""
        name = time.strftime("%Y-%m-%d_%H-%M-%S")
        number = 1
        while True:
            root = parent / (name if number == 1 else f"{name}_{number}")
            try:
                root.mkdir(parents=True)
            except FileExistsError:
                number += 1
                continue
            folder = cls(root.resolve())
            folder.landing.mkdir()
            return folder

    @property
    def landing(self) -> Path:
        """Where the writer drops files."""
        return self.root / "landing"

    @property
    def output(self) -> Path:
        """Where the query writes Parquet."""
        return self.root / "output"

    @property
    def checkpoint(self) -> Path:
        """The query's checkpoint location."""
        return self.root / "checkpoint"

    @property
    def state(self) -> Path:
        """The source's state location, inside the checkpoint location: they belong together."""
        return self.checkpoint / "flip27"

    @property
    def log(self) -> Path:
        """What the processes print."""
        return self.root / "processes.log"

    @cached_property
    def sink(self) -> SinkLog:
        """The log of the file sink."""
        return SinkLog(self.output)

    def landed(self) -> int:
        """Number of files that the writer has made visible."""
        return sum(1 for _ in self.landing.glob("[0-9]*.json"))

    def committed_batches(self) -> int:
        """Number of batches in Spark's commit log."""
        return 1 + max(_batches(self.checkpoint / "commits"), default=-1)

    def open_batch(self) -> int | None:
        """The running batch: the one in Spark's offset log and not in its commit log."""
        newest = max(_batches(self.checkpoint / "offsets"), default=-1)
        return newest if newest >= self.committed_batches() else None


class SinkLog:
    """The committed files of the file sink: the Parquet files that its ``_spark_metadata`` names.

    A file that is not named there was left by a killed batch, and readers must not count it.
    """

    def __init__(self, output: Path) -> None:
        self._output = output
        self._committed: dict[Path, None] = {}
        self._read_through = -1

    def committed(self) -> list[Path]:
        """The files of all committed batches, in order."""
        log = self._output / "_spark_metadata"
        newest = max(_batches(log), default=-1)
        while self._read_through < newest:
            batch = self._read_through + 1
            for entry in _entries(_log_file(log, batch)):
                self._committed.setdefault(Path(unquote(urlparse(entry["path"]).path)))
            self._read_through = batch
        return list(self._committed)

    def batches(self) -> int:
        """Number of batches that the sink has committed; for a moment one more than Spark has committed."""
        self.committed()
        return self._read_through + 1

    def present(self) -> set[Path]:
        """The existing Parquet files, committed or not."""
        return set(self._output.glob("part-*.parquet"))

    def left_behind(self) -> set[Path]:
        """The files that killed batches left."""
        return self.present() - set(self.committed())


def _batches(log: Path) -> Iterator[int]:
    """The batches in one of Spark's logs; every tenth file of the sink's log is named like ``9.compact``."""
    if log.is_dir():
        for file in log.iterdir():
            number, _, suffix = file.name.partition(".")
            if number.isdigit() and suffix in ("", "compact"):
                yield int(number)


def _log_file(log: Path, batch: int) -> Path:
    plain = log / str(batch)
    return plain if plain.exists() else log / f"{batch}.compact"


def _entries(file: Path) -> list[dict[str, str]]:
    version, *lines = file.read_text(encoding="utf-8").splitlines()
    if version != "v1":
        raise ValueError(f"{file} has version {version}; only v1 is supported")
    return [json.loads(line) for line in lines]
