"""Endpoints that are removed from the options while a batch is pending."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from flip27_source.errors import AccessError, DataLossError, OptionError
from flip27_source.testing.steps import Crashed, Step
from tests.edits.edited import Edited
from tests.http_api import Answer, HttpApi, Misbehaviour, Params, http_api
from tests.readers.http_api.reading import KINDS, records

SCHEMA = pa.schema([pa.field("id", pa.int64())])
REMOVED = {"endpoints": "a", "onRemovedEndpoint": "finish"}
ADDED_AGAIN = {"endpoints": "a,b", "onRemovedEndpoint": "fail"}


@pytest.fixture
def api() -> Iterator[HttpApi]:
    with http_api() as running:
        running.records = records(*range(4))
        yield running


def query(folder: Path, api: HttpApi, **options: str) -> Edited:
    """A query that has read four records of each of two endpoints; two more wait."""
    given = {"enumerator": "http", "path": f"{api.url}/page", "endpoints": "a,b", **KINDS["page"], **options}
    source = Edited(folder, {"httpRetries": "0", "pollInterval": "0s", **given}, schema=SCHEMA)
    assert sorted(source.batch() or []) == [0, 0, 1, 1, 2, 2, 3, 3]
    api.records += records(4, 5)
    return source


def crashes(source: Edited, at: Step) -> None:
    with pytest.raises(Crashed):
        source.engine.run_batch(crash_at=at)


@pytest.mark.parametrize("at_end", ["poll", "finish"])
@pytest.mark.parametrize(
    "step", [Step.TASK_STARTED, Step.REPORT_WRITTEN, Step.SINK_WRITTEN, Step.COMMIT_LOGGED]
)
def test_an_endpoint_that_was_removed_only_while_a_batch_was_pending_is_read_on(
    tmp_path: Path, api: HttpApi, step: Step, at_end: str
) -> None:
    source = query(tmp_path, api, atEnd=at_end)
    crashes(source, Step.OFFSET_LOGGED)
    source.engine.restart(options=REMOVED)
    crashes(source, step)
    source.engine.restart(options=ADDED_AGAIN)
    for _ in range(3):
        source.batch()
    assert sorted(row[0] for row in source.engine.rows if row[0] > 3) == [4, 4, 5, 5]


def test_an_endpoint_is_given_up_with_the_batch_after_its_removal(tmp_path: Path, api: HttpApi) -> None:
    source = query(tmp_path, api)
    source.engine.restart(options=REMOVED)
    assert [source.batch(), source.batch()] == [[4, 5], []]
    assert not any(path.endswith("/b") for path, *_ in api.requests[-2:])
    source.engine.restart(options=ADDED_AGAIN)
    with pytest.raises(OptionError, match=r"page/b again, which was removed before"):
        source.batch()


class Shuts(Misbehaviour):
    """Endpoint b no longer exists."""

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        return Answer({}, status=404) if path.endswith("/b") else api.answer(path, params)


@pytest.mark.parametrize("step", [Step.TASKS_ENDED, Step.SINK_WRITTEN])
def test_an_endpoint_of_a_reported_batch_that_no_longer_exists_can_be_removed_and_its_loss_is_counted(
    tmp_path: Path, api: HttpApi, step: Step
) -> None:
    source = query(tmp_path, api)
    crashes(source, step)
    api.misbehaves(*[Shuts()] * 100)
    source.engine.restart()
    with pytest.raises(AccessError, match="status 404"):
        source.batch()
    source.engine.restart(options=REMOVED)
    with pytest.raises(DataLossError, match=r"page/b.*: 2 of the 2 records of a batch that is read again"):
        source.batch()
    source.engine.restart(options={"onDataLoss": "report"})
    assert source.batch() == [4, 5]
    api.records += records(6)
    assert source.batch() == [6]


def test_a_removed_endpoint_that_still_exists_has_its_rows_in_a_batch_that_is_read_again(
    tmp_path: Path, api: HttpApi
) -> None:
    source = query(tmp_path, api)
    crashes(source, Step.SINK_WRITTEN)
    source.engine.restart(options=REMOVED)
    assert sorted(source.batch() or []) == [4, 4, 5, 5]


def test_an_endpoint_on_another_server_can_be_removed_while_a_reported_batch_is_pending(
    tmp_path: Path, api: HttpApi
) -> None:
    with http_api() as other:
        other.records = records(*range(4))
        endpoints = f"a,{other.url}/page/b"
        source = query(tmp_path, api, endpoints=endpoints)
        other.records += records(4, 5)
        crashes(source, Step.SINK_WRITTEN)
        before = len(other.requests)
        source.engine.restart(options={**REMOVED, "onDataLoss": "report"})
        assert source.batch() == [4, 5]
        assert len(other.requests) == before, "no credential goes to a server that no option names"
