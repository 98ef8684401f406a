"""The reader of the soak: reads the audited source slowly; options make its first attempts fail or hang."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source import Option, Options
from flip27_source.options import integer, optional, text
from tests.audited_source import AuditedReader, Counter

PAGE_MS = Option(name="pageMs", parse=integer(minimum=0), default=0, doc="How long a page takes, in ms.")
FAIL_FIRST = Option(name="failFirst", parse=integer(minimum=0), default=0, doc="1: first attempts fail.")
SLOW_FIRST_MS = Option(
    name="slowFirstMs", parse=integer(minimum=0), default=0, doc="How long first attempts of subtask 0 hang."
)

HANG_IN = Option(
    name="hangIn",
    parse=optional(text),
    default=None,
    doc="A folder: two first attempts write their process id there, worker and executor, and hang.",
)


class SoakReader(AuditedReader):
    """Yields pages as Arrow batches. Options let first attempts fail or hang."""

    options: ClassVar[tuple[Option[Any], ...]] = (PAGE_MS, FAIL_FIRST, SLOW_FIRST_MS, HANG_IN)
    page_rows = 25

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema([("split", pa.string()), ("number", pa.int64()), ("words", pa.string())])

    def read(self, split: Counter) -> Iterator[Any]:
        if self.context.attempt_number == 0 and self.context.subtask_id == 0:
            time.sleep(self.context.options[SLOW_FIRST_MS] / 1000)  # the load: a subtask that hangs
        yield from super().read(split)

    def page(self, split: Counter, end: int) -> Iterator[Any]:
        options, count = self.context.options, end - split.next
        time.sleep(options[PAGE_MS] / 1000)  # the load: a page takes its time
        columns = [[split.split_id] * count, list(range(split.next, end)), [split.words] * count]
        schema = self.context.schema
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if self.context.attempt_number == 0 and options[HANG_IN] is not None:
            hang_in(Path(options[HANG_IN]))
        if self.context.attempt_number == 0 and options[FAIL_FIRST]:
            raise RuntimeError("first attempts fail")


def hang_in(folder: Path) -> None:
    """Wait to be killed: the first process that calls this as ``worker``, the second as ``executor``."""
    for what in ("worker", "executor"):
        if not (folder / what).exists():
            hidden = folder / f".{what}-{os.getpid()}"
            hidden.write_text(str(os.getpid()))
            try:
                os.link(hidden, folder / what)
            except FileExistsError:
                continue
            while True:
                time.sleep(1)
