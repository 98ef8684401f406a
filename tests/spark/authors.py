"""Sources that tests name by import path: one of two methods, as an author writes it, and crashing ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from flip27_source import DiscoveringEnumerator, Discovery, Option, Options, SplitReader
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import integer
from flip27_source.readers.text import TextReader


@dataclass(frozen=True)
class Order:
    split_id: str
    number: int


class OrdersEnumerator(DiscoveringEnumerator[Order]):
    """Finds numbers up to ``upTo``: new ones appear when the option grows."""

    options = (Option(name="upTo", parse=integer(minimum=0), default=3, doc="Last order."),)

    def discover(self, position: int | None) -> Discovery[Order, int]:
        last = self.options_given["upTo"]
        new = range((position or 0) + 1, last + 1)
        return Discovery([Order(f"order-{n}", n) for n in new], last)


class OrdersReader(SplitReader[Order]):
    """Reads one row for each order, as a tuple."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema([("number", pa.int64()), ("name", pa.string())])

    def read(self, split: Order) -> Iterator[tuple[int, str]]:
        yield (split.number, split.split_id)


class SwappedReader(SplitReader[Order]):
    """Yields its two columns of text in another order than that of its schema."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema([("left", pa.string()), ("right", pa.string())])

    def read(self, split: Order) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict(
            {"right": [f"right {split.number}"], "left": [f"left {split.number}"]}
        )


class FailingOnce(TextReader):
    """Fails while a file named ``poison`` exists next to the landing folder."""

    def read_together(self, splits: Any) -> Iterator[pa.RecordBatch]:
        if (Path(splits[0].path).parents[1] / "poison").exists():
            raise RuntimeError("the poison is still there")
        yield from super().read_together(splits)


def crash_at(step: str) -> None:
    """Kill the driver and its JVM with SIGKILL if the file that requests it exists.

    The file is removed first, so that each request is carried out once.
    """
    requested = Path(os.environ["FLIP27_TEST_CRASH_DIR"]) / step
    try:
        requested.unlink()
    except FileNotFoundError:
        return
    for name in ("FLIP27_TEST_JVM_PID", "FLIP27_TEST_DRIVER_PID"):
        os.kill(int((requested.parent / name).read_text()), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class CrashingFiles(FilesEnumerator):
    """The files enumerator, with steps at which the whole driver may be killed."""

    def discover(self, position: Any) -> Any:
        found = super().discover(position)
        crash_at("during-discovery")
        return found

    def snapshot_state(self, checkpoint_id: int) -> Any:
        state = super().snapshot_state(checkpoint_id)
        if checkpoint_id > 2:
            crash_at("before-document")
        return state

    def handle_split_request(self, subtask_id: int) -> None:
        if self._seen_complete:
            crash_at("after-batch-before-next-offset")
        super().handle_split_request(subtask_id)

    _seen_complete = False

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._seen_complete = True
        crash_at("in-commit")
        super().notify_checkpoint_complete(checkpoint_id)


class CrashingFileSystem(LocalFileSystem):
    """Local files as an fsspec file system, with a step at which the whole driver may be killed."""

    protocol = "crashing"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path, value, mode=mode, **options)
        if "/checkpoints/" in path:
            crash_at("after-document")


fsspec.register_implementation("crashing", CrashingFileSystem, clobber=True)


class CrashingText(TextReader):
    """The text reader, with a step in the batch at which the whole driver may be killed."""

    def read_together(self, splits: list[FileSplit]) -> Iterator[pa.RecordBatch]:
        if self.context.checkpoint_id > 1:
            crash_at("in-batch")
        yield from super().read_together(splits)
