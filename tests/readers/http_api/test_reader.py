"""The http reader reads every record once, however an API is paged, interrupted or misbehaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from flip27_source.enumerators.http_api.enumerator import HttpSplit
from flip27_source.errors import AccessError
from tests.http_api import (
    ChangesPageSize,
    Cuts,
    Fails,
    Grows,
    HangsUp,
    HttpApi,
    Misbehaviour,
    Removes,
    Repeats,
    Says,
)
from tests.readers.http_api.reading import ENDLESS, KINDS, ids_from, ids_page_by_page, read, records, split_of

EACH_KIND = pytest.mark.parametrize("kind", KINDS)
ALL = list(range(18))

PASSING: dict[str, Callable[[], Misbehaviour]] = {
    "500": Fails,
    "429": lambda: Fails(429, retry_after="7"),
    "hangs up": HangsUp,
    "cut": Cuts,
    "cut in chunks": lambda: Cuts("chunked"),
    "cut without a length": lambda: Cuts("close"),
    "repeats": Repeats,
    "grows": lambda: Grows(tuple(records(18, 19))),
    "smaller pages": lambda: ChangesPageSize(3),
    "larger pages": lambda: ChangesPageSize(6),
}
"""Misbehaviour at any request that must neither lose nor duplicate a row."""


@pytest.fixture
def api(api: HttpApi) -> HttpApi:
    api.records = records(*ALL)
    return api


@EACH_KIND
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6, 9, 18])
def test_a_last_page_with_any_number_of_records_is_read_once(api: HttpApi, kind: str, count: int) -> None:
    api.records = records(*range(count))
    assert ids_page_by_page(api, kind) == list(range(count))


@pytest.mark.parametrize("kind", [*KINDS, *ENDLESS])
def test_records_that_are_added_later_are_read_from_the_last_position(api: HttpApi, kind: str) -> None:
    share = read(api, kind)
    found = share.ids
    for number in range(18, 31):
        api.records += records(number)
        share = read(api, kind, share.position)
        found += share.ids
        assert read(api, kind, share.position).ids == []
    assert found == list(range(31))


@pytest.mark.parametrize("kind", [*KINDS, *ENDLESS])
def test_records_that_are_added_between_any_two_requests_are_read_once(api: HttpApi, kind: str) -> None:
    api.records = records(*range(7))
    api.misbehaves(*(Grows(tuple(records(7 + 2 * n, 8 + 2 * n))) for n in range(6)))
    share = read(api, kind)
    assert share.ids + ids_from(api, kind, share.position) == list(range(19))


@EACH_KIND
@pytest.mark.parametrize("how", PASSING)
@pytest.mark.parametrize("request_number", [2, *(pytest.param(n, marks=pytest.mark.long) for n in (0, 5))])
def test_every_record_is_read_once_whatever_goes_wrong_at_any_request(
    api: HttpApi, kind: str, how: str, request_number: int
) -> None:
    api.misbehaves(*[None] * request_number, PASSING[how]())
    share = read(api, kind)
    rest = ids_from(api, kind, share.position)
    wanted = [*ALL, 18, 19] if len(api.records) == 20 else ALL
    assert share.ids + rest == wanted


@EACH_KIND
@pytest.mark.parametrize("how", [name for name in PASSING if name != "grows"])
def test_every_record_is_read_once_page_by_page_whatever_goes_wrong(
    api: HttpApi, kind: str, how: str
) -> None:
    api.misbehaves(None, None, None, PASSING[how](), None, None, None)
    assert ids_page_by_page(api, kind) == ALL


@EACH_KIND
@pytest.mark.parametrize(
    "how", ["nothing", "added", *(pytest.param(how, marks=pytest.mark.long) for how in PASSING)]
)
def test_a_repeated_batch_has_the_same_rows_and_ends_at_the_same_position(
    api: HttpApi, kind: str, how: str
) -> None:
    """The batch is read from every position of a first attempt to every later one."""
    first = read(api, kind)
    starts = [(split_of(api, kind), 0), *first.marks]
    if how == "added":
        api.records += records(17, 18, 19, 20, 21, 22)[1:]
    for number, (start, rows_before) in enumerate(starts):
        for end, rows_until in starts[number + 1 :]:
            api.page_size = 4
            if how in PASSING and how != "grows":
                api.misbehaves(None, PASSING[how]())
            again = read(api, kind, start, end=end)
            assert again.ids == first.ids[rows_before:rows_until]
            assert again.position == end
            api.misbehaviours.clear()


@EACH_KIND
def test_after_a_batch_is_repeated_with_other_pages_the_next_batch_continues_after_it(
    api: HttpApi, kind: str
) -> None:
    first = read(api, kind, pages=2)
    api.page_size = 7
    again = read(api, kind, end=first.position)
    assert again.ids == first.ids
    assert again.ids + read(api, kind, again.position).ids == ALL


@EACH_KIND
@pytest.mark.parametrize("size", [1, 3, 5, 7, 100])
def test_positions_stay_valid_when_the_server_changes_its_page_size(
    api: HttpApi, kind: str, size: int
) -> None:
    for pages in range(1, 8):
        api.page_size = 4
        first = read(api, kind, pages=pages)
        if not first.marks:
            break
        api.page_size = max(size, 3) if "since" in kind else size  # more records than there are of one time
        assert first.ids + read(api, kind, first.position).ids == ALL


@pytest.mark.parametrize("checks", ["true", "false"])
@pytest.mark.parametrize("size", ["1", "3", "5", "7", "100"])
def test_numbered_pages_continue_after_the_last_record_with_another_page_size(
    api: HttpApi, size: str, checks: str
) -> None:
    for pages in range(1, 6):
        first = read(api, "sized_page", pages=pages, checkRecords=checks)
        rest = read(api, "sized_page", first.position, pageSize=size, checkRecords=checks)
        assert first.ids + rest.ids == ALL
        again = read(api, "sized_page", end=first.position, pageSize=size, checkRecords=checks)
        assert (again.ids, again.position) == (first.ids, first.position)
        last = rest.position if rest.marks else first.position
        assert read(api, "sized_page", last, pageSize="4", checkRecords=checks).ids == []
        assert first.position is not None
        of_version_1 = replace(first.position, page_size=None)
        of_an_edit = replace(first.position, last=None)
        for position in (of_version_1, of_an_edit):
            rest = read(api, "sized_page", position, pageSize=size, checkRecords=checks)
            assert first.ids + rest.ids == ALL


@EACH_KIND
@pytest.mark.parametrize(("removed", "added"), [(-1, []), (4, [18])], ids=["fewer", "other"])
def test_a_replay_that_finds_fewer_or_other_records_fails(
    api: HttpApi, kind: str, removed: int, added: list[int]
) -> None:
    first = read(api, kind)
    del api.records[removed]
    api.records += records(*added)
    with pytest.raises(AccessError, match="the batch is read again") as caught:
        read(api, kind, end=first.position)
    assert "checkRecords" in str(caught.value)


def test_an_update_is_new_also_if_only_the_last_of_many_digits_differs(api: HttpApi) -> None:
    record = b'[{"id": 1, "at": "2026-01-01T00:00:00Z", "amount": 0.12345678901234567%d}]'
    api.misbehaves(Says(record % 8), Says(record % 8))
    first = read(api, "since", idField="id")
    api.misbehaves(Says(record % 9), Says(record % 9))
    assert (first.ids, read(api, "since", first.position, idField="id").ids) == ([1], [1])


def test_a_replay_does_not_take_a_late_record_for_one_that_the_batch_had(api: HttpApi) -> None:
    first = read(api, "since")
    api.records += [{**records(99)[0], "at": api.records[-3]["at"]}]
    with pytest.raises(AccessError, match=r"there are (more|other) records than before"):
        read(api, "since", end=first.position)


@EACH_KIND
def test_finish_ends_an_endpoint_at_the_first_read_without_records(api: HttpApi, kind: str) -> None:
    share = read(api, kind, atEnd="finish")
    assert share.ids == ALL
    assert share.position is not None
    done = read(api, kind, share.position, atEnd="finish")
    assert (done.ids, done.marks) == ([], [(None, 0)])


@EACH_KIND
def test_the_batch_that_finished_an_endpoint_has_no_rows_when_it_is_read_again(
    api: HttpApi, kind: str
) -> None:
    share = read(api, kind)
    api.records += records(18, 19)
    again = read(api, kind, share.position, is_replay=True, atEnd="finish")
    assert (again.ids, again.marks) == ([], [(None, 0)])


@pytest.mark.parametrize("kind", ["cursor", "link", "body_link", "page", "strict_page", "sized_page", "none"])
def test_a_page_without_the_record_that_was_read_last_is_an_error(api: HttpApi, kind: str) -> None:
    share = read(api, kind)
    del api.records[2]
    with pytest.raises(AccessError, match="record that was read is not at its previous position") as caught:
        read(api, kind, share.position)
    assert "oldest first" in str(caught.value)


@pytest.mark.parametrize("kind", ["cursor", "link", "body_link", "page", "none"])
def test_with_ids_reading_continues_after_the_last_record_wherever_it_has_moved(
    api: HttpApi, kind: str
) -> None:
    share = read(api, kind, idField="id")
    del api.records[-2]
    api.records[-1] = {"id": 17, "at": "changed"}
    api.records += records(18, 19)
    assert read(api, kind, share.position, idField="id").ids == [18, 19]


@pytest.mark.parametrize("id_field", [{}, {"idField": "id"}], ids=["contents", "ids"])
@pytest.mark.parametrize("count", [3, 4, 6, 18])
@pytest.mark.parametrize("kind", ["cursor", "link", "body_link", "page", "strict_page", "sized_page", "none"])
def test_records_that_come_before_those_that_were_read_stop_the_query(
    api: HttpApi, kind: str, count: int, id_field: dict[str, str]
) -> None:
    api.records = records(*range(count))
    share = read(api, kind, **id_field)
    api.records.insert(0, {"id": 99, "at": "2026-02-01"})
    with pytest.raises(AccessError, match="record that was read is not at its previous position"):
        read(api, kind, share.position, **id_field)


@pytest.mark.parametrize("size_given", [False, True])
@pytest.mark.parametrize("request_number", range(1, 10))
def test_a_record_that_is_removed_from_a_page_that_was_read_hides_no_other_record(
    api: HttpApi, request_number: int, size_given: bool
) -> None:
    api.records = records(*ALL)
    options = {"pageSize": "4"} if size_given else {}
    api.misbehaves(*[None] * request_number, Removes(0))
    with pytest.raises(AccessError, match="record that was read is not at its previous position"):
        read(api, "page", read(api, "page", **options).position, **options)
    api.records = records(*ALL)
    api.requests.clear()
    api.misbehaves(*[None] * request_number, Removes(0))
    share = read(api, "page", idField="id", **options)
    assert share.ids + read(api, "page", share.position, idField="id", **options).ids == ALL


@pytest.mark.parametrize(
    ("kind", "size"), [("page", 4), *product(["cursor", "feed", "link", "body_link"], [1, 4])]
)
def test_without_checks_reading_continues_at_the_same_number_of_records(
    api: HttpApi, kind: str, size: int
) -> None:
    share = read(api, kind)
    api.page_size = size
    api.records = records(*range(100, 120))
    assert read(api, kind, share.position, checkRecords="false").ids == [118, 119]


@pytest.mark.parametrize("kind", ["cursor", "link", "body_link"])
def test_a_server_that_keeps_repeating_a_page_is_an_error_and_not_a_loop(api: HttpApi, kind: str) -> None:
    api.misbehaves(None, None, *[Repeats()] * 6)
    with pytest.raises(AccessError, match=r"failed 6 times: .* a page that was read before"):
        read(api, kind)


@pytest.mark.parametrize("back_to", [0, 4, 8])
def test_a_last_page_that_leads_back_is_an_error_wherever_a_batch_ended(api: HttpApi, back_to: int) -> None:
    shares = [read(api, "link", HttpSplit(split_id=f"{api.url}/ring/{back_to}"), pages=1)]
    while shares[-1].marks and len(shares) < 5:
        shares.append(read(api, "link", shares[-1].position, pages=1))
    assert [number for share in shares for number in share.ids] == ALL
    with pytest.raises(AccessError, match="a page that was read before"):
        read(api, "link", shares[-1].position)


def test_repeated_numbered_pages_are_an_error_and_give_no_rows(api: HttpApi) -> None:
    api.misbehaves(None, *[Repeats()] * 6)
    with pytest.raises(AccessError, match="the page has the records of an earlier page"):
        read(api, "page")


def test_without_checks_numbered_pages_may_be_equal(api: HttpApi) -> None:
    api.records = records(*[7] * 8)
    assert read(api, "page", checkRecords="false").ids == [7] * 8


def test_a_known_page_size_saves_requests(api: HttpApi) -> None:
    api.records = records(*range(16))
    read(api, "page", checkRecords="false")
    without = len(api.requests)
    read(api, "page", pageSize="4", checkRecords="false")
    assert (without, len(api.requests) - without) == (6, 5)


def test_an_empty_page_in_the_middle_is_skipped_unless_the_option_says_that_it_is_the_end(
    api: HttpApi,
) -> None:
    empty = Says(b'{"data": {"items": []}, "meta": {"next": "after-8"}}')
    api.misbehaves(None, empty)
    share = read(api, "cursor")
    assert share.ids == [0, 1, 2, 3, *range(8, 18)]
    assert [rows for _, rows in share.marks] == [4, 4, 8, 12, 14]
    api.misbehaves(None, empty)
    share = read(api, "cursor", emptyPageEnds="true")
    assert share.ids == [0, 1, 2, 3]
    assert share.position is not None
    assert (share.position.at, share.position.taken) == (None, 4), "the page may grow"


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("checks", ["true", "false"])
def test_a_page_that_always_has_a_next_one_is_left_when_that_has_records(
    api: HttpApi, kind: str, checks: str
) -> None:
    api.records = records(*range(5))
    share = read(api, kind, checkRecords=checks)
    found = share.ids
    for number in range(5, 18, 3):
        api.records += records(number, number + 1, number + 2)
        first = share.position
        share = read(api, kind, first, checkRecords=checks)
        found += share.ids
        assert read(api, kind, first, end=share.position, checkRecords=checks).ids == share.ids
        assert read(api, kind, share.position, checkRecords=checks).marks == []
    assert found == list(range(20))
    assert ids_page_by_page(api, kind) == list(range(20))


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_page_that_comes_again_instead_of_the_next_one_is_not_read_twice(api: HttpApi, kind: str) -> None:
    api.records = records(*range(15))
    position = read(api, kind).position
    for number in range(15, 40):
        api.records += records(number)
        api.misbehaves(None, Repeats())
        share = read(api, kind, position)
        assert share.ids == [number]
        position = share.position
        api.misbehaviours.clear()


def test_with_since_records_of_equal_time_are_read_once_however_late_they_arrive(api: HttpApi) -> None:
    api.page_size = 10
    time = records(0)[0]["at"]
    api.records = [{"id": number, "at": time} for number in (1, 2)]
    share = read(api, "since", pageSize="10")
    api.records = [{"id": number, "at": time} for number in (3, 2, 1)] + records(9)
    later = read(api, "since", share.position, pageSize="10")
    assert (share.ids, later.ids) == ([1, 2], [3, 9])
    assert read(api, "since", share.position, end=later.position, pageSize="10").ids == [3, 9]


def test_with_since_a_repeated_batch_leaves_new_records_of_its_last_time_to_the_next_batch(
    api: HttpApi,
) -> None:
    api.page_size = 10
    api.records = [{"id": number, "at": "2026-01-01"} for number in (1, 2)]
    first = read(api, "since", pageSize="10")
    api.records = [{"id": number, "at": "2026-01-01"} for number in (3, 2, 1)]
    assert read(api, "since", end=first.position, pageSize="10").ids == [2, 1]
    assert read(api, "since", first.position, pageSize="10").ids == [3]


def test_with_since_equal_records_without_ids_are_distinguished_by_their_number(api: HttpApi) -> None:
    api.records = records(6, 6)
    share = read(api, "since_without_ids")
    api.records = records(6, 6, 6)
    later = read(api, "since_without_ids", share.position)
    assert (share.ids, later.ids) == ([6, 6], [6])
    api.page_size = 9
    api.records = records(6, 6, 6, 6)
    assert read(api, "since_without_ids", share.position, end=later.position).ids == [6]


def test_with_since_an_update_at_the_time_of_the_record_is_a_new_record(api: HttpApi) -> None:
    api.records = [{"id": 1, "at": "2026-01-01", "status": "new"}, {"id": 2, "at": "2026-01-01"}]
    first = read(api, "since")
    api.records[0] = {"id": 1, "at": "2026-01-01", "status": "paid"}
    assert read(api, "since", end=first.position).ids == [1, 2]
    later = read(api, "since", first.position)
    assert (later.ids, read(api, "since", later.position).ids) == ([1], [])
    assert read(api, "since", first.position, end=later.position).ids == [1]


def test_more_records_of_equal_time_than_a_page_holds_are_an_error(api: HttpApi) -> None:
    api.records = [{"id": number, "at": "2026-01-01T00:00:00Z"} for number in range(5)]
    with pytest.raises(AccessError, match="the page is full but has no new record") as caught:
        read(api, "since")
    assert "request larger pages" in str(caught.value)


def test_since_refuses_records_that_come_newest_first(api: HttpApi) -> None:
    api.records = records(9, 3)
    with pytest.raises(AccessError, match="record 1 of the page has the time '2026-01-01T00:00:01Z'"):
        read(api, "none", pagination="since", sinceField="at", pageSize="9")


@pytest.mark.parametrize("at", ['"2025-12-31T00:00:00Z"', "17"], ids=["order", "kind"])
def test_a_page_of_since_that_is_out_of_order_once_is_requested_again(api: HttpApi, at: str) -> None:
    """A replica that lags, or a sort that is not stable; it says nothing about the records that follow."""
    body = b'[{"id": 0, "at": "2026-01-01T00:00:00Z"}, {"id": 9, "at": %s}]' % at.encode()
    api.misbehaves(None, Says(body))
    share = read(api, "since")
    assert (share.ids, share.pauses) == (ALL, [1])


@pytest.mark.parametrize("start", ["first", "later"])
def test_times_of_another_kind_than_in_the_batch_that_is_read_again_are_an_access_error(
    api: HttpApi, start: str
) -> None:
    first = read(api, "since")
    begin = first.marks[0][0] if start == "later" else None
    api.misbehaves(*[Says(b'[{"id": 0, "at": 17}]')] * 2)
    with pytest.raises(AccessError, match="cannot be compared"):
        read(api, "since", begin, end=first.position, httpRetries="1")


@pytest.mark.parametrize(
    "times",
    [
        [1, 2, 2, 3.5],
        ["2026-01-01", "2026-01-01T00:00:00.5Z", "2026-01-01T02:00:01+02:00", "2026-01-01T00:00:02"],
        ["9", "10", "10", "11.5"],
        [-2, "-1", 9007199254740992, 9007199254740993],
        [2e16, "20000000000000000.1", "20000000000000000.2", 2e17],
    ],
)
def test_times_may_be_numbers_or_texts_and_are_compared_as_times(api: HttpApi, times: list[object]) -> None:
    api.records = [{"id": number, "at": time} for number, time in enumerate(times)]
    options = {"pagination": "since", "sinceField": "at", "pageSize": "9"}
    share = read(api, "none", **options)
    assert share.ids == [0, 1, 2, 3]
    assert read(api, "none", share.position, **options).ids == []
    assert "e" not in api.requests[-1][1]["since"]
    api.records.pop()
    share = read(api, "none", **options)
    api.records.append({"id": 3, "at": times[3]})
    assert read(api, "none", share.position, **options).ids == [3]


def test_the_first_request_can_start_at_a_given_position(api: HttpApi) -> None:
    assert read(api, "since", startSince="2026-01-01T00:00:05Z").ids == list(range(10, 18))
    assert read(api, "cursor", startCursor="after-12").ids == list(range(12, 18))
    assert read(api, "page", firstPage="3").ids == list(range(8, 18))
