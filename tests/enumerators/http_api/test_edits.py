"""Positions of endpoints are edited, and the query continues there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.errors import EditError
from tests.edits.edited import Edited
from tests.http_api import HttpApi, http_api
from tests.readers.http_api.reading import KINDS, records

SCHEMA = pa.schema([pa.field("id", pa.int64())])
ALL = list(range(18))


@pytest.fixture
def api() -> Iterator[HttpApi]:
    with http_api() as running:
        running.records = records(*ALL)
        yield running


def query(folder: Path, api: HttpApi, kind: str, **options: str) -> Edited:
    path = f"{api.url}/{kind}/orders"
    given = {"enumerator": "http", "path": path, "pollInterval": "0s", **KINDS[kind], **options}
    return Edited(folder, given, schema=SCHEMA)


def batch_after(source: Edited, **position: Any) -> list[Any] | None:
    """The next batch after the position of the endpoint was set."""
    source.ask("set-position", splits=[source.engine.source.options["path"]], position=position)
    return source.batch()


PAGES = {
    "cursor": "after-4",
    "feed": 4,
    "link": "{url}/link/orders?offset=4",
    "body_link": "{url}/body_link/orders?offset=4",
    "page": 2,
    "sized_page": 2,
}
"""The second page, by the way in which the API is paged."""


@pytest.mark.parametrize("kind", PAGES)
def test_pages_are_read_again_after_an_edit_that_goes_back_to_one(
    tmp_path: Path, api: HttpApi, kind: str
) -> None:
    page = PAGES[kind]
    at = page.format(url=api.url) if isinstance(page, str) else page
    source = query(tmp_path, api, kind)
    assert source.batch() == ALL
    assert batch_after(source, at=at, taken=0) == ALL[4:]
    assert batch_after(source, at=at, taken=2) == ALL[6:]
    if kind != "feed":  # whose position is after its last page
        assert batch_after(source, taken=1) == ALL[17:]
    assert batch_after(source, at=None, taken=0) == ALL
    api.records += records(18)
    assert source.batch() == [18]


def test_records_of_one_page_are_read_again_after_an_edit(tmp_path: Path, api: HttpApi) -> None:
    source = query(tmp_path, api, "none")
    assert source.batch() == ALL
    assert batch_after(source, taken=3) == ALL[3:]


def test_records_since_a_time_are_read_again_after_an_edit(tmp_path: Path, api: HttpApi) -> None:
    source = query(tmp_path, api, "since")
    assert source.batch() == ALL
    assert batch_after(source, at="2026-01-01T00:00:02Z") == ALL[4:]
    assert batch_after(source, seen=[]) == [16, 17]


def test_numbered_pages_go_on_with_another_page_size_after_an_edit(tmp_path: Path, api: HttpApi) -> None:
    source = query(tmp_path, api, "sized_page", checkRecords="false", maxRowsPerSplit="4")
    for page in range(4):
        assert source.batch() == ALL[4 * page : 4 * page + 4]
    assert batch_after(source, at=1, taken=4) == ALL[4:8]
    source.engine.restart(options={"pageSize": "7"})
    assert [source.batch(), source.batch()] == [ALL[8:14], ALL[14:]]


@pytest.mark.parametrize(
    ("kind", "position", "why"),
    [
        ("page", {"at": "two"}, "'two' is not a position like the present one, 5"),
        ("page", {"at": 2.5}, "2.5 is not a position like the present one, 5"),
        ("page", {"at": True}, "True is not a position like"),
        ("cursor", {"at": 4}, "4 is not a position like the present one, 'after-16'"),
        ("link", {"at": "?offset=4"}, "'\\?offset=4' is not a position like the present one, 'http"),
        ("link", {"at": "https://evil.example/link/orders?offset=4"}, "is not a position like"),
        ("page", {"at": -5}, "-5 is not a position like the present one, 5"),
        (
            "since",
            {"at": "2026-13-45T00:00:00Z"},
            "'2026-13-45T00:00:00Z' is not a position like the present",
        ),
        ("since", {"at": "17"}, "'17' is not a position like the present one, '2026-01-01T00:00:08Z'"),
        ("page", {"taken": -1}, "is not a valid position: .*taken and count are 0 or greater"),
        ("page", {"at": 2, "count": -1}, "is not a valid position: .*taken and count are 0 or greater"),
    ],
)
def test_a_position_at_which_no_request_could_start_is_refused(
    tmp_path: Path, api: HttpApi, kind: str, position: dict[str, Any], why: str
) -> None:
    """The batch after the edit would fail at every start."""
    source = query(tmp_path, api, kind)
    source.batch()
    with pytest.raises(EditError, match=why) as caught:
        source.plan("set-position", splits=[source.engine.source.options["path"]], position=position)
    assert "What to do" in str(caught.value) or "valid position" in str(caught.value)


def test_a_link_to_another_server_is_refused_also_before_the_first_record(
    tmp_path: Path, api: HttpApi
) -> None:
    api.records = []
    source = query(tmp_path, api, "link")
    source.batch()
    given = {"splits": [source.engine.source.options["path"]], "position": {"at": "https://evil.example/x"}}
    with pytest.raises(EditError, match=r"evil\.example/x' is not a position like the present one, None"):
        source.plan("set-position", **given)


def test_the_dry_run_shows_all_fields_of_the_position(tmp_path: Path, api: HttpApi) -> None:
    source = query(tmp_path, api, "cursor")
    source.batch()
    path = source.engine.source.options["path"]
    (change,) = source.plan("set-position", splits=[path], position={"at": "after-4", "taken": 0}).changes
    then = json.loads(change.then.removeprefix("continues at "))
    assert (then["at"], then["taken"], then["last"], then["seen"]) == ("after-4", 0, None, [])
    given = {"at": "after-4", "taken": 1, "last": "0f" * 8}
    (change,) = source.plan("set-position", splits=[path], position=given).changes
    then = json.loads(change.then.removeprefix("continues at "))
    assert (then["last"], then["seen"]) == ("0f" * 8, [])
