"""The demo's folder: its layout, and Spark's logs in it. Read-only, without Spark."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import unquote, urlparse


class DemoFolder:
    """One run of the demo on disk.

    Attributes:
        landing: where files arrive.
        output: where the query writes Parquet.
        state: the source's state location, inside the checkpoint location: they belong together.
        scratch: Spark's temporary files, which a killed JVM leaves behind.
        log: what the query's processes print.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.landing, self.output, self.checkpoint = root / "landing", root / "output", root / "checkpoint"
        self.state, self.scratch = self.checkpoint / "flip27", root / "scratch"
        self.log = root / "processes.log"

    @classmethod
    def new(cls, parent: Path) -> DemoFolder:
        """A new folder below ``parent``, named after the current time."""
        parent.mkdir(parents=True, exist_ok=True)
        name = time.strftime("%Y-%m-%d_%H-%M-%S")
        for root in (parent / f"{name}{f'_{number}' if number > 1 else ''}" for number in count(1)):
            with contextlib.suppress(FileExistsError):
                root.mkdir()
                break
        folder = cls(root.resolve())
        folder.landing.mkdir()
        return folder

    def committed_batches(self) -> int:
        return 1 + max(_batches(self.checkpoint / "commits"), default=-1)

    def has_batch(self) -> bool:
        """Whether Spark has logged one, and so the source has state."""
        return bool(_batches(self.checkpoint / "offsets"))

    def open_batch(self) -> int | None:
        """The running batch: the one in Spark's offset log and not in its commit log."""
        newest = max(_batches(self.checkpoint / "offsets"), default=-1)
        return newest if newest >= self.committed_batches() else None

    def written_batches(self) -> int:
        """Number of batches that the sink has committed; for a moment one more than Spark has committed."""
        return 1 + max(_batches(self.output / "_spark_metadata"), default=-1)

    def left_behind(self) -> set[Path]:
        """The Parquet files that killed batches left; readers must not count them."""
        return set(self.output.glob("part-*.parquet")) - set(committed_files(self.output))


def committed_files(output: Path) -> list[Path]:
    """The files that Spark's file sink has committed, in order: those that its log names.

    Every tenth file of the log is named like ``9.compact`` and contains all entries before it.
    """
    batches = _batches(output / "_spark_metadata")
    first = max((number for number, file in batches.items() if file.suffix), default=0)
    entries = (entry for number in sorted(batches) if number >= first for entry in _entries(batches[number]))
    return list(dict.fromkeys(Path(unquote(urlparse(entry["path"]).path)) for entry in entries))


def _batches(log: Path) -> dict[int, Path]:
    """The batches in one of Spark's logs; the compact file if a batch has two."""
    files = sorted(log.iterdir()) if log.is_dir() else []
    named = [(file.name.partition("."), file) for file in files]
    return {
        int(number): file
        for (number, _, suffix), file in named
        if number.isdigit() and suffix in ("", "compact")
    }


def _entries(file: Path) -> Iterator[dict[str, str]]:
    version, *lines = file.read_text(encoding="utf-8").splitlines()
    if version != "v1":
        raise ValueError(f"{file} has version {version}; only v1 is supported")
    return map(json.loads, lines)
