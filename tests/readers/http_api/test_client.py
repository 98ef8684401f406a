"""Requests of the http reader: when they are retried, what errors contain, and what they never contain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.errors import AccessError, Flip27Error, OptionError, SplitReadError
from tests.http_api import Answer, Cuts, Fails, HangsUp, HttpApi, IsSlow, Misbehaviour, Params, Says, http_api
from tests.readers.http_api.reading import Share, read, reader_of, split_of

SECRET = "s3cr3t/tok+en="


def test_pauses_grow_up_to_a_maximum(api: HttpApi) -> None:
    api.misbehaves(*[Fails(503)] * 5)
    assert read(api, "cursor", maxBackoff="5s").pauses == [1, 2, 4, 5, 5]


def test_retry_after_may_be_in_seconds_or_a_date(api: HttpApi) -> None:
    """1 January 2026, 00:00:00, is 1767225600 seconds after the epoch."""
    date = "Thu, 01 Jan 2026 00:00:30 GMT"
    api.misbehaves(*(Fails(429, retry_after=value) for value in ("7", date, "soon", "100000", "0")))
    share = read(api, "cursor", now_s=1_767_225_600.0)
    assert share.pauses == [7, 30, 4, 60, 0]
    assert share.ids == list(range(6))


def test_each_request_has_its_own_retries(api: HttpApi) -> None:
    api.misbehaves(Fails(), HangsUp(), None, Fails(), Cuts())
    assert read(api, "cursor", httpRetries="2").pauses == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (Fails(500, body="out of order"), "status 500 Internal Server Error, 'out of order'"),
        (Fails(429), "status 429 Too Many Requests"),
        (HangsUp(), "the connection broke"),
        (Cuts(), "the body was cut off: .*Incomplete"),
        (Cuts("chunked"), "the body was cut off: "),
        (Cuts("close"), "the answer is not JSON: Input data was truncated"),
    ],
)
def test_after_the_last_retry_the_error_says_what_failed_and_how_often(
    api: HttpApi, how: Misbehaviour, why: str
) -> None:
    first = read(api, "cursor", pages=1)
    api.misbehaves(*[how] * 3)
    with pytest.raises(AccessError, match=f"cursor=after-4 failed 3 times: .*{why}") as caught:
        read(api, "cursor", first.position, httpRetries="2")
    assert "What to do" in str(caught.value)
    assert len(api.requests) == 4


def test_a_request_to_a_server_that_is_too_slow_is_retried(api: HttpApi) -> None:
    api.misbehaves(IsSlow())
    share = read(api, "cursor", requestTimeout="100ms")
    assert (share.ids, share.pauses) == (list(range(6)), [1])


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (400, "check the path, endpoints and parameters"),
        (401, "check the credential (authEnv or authToken)"),
        (403, "check the permissions of the credential"),
        (404, "check the path and endpoints"),
        (410, "start a query with a new checkpoint"),
        (302, "redirects are not followed with credentials"),
        (301, "set the target as the URL, /none/elsewhere?token=***"),
        (304, "remove If-None-Match or If-Modified-Since"),
        (421, "check the path, endpoints and parameters"),
        (451, "check the path, endpoints and parameters"),
        (495, "check the path, endpoints and parameters"),
    ],
)
def test_other_statuses_fail_at_once_as_failures_of_access(api: HttpApi, status: int, remedy: str) -> None:
    api.misbehaves(Fails(status, body="", location="/none/elsewhere?token=abc" if status == 301 else None))
    with pytest.raises(AccessError, match=f"/cursor/orders failed: status {status}") as caught:
        read(api, "cursor", authToken=SECRET)
    assert remedy in str(caught.value)
    assert len(api.requests) == 1


def test_the_first_numbered_page_must_exist(api: HttpApi) -> None:
    api.misbehaves(Fails(404))
    with pytest.raises(AccessError, match=r"page/orders\?page=1 failed: status 404"):
        read(api, "page")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>", r"the answer is not JSON: .*: '<html>'"),
        (b"", r"the answer is not JSON: .*: ''"),
        (
            b'{"items": []}',
            "no list of records at recordsPath data.items: the member is missing; the answer has items",
        ),
        (b'{"error": "maintenance"}', "no list of records .*; the answer has error"),
        (b"null", "no list of records at recordsPath data.items: Expected `object`, got `null`"),
        (b'{"data": {"items": {}}}', "no list of records at recordsPath data.items: Expected `array`"),
        (b'{"data": []}', "no list of records at recordsPath data.items: Expected `object`"),
    ],
)
def test_an_answer_that_is_no_page_is_requested_again_and_then_a_failure_of_access(
    api: HttpApi, body: bytes, why: str
) -> None:
    """A proxy may answer for the API with status 200, which says nothing about the records that follow."""
    api.misbehaves(None, Says(body))
    assert read(api, "cursor").ids == list(range(6))
    api.misbehaves(None, *[Says(body)] * 3)
    with pytest.raises(
        AccessError, match=rf"/cursor/orders\?cursor=after-4 failed 3 times: http://.*after-4: {why}"
    ):
        read(api, "cursor", httpRetries="2")


def test_an_answer_with_a_cursor_that_is_none_is_a_failure_of_access(api: HttpApi) -> None:
    api.misbehaves(Says(b'{"data": {"items": []}, "meta": {"next": [1]}}'))
    with pytest.raises(AccessError, match=r"/cursor/orders: the value at meta.next is not a cursor: "):
        read(api, "cursor")


def test_only_a_bad_record_of_a_page_is_an_error_of_the_content(api: HttpApi) -> None:
    api.misbehaves(None, Says(b'{"data": {"items": [{}, 5]}}'))
    with pytest.raises(
        SplitReadError, match=r"after-4: record 1 of the page is not a JSON object: '5'"
    ) as caught:
        read(api, "cursor")
    assert type(caught.value) is SplitReadError
    assert len(api.requests) == 2


def test_without_records_path_the_error_names_the_keys_of_the_response(api: HttpApi) -> None:
    with pytest.raises(AccessError, match=r"no list of records in the answer: .* has data, meta") as caught:
        read(api, "none", split_of(api, "cursor"))
    assert "set recordsPath" in str(caught.value)


@pytest.mark.parametrize(
    ("how", "options"),
    [
        (Says(b'{"data": {"items": null}, "meta": {}}'), {}),
        (Says(b'{"data": {"items": null } }\n'), {}),
        (Fails(204, body=""), {}),
        (Says(b'{"data": {}}'), {"missingListIsEmpty": "true"}),
        (Says(b"{}"), {"missingListIsEmpty": "true"}),
    ],
)
def test_an_empty_list_of_records_may_be_null_or_left_out(
    api: HttpApi, how: Misbehaviour, options: dict[str, str]
) -> None:
    api.misbehaves(how)
    assert read(api, "cursor", **options).marks == []
    assert read(api, "cursor", **options).ids == list(range(6))


@pytest.mark.parametrize("body", [b"null", b"null\n", b" null", b"[]\n"])
def test_an_empty_list_may_have_blanks_around_it(api: HttpApi, body: bytes) -> None:
    """Some servers end each answer with a line end."""
    api.misbehaves(Says(body))
    assert read(api, "none", httpRetries="0").ids == []


def test_an_answer_that_is_not_ready_is_requested_again(api: HttpApi) -> None:
    api.misbehaves(Fails(202, retry_after="7"))
    share = read(api, "cursor")
    assert (share.ids, share.pauses) == (list(range(6)), [7])


@pytest.mark.parametrize(
    "link",
    [
        '<{next}>; rel="next last"',
        "<{next}>; REL=Next",
        '<{next}> ; title="a; b, <c>; rel=last" ; rel = next',
        '<{next}&v=1;2,3>; rel="next"',
        '</first>; rel="first", <{next}>; rel="prefetch  next"; rel="last"',
        ', </x>; rel="next"; anchor="/other",, <{next}>; rel=next; anchor="#here"',
        '<{next}>; rel="ne\\xt"',
    ],
)
def test_the_next_link_is_found_however_its_header_is_written(api: HttpApi, link: str) -> None:
    header = link.replace("{next}", "/link/orders?offset=4")
    api.misbehaves(Says(b'[{"id": 9}]', headers=(("Link", header),)))
    assert read(api, "link").ids == [9, 4, 5]


@pytest.mark.parametrize("header", ["/link/orders?offset=4; rel=next", '<x>; rel="last", <y; rel="next"'])
def test_a_link_header_that_cannot_be_read_is_not_taken_for_the_end(api: HttpApi, header: str) -> None:
    api.misbehaves(Says(b'[{"id": 9}]', headers=(("Link", header),)))
    with pytest.raises(AccessError, match=r"the Link header cannot be read: '(/link|<y)"):
        read(api, "link")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_link_whose_characters_are_not_escaped_leads_to_the_same_url(api: HttpApi, encoding: str) -> None:
    header = '</link/orders?offset=4&city=Zürich>; rel="next"'.encode(encoding).decode("latin-1")
    api.misbehaves(Says(b'[{"id": 9}]', headers=(("Link", header),)))
    assert read(api, "link").ids == [9, 4, 5]
    assert api.requests[1][1]["city"] == "Zürich"


def rows_of(api: HttpApi) -> list[dict[str, Any]]:
    """The rows of the endpoint that has one page."""
    reader = reader_of(api, {})
    rows = [row for item in reader.read(split_of(api, "none")) if isinstance(item, pa.RecordBatch)
            for row in item.to_pylist()]  # fmt: skip
    reader.close()
    return rows


def test_half_a_surrogate_pair_does_not_spoil_a_page(api: HttpApi) -> None:
    body = rb'[{"id": 1, "at": "\ud800\\ud800"}, {"id": 2, "at": "\uDBFF\uDFFF\udc00"}]'
    api.misbehaves(Says(body))
    assert [row["at"] for row in rows_of(api)] == ["?\\ud800", "\U0010ffff?"]


def test_a_byte_order_mark_is_skipped(api: HttpApi) -> None:
    api.misbehaves(Says(b'\xef\xbb\xbf[{"id": 1}]'))
    assert read(api, "none").ids == [1]


@pytest.mark.parametrize(
    ("charset", "encoding"),
    [
        ("windows-1252", "windows-1252"),
        ('"ISO-8859-1"', "latin-1"),
        ("utf-16", "utf-16"),
        ("UTF-16LE", "utf-16-le"),
        ("Shift_JIS", "shift-jis"),
        ("ISO-2022-JP", "iso-2022-jp"),
        ("utf8", "utf-8"),
        ("windows-1252", "utf-8"),
        ("no-such-charset", "utf-8"),
    ],
)
def test_an_answer_in_another_charset_is_read_as_the_server_declares(
    api: HttpApi, charset: str, encoding: str
) -> None:
    """JSON is in UTF-8, whatever charset a server declares out of habit."""
    text = "\u30ab\u30d5\u30a7" if "jis" in encoding or "jp" in encoding else "caf\xe9"
    api.misbehaves(
        Says(
            f'[{{"id": 1, "at": "{text}"}}]'.encode(encoding),
            headers=(("Content-Type", f"application/json; v=1; Charset={charset}"),),
        )
    )
    assert [row["at"] for row in rows_of(api)] == [text]


@pytest.mark.parametrize("charset", ["no-such-charset", "cp720x", "ascii", "hex", "undefined"])
def test_an_answer_in_a_charset_that_cannot_be_read_is_a_failure_of_access(
    api: HttpApi, charset: str
) -> None:
    header = ("Content-Type", f"application/json;charset={charset}")
    answer = Says(b'[{"id": 1, "at": "caf\xe9"}]', headers=(header,))
    api.misbehaves(answer)
    assert read(api, "none").ids == list(range(6))
    api.misbehaves(answer)
    with pytest.raises(AccessError, match=f"is not in UTF-8, and not in the charset '{charset}' either"):
        read(api, "none", httpRetries="0")


def test_a_link_to_another_server_is_not_followed(api: HttpApi) -> None:
    api.misbehaves(Says(b"[]", headers=(("Link", '<https://evil.example/x>; rel="next"'),)))
    with pytest.raises(AccessError, match=r"leads to another server, https://evil\.example/x"):
        read(api, "link", authToken=SECRET)
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("options", "header", "value"),
    [
        ({"authToken": SECRET}, "Authorization", f"Bearer {SECRET}"),
        ({"authEnv": "ORDERS_TOKEN"}, "Authorization", "Bearer from-the-environment"),
        ({"authToken": SECRET, "authScheme": "Token"}, "Authorization", f"Token {SECRET}"),
        ({"authToken": SECRET, "authScheme": ""}, "Authorization", SECRET),
        ({"authToken": SECRET, "authHeader": "X-Api-Key"}, "X-Api-Key", SECRET),
        ({"headers": '{"X-Tenant": "7"}'}, "X-Tenant", "7"),
        ({}, "Cache-Control", "no-cache"),
        ({"headers": '{"cache-control": "max-age=5"}'}, "cache-control", "max-age=5"),
    ],
)
def test_credentials_and_headers_are_sent_with_every_request(
    api: HttpApi, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], header: str, value: str
) -> None:
    monkeypatch.setenv("ORDERS_TOKEN", "from-the-environment\n")
    read(api, "link", **options)
    assert [headers.get(header) for _, _, headers in api.requests] == [value, value]


def test_a_token_in_the_url_is_sent_and_removed_from_links(api: HttpApi) -> None:
    api.token = SECRET
    share = read(api, "link", authToken=SECRET, authParam="token")
    assert share.ids == list(range(6))
    assert [params["token"] for _, params, _ in api.requests] == [SECRET, SECRET]
    assert SECRET not in repr(share.marks)
    assert "token" not in repr(share.marks)


def test_credentials_from_netrc_are_not_sent(
    api: HttpApi, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    read(api, "none")
    read(api, "none", authToken=SECRET)
    assert [headers.get("Authorization") for _, _, headers in api.requests] == [None, f"Bearer {SECRET}"]


@dataclass(frozen=True)
class Echoes(Misbehaviour):
    """Repeats the credential of the request in an answer that is not JSON, after ``at`` characters."""

    status: int
    at: int = 0
    escaped: bool = False
    framing: str = "length"

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        headers = api.requests[-1][2]
        sent = headers.get("Authorization") or headers.get("X-Api-Key") or params["my-token"]
        sent = sent.replace("/", r"\/") if self.escaped else sent
        return Answer(b"x" * self.at + sent.encode(), status=self.status, framing=self.framing)


@pytest.mark.parametrize(
    "how",
    [
        *(Echoes(status, at) for status in (200, 400, 500) for at in (0, 80, 190)),
        Echoes(200, escaped=True),
        Echoes(200, framing="close"),
    ],
    ids=str,
)
@pytest.mark.parametrize("sent_by", [{}, {"authParam": "my-token"}, {"authHeader": "X-Api-Key"}])
def test_no_error_contains_the_credential(api: HttpApi, how: Misbehaviour, sent_by: dict[str, str]) -> None:
    api.misbehaves(*[how] * 3)
    options = {"authToken": SECRET, "httpRetries": "2", **sent_by}
    with pytest.raises(Flip27Error) as caught:
        read(api, "link", pagination="since", sinceField="at", pageSize="5", **options)
    assert SECRET not in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_an_unreachable_server_is_named_without_the_credential() -> None:
    with http_api() as gone:
        pass
    options = {"authToken": SECRET, "authParam": "t", "headers": '{"X-Key": "k3y-value"}'}
    with pytest.raises(AccessError, match=rf"GET {gone.url}/link/orders failed 2 times: ") as caught:
        read(gone, "link", httpRetries="1", **options)
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"authToken": "a\nb"}, r"the token of option authToken \(not shown\) contains characters"),
        (
            {"authEnv": "NOT_SET_ANYWHERE"},
            "the environment variable NOT_SET_ANYWHERE, which option authEnv names, is not set",
        ),
        ({"authEnv": "HOME", "authToken": "x"}, "authEnv and authToken are both set"),
        ({"authParam": "t", "authHeader": "X-T", "authToken": "x"}, "authParam puts the token into the URL"),
        ({"headers": '{"X-T": "a\\nb"}'}, r"the header 'X-T' of option headers has a value \(not shown\)"),
        ({"headers": "s3cr3t"}, r"option headers has the value \(not shown\)"),
        ({"pagination": "cursor"}, "option cursorPath is not set"),
        ({"pagination": "since", "pageSize": "5"}, "option sinceField is not set"),
        ({"pagination": "since", "sinceField": "at"}, "option pageSize is not set"),
        ({"pageSizeParam": "limit"}, "option pageSize is not set"),
        ({"pageParam": "p"}, "option pageParam is for pagination page, but pagination is none"),
        ({"recordsPath": "a..b"}, "names joined by dots"),
    ],
)
def test_options_that_cannot_be_used_are_refused_without_their_secrets(
    api: HttpApi, options: dict[str, str], why: str
) -> None:
    with pytest.raises(OptionError, match=why) as caught:
        reader_of(api, options, share=Share())
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "proxy",
    [
        "http://tom:hunter2@",
        "http://tom:hunter2/x@127.0.0.1:9",
        "http://tom:hunter2@[::1:9",
        "ftp://tom:hunter2@h",
    ],
)
def test_a_proxy_that_is_no_url_is_an_access_error_that_names_it_without_its_password(
    api: HttpApi, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    """As any other server that cannot be reached: no option quarantines or ignores the endpoint."""
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(AccessError, match="through the proxy") as caught:
        read(api, "none", httpRetries="0")
    assert "hunter2" not in str(caught.value)
    assert "http_proxy" in str(caught.value)
