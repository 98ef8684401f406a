"""Records of a reported batch no longer exist, or have changed, when Spark repeats the batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from flip27_source.errors import AccessError, DataLossError
from flip27_source.snapshots.locations import find_lineages
from flip27_source.testing.steps import Crashed, Step
from tests.edits.edited import Edited
from tests.http_api import HttpApi, Says
from tests.readers.http_api.reading import ENDLESS, KINDS, read, records
from tests.snapshots.spark_logs import view_rows

SCHEMA = pa.schema([pa.field("id", pa.int64())])
CONTINUES = {"checkRecords": "false", "onDataLoss": "report"}


def reported(folder: Path, api: HttpApi, kind: str) -> Edited:
    """A query that is stopped after the tasks of its first batch have reported ten records."""
    api.records = records(*range(10))
    path = f"{api.url}/{kind.removesuffix('_without_ids')}/orders"
    options = {"enumerator": "http", "path": path, "pollInterval": "0s", "httpRetries": "0", **KINDS[kind]}
    source = Edited(folder, options, schema=SCHEMA)
    with pytest.raises(Crashed):
        source.engine.run_batch(crash_at=Step.TASKS_ENDED)
    return source


def losses(source: Edited) -> list[str]:
    return [row["what"] for row in view_rows("losses", find_lineages(source.state, {}))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_whose_records_no_longer_exist_continues_without_them_and_counts_the_loss(
    tmp_path: Path, api: HttpApi, kind: str
) -> None:
    source = reported(tmp_path, api, kind)
    del api.records[9]
    source.engine.restart()
    with pytest.raises(AccessError, match="the batch is read again"):
        source.batch()
    source.engine.restart(options={"checkRecords": "false"})
    with pytest.raises(DataLossError, match="1 of the 10 records of a batch that is read again") as caught:
        source.batch()
    assert "onDataLoss" in str(caught.value)
    source.engine.restart(options=CONTINUES)
    assert source.batch() == list(range(9))
    api.records += records(20, 21)
    assert (source.batch() or [])[-1] == 21
    assert losses(source) == ["1 of the 10 records of a batch that is read again cannot be read"]


def test_a_batch_with_a_record_whose_time_was_changed_continues_and_reads_it_again(
    tmp_path: Path, api: HttpApi
) -> None:
    source = reported(tmp_path, api, "since")
    api.records[3]["at"] = "2026-02-01T00:00:00Z"
    source.engine.restart(options=CONTINUES)
    assert [source.batch(), source.batch()] == [[0, 1, 2, 4, 5, 6, 7, 8, 9], [3]]
    assert len(losses(source)) == 1


def test_a_batch_with_more_records_than_before_keeps_their_number_and_counts_the_loss(
    tmp_path: Path, api: HttpApi
) -> None:
    source = reported(tmp_path, api, "since")
    api.records.append({**records(50)[0], "at": api.records[6]["at"]})
    source.engine.restart(options=CONTINUES)
    assert source.batch() == [*range(8), 50, 8]
    api.records += records(20)
    assert source.batch() == [20]
    assert losses(source) == [
        "a batch that is read again has 1 more records than before: the last are left out"
    ]


WALKS = [kind for kind in (*KINDS, *ENDLESS) if "since" not in kind and kind != "feed"]
"""Those whose position contains the last record read."""


@pytest.mark.parametrize("ids", [{}, {"idField": "id"}], ids=["contents", "ids"])
@pytest.mark.parametrize("removed", [1, 2, 5])
@pytest.mark.parametrize("kind", WALKS)
def test_without_checks_the_endpoint_waits_for_as_many_records_as_were_read_if_the_newest_were_removed(
    api: HttpApi, kind: str, removed: int, ids: dict[str, str]
) -> None:
    position = read(api, kind, **ids).position
    del api.records[-removed:]
    with pytest.raises(AccessError, match="not at its previous position"):
        read(api, kind, position, **ids)
    share = read(api, kind, position, checkRecords="false", **ids)
    assert share.ids == []
    position = share.position if share.marks else position
    for number in range(10, 10 + removed):
        api.records += records(number)
        share = read(api, kind, position, checkRecords="false", **ids)
        assert share.ids == []
        position = share.position if share.marks else position
    found = []
    for number in range(20, 26):
        api.records += records(number)
        share = read(api, kind, position, checkRecords="false", **ids)
        found += share.ids
        position = share.position
    assert found == list(range(20, 26))


def test_without_checks_a_shorter_numbered_page_with_another_page_after_it_is_still_an_error(
    api: HttpApi,
) -> None:
    position = read(api, "page").position
    whole = b'{"items": [{"id": 1, "at": ""}, {"id": 2, "at": ""}, {"id": 3, "at": ""}, {"id": 4, "at": ""}]}'
    short = b'{"items": [{"id": 5, "at": ""}]}'
    api.misbehaves(Says(short), Says(whole), Says(short), Says(whole))
    with pytest.raises(AccessError, match="not at its previous position"):
        read(api, "page", position, checkRecords="false")
