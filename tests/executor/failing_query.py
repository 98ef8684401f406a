"""A query that ends on a damaged file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import SplitReadError
from flip27_source.executor.failed_tasks import recorded
from flip27_source.executor.subtask import read_subtask
from flip27_source.reader import SourceReaderContext
from flip27_source.snapshots.file_names import FAILURES
from tests.cli.command_line import flip27
from tests.snapshots.spark_logs import FileQuery, log_batch
from tests.toy_sources import INITIAL


@dataclass
class FailingQuery:
    """A query over one JSON file, whose second record is damaged; its batch is planned and logged."""

    query: FileQuery
    holder: CoordinatorHolder

    @classmethod
    def begun(cls, root: Path) -> FailingQuery:
        query = FileQuery(root, reader="json", mode="FAILFAST")
        query.landing.mkdir()
        (query.landing / "orders.json").write_text('{"n": 1}\n{"n": \n')
        made = cls(query, CoordinatorHolder(query.source, Boundedness.CONTINUOUS_UNBOUNDED))
        before = query.at
        while query.at == before:
            query.at = made.holder.latest_offset(before, None)
        log_batch(query.checkpoint, 0, query.at)
        return made

    def attempt(self, number: int = 0, **changes: Any) -> None:
        source = self.query.source
        (planned,) = self.holder.plan(INITIAL, self.query.at)
        planned = replace(planned, **changes)
        schema = pa.schema([("n", pa.int64())])
        context = SourceReaderContext(
            options=source.options, schema=schema, time_zone="UTC", subtask_id=0, checkpoint_id=1,
            attempt_number=number,
        )  # fmt: skip
        with pytest.raises(SplitReadError, match="malformed"):
            list(recorded(source, planned, context, read_subtask(source, planned, context)))

    @property
    def kept(self) -> list[Path]:
        return sorted(self.query.checkpoint.glob(f"flip27/*/{FAILURES}/*"))

    def shown(self, *places: str | Path) -> dict[str, Any]:
        (source,) = flip27(
            "ui", *(places or ("--checkpoint-location", self.query.checkpoint)), "--json"
        ).data["sources"]
        return source
