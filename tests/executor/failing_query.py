"""A query that ends on a damaged file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import SplitReadError
from flip27_source.executor.failed_tasks import recorded
from flip27_source.executor.split_read import Item
from flip27_source.executor.subtask import read_subtask
from flip27_source.reader import SourceReaderContext
from flip27_source.snapshots.file_names import FAILURES
from flip27_source.source import Source
from tests.cli.command_line import flip27
from tests.snapshots.spark_logs import FileQuery, log_batch
from tests.toy_sources import INITIAL


@dataclass
class FailingQuery:
    """A query over JSON files, the first one with a damaged record; its batch is planned and logged."""

    query: FileQuery
    holder: CoordinatorHolder

    @classmethod
    def begun(cls, root: Path, **options: str) -> FailingQuery:
        query = FileQuery(root, reader="json", mode="FAILFAST", **options)
        query.landing.mkdir()
        if options:
            # Large enough for a task of its own.
            (query.landing / "payments.json").write_text('{"n": 3' + " " * 9_000_000 + "}\n")
        (query.landing / "orders.json").write_text('{"n": 1}\n{"n": \n')
        made = cls(query, CoordinatorHolder(query.source, Boundedness.CONTINUOUS_UNBOUNDED))
        before = query.at
        while query.at == before:
            query.at = made.holder.latest_offset(before, None)
        log_batch(query.checkpoint, 0, query.at)
        return made

    def restart(self, **options: str) -> None:
        self.query.source = Source.resolve({**self.query.given, **options})
        self.holder = CoordinatorHolder(self.query.source, Boundedness.CONTINUOUS_UNBOUNDED)

    def attempt(self, number: int = 0, **changes: Any) -> None:
        with pytest.raises(SplitReadError, match="malformed"):
            self.read(number, **changes)

    def read(
        self, number: int = 0, rows: Callable[..., Iterator[Item]] | None = None, **changes: Any
    ) -> None:
        source = self.query.source
        plan = self.holder.plan(INITIAL, self.query.at)
        planned = replace(next(item for item in plan if b"orders.json" in item.splits), **changes)
        schema = pa.schema([("n", pa.int64())])
        context = SourceReaderContext(
            options=source.options, schema=schema, time_zone="UTC", subtask_id=planned.subtask_id,
            checkpoint_id=1,
            attempt_number=number,
        )  # fmt: skip
        list(recorded(source, planned, context, (rows or read_subtask)(source, planned, context)))

    def repair(self) -> None:
        """The file has both records, at its length."""
        (self.query.landing / "orders.json").write_text('{"n": 1}\n{"n":2}')

    @property
    def kept(self) -> list[Path]:
        return sorted(self.query.checkpoint.glob(f"flip27/*/{FAILURES}/*"))

    def shown(self, *places: str | Path) -> dict[str, Any]:
        (source,) = flip27(
            "ui", *(places or ("--checkpoint-location", self.query.checkpoint)), "--json"
        ).data["sources"]
        return source
