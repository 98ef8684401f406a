"""The http enumerator: which endpoints there are, and that each is assigned once."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from requests.models import PreparedRequest
from urllib3.util import parse_url

from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.http_api.enumerator import HttpEnumerator, HttpSplit, HttpState
from flip27_source.enumerators.http_api.urls import endpoint_urls, joined_link, shown_url, with_params
from flip27_source.errors import IncompatibleStateError, OptionError
from flip27_source.executor.subtask import read_subtask
from flip27_source.options import texts
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.http_api.connections import origin_of
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.store import MemoryStore
from flip27_source.source import Source
from flip27_source.testing.enumerator_run import EnumeratorRun
from tests.http_api import http_api
from tests.readers.http_api.reading import records
from tests.toy_sources import INITIAL, coordinator_of, freeze, frozen, holder_of, source_of

BASE = "https://api.example.com/v1"
SCHEMA = pa.schema([pa.field("id", pa.int64())])


def http(path: str = BASE, **options: str) -> Source:
    return source_of(None, {"enumerator": "http", "path": path, **options}, None)


def coordinator(source: Source, **settings: Any) -> Any:
    return coordinator_of(
        source.enumerator_type, options=source.options, reader_type=source.reader_type, **settings
    )


def handed_out(source: Source) -> tuple[set[str], HttpState]:
    """Return the endpoints that the first plan assigns, and the state after it."""
    snapshot = freeze(coordinator(source)).snapshot
    splits = {split.split_id for item in snapshot.plan.assignments for split in item.splits}
    return splits, snapshot.enumerator_state


def test_the_default_reader_is_http() -> None:
    assert http().reader_name == "http"


def test_endpoints_are_appended_to_the_path_and_keep_its_parameters() -> None:
    urls = endpoint_urls(BASE + "/?region=eu", ("orders", "/customers?active=true", "https://b.example/x"))
    customers = BASE + "/customers?region=eu&active=true"
    assert urls == (BASE + "/orders?region=eu", customers, "https://b.example/x")


def test_an_endpoint_that_is_listed_twice_is_read_once() -> None:
    assert endpoint_urls(BASE, ("orders", "/orders")) == (BASE + "/orders",)


@pytest.mark.parametrize(
    ("value", "found"),
    [("orders", ("orders",)), (" a , b,", ("a", "b")), ('["a,b", "c"]', ("a,b", "c")), ("", ())],
)
def test_endpoints_are_separated_by_commas_or_a_json_list(value: str, found: tuple[str, ...]) -> None:
    assert texts(value) == found


def test_each_endpoint_is_assigned_once() -> None:
    urls = {BASE + "/orders", BASE + "/customers"}
    found, state = handed_out(http(endpoints="orders, customers"))
    assert (found, set(state.handed_out)) == (urls, urls)


def restarted(state: HttpState, **options: str) -> Any:
    """Return the enumerator restored from ``state``."""
    source = http(**options)
    enumerator = source.enumerator_type(coordinator(source).enumerator.context, source.options, state)
    enumerator.start()
    return enumerator


def test_an_endpoint_that_is_added_later_is_assigned_after_the_restart() -> None:
    source = http(endpoints="orders, customers")
    assert splits_from(source, HttpState(handed_out=(BASE + "/orders",))) == [
        HttpSplit(split_id=BASE + "/customers")
    ]


def splits_from(source: Source, state: HttpState) -> list[Any]:
    """Return the splits that the enumerator restored from ``state`` assigns."""
    return EnumeratorRun(source, EnumeratorRun(source).stored(state)).drain()


def test_a_returned_split_is_assigned_again_with_its_position() -> None:
    source = http(BASE + "/orders")
    running = coordinator(source)
    frozen(running)
    split = HttpSplit(split_id=BASE + "/orders", at="c", count=3)
    running.enumerator.add_splits_back([split], 0)
    state = running.enumerator.snapshot_state(2)
    assert state == HttpState(returned=(split,))
    assert splits_from(source, state) == [split]


def test_positions_of_version_1_which_have_no_page_size_are_read() -> None:
    stored = msgspec.Raw(
        b'{"at":5,"count":18,"last":"9f3c1a5b7d2e4f60","seen":[],"split_id":"https://x.example/a","taken":2}'
    )
    split = HttpSplit(split_id="https://x.example/a", at=5, taken=2, count=18, last="9f3c1a5b7d2e4f60")
    codec = SnapshotCodec(HttpEnumerator)
    assert codec.decode_split(1, stored) == split
    state = {"given_up": [], "handed_out": [], "returned": [stored]}
    upgraded = HttpEnumerator.upgrade_state(1, msgspec.json.decode(msgspec.json.encode(state)))
    assert msgspec.convert(upgraded, HttpState) == HttpState(returned=(split,))
    with pytest.raises(IncompatibleStateError, match="has version 3; this code knows version 2"):
        codec.decode_split(3, stored)


def test_a_removed_endpoint_stops_the_query() -> None:
    with pytest.raises(
        OptionError, match=r"this query has read https://api\.example\.com/v1/orders"
    ) as caught:
        restarted(HttpState(handed_out=(BASE + "/orders",)), endpoints="customers")
    assert "add them again" in str(caught.value)
    assert '.option("onRemovedEndpoint", "finish")' in str(caught.value)


def test_a_removed_endpoint_can_be_given_up_but_adding_it_again_is_refused() -> None:
    before = HttpState(
        handed_out=(BASE + "/orders",), returned=(HttpSplit(split_id=BASE + "/old", at=3, count=9),)
    )
    state = restarted(before, endpoints="new", onRemovedEndpoint="finish").snapshot_state(1)
    assert state == HttpState(given_up=(BASE + "/orders", BASE + "/old"))
    with pytest.raises(OptionError, match="orders again, which was removed before"):
        restarted(state, endpoints="orders", onRemovedEndpoint="finish")


def test_a_bounded_run_ends() -> None:
    running = coordinator(http(BASE + "/orders"), boundedness=Boundedness.BOUNDED)
    frozen(running)


@pytest.mark.parametrize(
    "path",
    [
        "orders", "ftp://x/y", "https://", "http://[1", "/landing", "https://a\\@b/x", "https://a\t.b/x",
        "https://a/\0",
    ],
)  # fmt: skip
def test_a_path_that_is_not_a_url_of_an_api_is_refused(path: str) -> None:
    with pytest.raises(OptionError, match="which is not a URL of an HTTP API"):
        coordinator(http(path))


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("https://user:s3cr3t@api.example.com/v1", "a user name or password"),
        ("https://api.example.com/v1?api_key=s3cr3t", "the parameter api_key"),
        ("https://api.example.com/v1?X-Amz-Signature=s3cr3t", "the parameter X-Amz-Signature"),
    ],
)
def test_credentials_in_a_url_are_refused_and_not_shown(path: str, what: str) -> None:
    with pytest.raises(OptionError, match=what) as caught:
        coordinator(http(path))
    assert "s3cr3t" not in str(caught.value)
    assert "authParam" in str(caught.value)


PIECES = [
    "http", "https", "ftp", ":", "//", "/", "\\", "@", "?", "#", "%", "%2e", "[", "]", "::1", ".", "127.1",
    "api.example", "evil.example", ":80", ":443", ":8o", ":", "a", " ", "\t", "\n", "\0", "&", "=", ";", "*",
    "'", "\x85", "\u3002", "\u2147", "\xe9",
]  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_any_link_is_refused_or_has_the_same_server_for_every_parser(link: str) -> None:
    base = "https://api.example/v1/orders?page=1"
    try:
        joined = joined_link(base, link)
    except ValueError:
        return
    assert shown_url(joined).isprintable()
    try:
        asked = origin_of(joined)
    except ValueError:
        return  # no request can be made
    prepared = PreparedRequest()
    prepared.prepare_url(with_params(joined, {"token": "x"}), None)
    assert origin_of(str(prepared.url)) == asked
    assert urlsplit(joined).hostname == parse_url(joined).host == asked[1]


def test_urls_are_shown_without_apparent_credentials() -> None:
    url = "https://me:pw@x.example/a?token=1&page_token=2&My-Key=3&X-Api-Key=4&since=2026-01-01T00:00:00Z"
    assert shown_url(url, ["my_key"]) == (
        "https://x.example/a?token=***&page_token=2&My-Key=***&X-Api-Key=***&since=2026-01-01T00:00:00Z"
    )


def test_parameters_replace_those_of_the_same_name_and_keep_the_others() -> None:
    assert with_params("https://x/a?q=a%20b&page=1", {"page": 2}) == "https://x/a?q=a%20b&page=2"
    assert (
        with_params("https://x/a?q=caf%E9+a&flag&p%61ge=1", {"page": 2})
        == "https://x/a?q=caf%E9+a&flag&page=2"
    )
    assert with_params("https://x/a?q=a+b&sig=%2f", {"page": None}) == "https://x/a?q=a+b&sig=%2f"


def batch(source: Source, holder: CoordinatorHolder, start: Any, end: Any, store: MemoryStore) -> list[int]:
    return [
        number
        for planned in holder.plan(start, end)
        for item in read_subtask(
            source,
            planned,
            SourceReaderContext(options=source.options, schema=SCHEMA, checkpoint_id=planned.checkpoint_id),
            store,
        )
        for number in item.column(0).to_pylist()  # type: ignore[union-attr]
    ]


def test_across_driver_restarts_each_record_is_in_one_batch_and_no_credential_is_in_the_state() -> None:
    """Each batch is read by two drivers, and the API gets more records in between."""
    with http_api() as api:
        api.records = records(*range(10))
        source = http(
            f"{api.url}/cursor/orders",
            recordsPath="data.items",
            pagination="cursor",
            cursorPath="meta.next",
            maxRowsPerSplit="4",
            pollInterval="1ms",
            authToken="s3cr3t",
        )
        store, start, found = MemoryStore(), INITIAL, []
        for _ in range(50):
            holder = holder_of(source, store)
            end = holder.latest_offset(start, None)
            if end == start:
                continue
            first = batch(source, holder, start, end, store)
            api.records += records(len(api.records)) if len(api.records) < 15 else []
            assert batch(source, holder_of(source, store), start, end, store) == first
            found.append(first)
            start = end
            if sum(map(len, found)) == 15:
                break
        assert [number for rows in found for number in rows] == list(range(15))
        assert max(map(len, found)) <= 4
        assert not any(b"s3cr3t" in data for data in store.files.values())
