"""A hostile or broken HTTP API cannot get the credential, hang a batch, or fill the memory."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import ssl
import tracemalloc
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from flip27_source.enumerators.http_api.enumerator import HttpSplit
from flip27_source.errors import AccessError, SplitReadError
from tests.certificates import self_signed
from tests.http_api import Answer, Fails, HttpApi, Misbehaviour, Params, Says, http_api
from tests.raw_server import RawServer, answer, drips, floods, raw_server, says
from tests.readers.http_api.reading import KINDS, Share, read, reader_of

SECRET = "s3cr3t/tok+en="


def read_raw(server: RawServer, kind: str = "none", **options: str) -> Share:
    """Read the endpoint of a raw server without retries."""
    split = HttpSplit(split_id=f"{server.url}/orders")
    given = {"path": server.url, "httpRetries": "0", **KINDS[kind], **options}
    share = Share()
    reader = reader_of(HttpApi(server.url), given, share=share)
    try:
        for item in reader.read(split):
            if hasattr(item, "column"):
                share.ids += item.column("id").to_pylist()
            else:
                share.marks.append((item.split, len(share.ids)))
    finally:
        reader.close()
    return share


HOSTILE_LINKS = {
    "backslash before the user": "http://{evil}\\@{api}/next",
    "backslash for the slashes": "http:\\\\{evil}\\next",
    "user": "http://{api}@{evil}/next",
    "user and password": "http://me:pw@{api}/next",
    "escaped host": "http://127%2e0.0.1/next",
    "host that cannot be read": "http://[127.0.0.1/next",
    "port that cannot be read": "http://127.0.0.1:8o/next",
    "no host": "http:///next",
    "no slashes": "http:{evil}/next",
    "another scheme": "ftp://{api}/next",
    "host of another server": "//{evil}/next",
}
NOT_IN_HEADERS = {
    "line break": "http://{evil}/next\r\n?@{api}",
    "tab in the host": "http://127.0\t.0.1/next",
    "null": "http://{api}/next\0",
}


def leads_to(link: str, *items: object) -> Says:
    return Says(json.dumps({"items": items, "links": {"next": link}}).encode())


@pytest.mark.parametrize(
    ("kind", "link"),
    [
        pytest.param(kind, link, id=f"{kind}-{name}")
        for kind, links in (("link", HOSTILE_LINKS), ("body_link", HOSTILE_LINKS | NOT_IN_HEADERS))
        for name, link in links.items()
    ],
)
def test_a_link_that_parsers_may_read_differently_is_refused_and_no_token_is_sent(
    api: HttpApi, kind: str, link: str
) -> None:
    with http_api() as evil:
        hosts = {"evil": evil.url.removeprefix("http://"), "api": api.url.removeprefix("http://")}
        following = link.format(**hosts)
        if kind == "link":
            api.misbehaves(Says(b"[]", headers=(("Link", f'<{following}>; rel="next"'),)))
        else:
            api.misbehaves(leads_to(following))
        with pytest.raises(AccessError, match="the link to the next page") as caught:
            read(api, kind, authToken=SECRET)
        assert evil.requests == []
    assert len(api.requests) == 1
    assert SECRET not in str(caught.value)
    assert "pw" not in str(caught.value)
    assert str(caught.value).replace("\n", "").isprintable()


def test_links_as_servers_write_them_are_followed(api: HttpApi) -> None:
    host = api.url.removeprefix("http://")
    for link in (
        "?offset=4",
        "orders?offset=4",
        "/body_link/orders?offset=4#top",
        f"//{host}/body_link/orders?offset=4",
        f"{api.url.replace('http', 'HTTP')}/body_link/orders?offset=4",
        f"{api.url}/body_link/orders?offset=4&who=me@example.com&at=10:30",
        "./orders?offset=4&name=a b\u00e9",
    ):
        api.misbehaves(leads_to(link, {"id": 7}))
        assert read(api, "body_link").ids == [7, 4, 5], link


def test_a_position_on_another_server_is_refused_without_a_request(api: HttpApi) -> None:
    """The position is refused no matter how it came into the state."""
    with http_api() as evil:
        hosts = (evil.url.removeprefix("http://"), api.url.removeprefix("http://"))
        for at in (f"{evil.url}/next", "http://{}\\@{}/next".format(*hosts)):
            split = HttpSplit(split_id=f"{api.url}/link/orders", at=at)
            with pytest.raises(AccessError, match="another server"):
                read(api, "link", split, authToken=SECRET)
        assert evil.requests == []
    assert api.requests == []


def test_an_endpoint_in_the_state_that_no_option_names_gets_no_request(api: HttpApi) -> None:
    with http_api() as evil:
        split = HttpSplit(split_id=f"{evil.url}/none")
        for again in (False, True):
            with pytest.raises(AccessError, match="whose server no option names") as caught:
                read(api, "none", split, authToken=SECRET, is_replay=again)
            assert f"{evil.url}/none" in str(caught.value)
        assert evil.requests == []


@pytest.mark.parametrize("name", ["sig", "X-Amz-Signature", "X-Goog-Signature", "Signature", "access_token"])
def test_a_signed_link_is_refused_because_it_would_be_stored(api: HttpApi, name: str) -> None:
    api.misbehaves(leads_to(f"/body_link/orders?offset=4&{name}=0123456789abcdef"))
    with pytest.raises(AccessError, match=f"has the parameter {name}, which looks like a") as caught:
        read(api, "body_link")
    assert "0123456789abcdef" not in str(caught.value)
    assert len(api.requests) == 1


@pytest.mark.parametrize("name", ["token", "key", "page_token", "after_key"])
def test_a_link_with_the_token_of_a_page_is_followed(api: HttpApi, name: str) -> None:
    api.misbehaves(leads_to(f"/body_link/orders?offset=4&{name}=abc"))
    assert read(api, "body_link").ids == [4, 5]


@pytest.mark.parametrize("spelt", [SECRET, "s3cr3t%2ftok%2Ben%3d", "%73%33cr3t%2Ftok%2Ben%3D"])
def test_a_link_that_holds_the_credential_in_any_spelling_is_refused(api: HttpApi, spelt: str) -> None:
    api.misbehaves(leads_to(f"/body_link/orders?page_token={spelt}"))
    with pytest.raises(AccessError, match="contains the credential, which is never stored") as caught:
        read(api, "body_link", authToken=SECRET)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("kind", ["cursor", "body_link"])
def test_an_overlong_position_is_refused(api: HttpApi, kind: str) -> None:
    endless = "x" * 1_000_000
    answered = {"data": {"items": []}, "meta": {"next": endless}, "items": [], "links": {"next": endless}}
    api.misbehaves(Says(json.dumps(answered).encode()))
    with pytest.raises(AccessError, match="has 1000000 characters, but at most 8192") as caught:
        read(api, kind)
    assert len(str(caught.value)) < 1000


def test_a_cursor_that_cannot_be_read_is_not_taken_for_the_end(api: HttpApi) -> None:
    for cursor in (b"9" * 5000, b"1e999", b"1.5"):
        api.misbehaves(Says(b'{"data": {"items": []}, "meta": {"next": %s}}' % cursor))
        with pytest.raises(AccessError, match="is not a cursor"):
            read(api, "cursor")


def test_an_overlong_time_is_refused(api: HttpApi) -> None:
    api.misbehaves(Says(json.dumps([{"id": 1, "at": "9" * 1_000_000}]).encode()))
    with pytest.raises(SplitReadError, match="is not a time") as caught:
        read(api, "since")
    assert len(str(caught.value)) < 1000


def test_a_number_whose_exponent_no_decimal_has_is_read_and_is_no_time(api: HttpApi) -> None:
    huge = b"1e" + b"9" * 19
    api.misbehaves(Says(b'[{"id": 1, "at": 5, "more": %s}]' % huge))
    assert read(api, "since_without_ids").ids == [1]
    api.misbehaves(Says(b'[{"id": 1, "at": %s}]' % huge))
    with pytest.raises(SplitReadError, match=r"the value '1e9{19}' at at is not a time"):
        read(api, "since")


def test_cookies_are_not_kept(api: HttpApi) -> None:
    """With cookies, answers would depend on earlier requests of the process."""
    link = ("Link", '</link/orders?offset=4>; rel="next"')
    api.misbehaves(Says(b'[{"id": 1}]', headers=(("Set-Cookie", "a=b; Path=/"), link)))
    assert read(api, "link").ids == [1, 4, 5]
    assert [headers.get("Cookie") for _, _, headers in api.requests] == [None, None]


def test_no_log_contains_the_credential_at_any_log_level(
    api: HttpApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    read(api, "link", authToken=SECRET, authParam="token")
    with raw_server(says(b"HTTP/1.1 200 OK\r\nno header\r\nContent-Length: 2\r\n\r\n[]")) as server:
        read_raw(server, authToken=SECRET, authParam="token")
    assert "s3cr3t" not in caplog.text
    requests.get(api.url + "/none?page=1", timeout=10)
    assert "/none?page=1" in caplog.text, "the requests of others are logged as ever"


@pytest.mark.parametrize("location", ["http://[", "http://{evil}\\@{api}/", "x" * 60_000, "\x1b[2J", ""])
def test_a_redirect_is_reported_whatever_its_target(api: HttpApi, location: str) -> None:
    with http_api() as evil:
        hosts = {"evil": evil.url.removeprefix("http://"), "api": api.url.removeprefix("http://")}
        api.misbehaves(Fails(307, location=location.format(**hosts)))
        with pytest.raises(AccessError, match="status 307 Temporary Redirect") as caught:
            read(api, "none", authToken=SECRET)
        assert evil.requests == []
    assert len(str(caught.value)) < 2000
    assert str(caught.value).replace("\n", "").isprintable()


PAGE = b'[{"id": 1}]'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SLOW = b" " * 3_000
"""More bytes than a server that drips can send before the deadline."""


@pytest.mark.parametrize(
    ("first", "slowly"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3002\r\n\r\n[", SLOW + b"]"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[", SLOW + b"]"),
        (CHUNKED, b"1\r\n \r\n" * 500),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", SLOW),
        (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + SLOW),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 150),
        (b"HTTP/1.1 500 No\r\nContent-Length: 3000\r\n\r\n", SLOW),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", gzip.compress(SLOW * 200, 0)),
    ],
    ids=["body", "body without a length", "chunks", "header", "status", "100", "error", "gzip"],
)
def test_a_slowly_dripping_response_is_aborted_at_the_deadline(first: bytes, slowly: bytes) -> None:
    with raw_server(drips(first, slowly)) as server:
        with pytest.raises(AccessError, match=r"no complete answer within 0\.3 s|status 500") as caught:
            read_raw(server, requestTimeout="300ms")
        assert server.left.wait(10)
    assert "requestTimeout" in str(caught.value)


def test_the_second_request_of_a_connection_has_its_own_deadline() -> None:
    def script(server: RawServer, connection: socket.socket) -> None:
        connection.sendall(answer(PAGE, 'Link: </next>; rel="next"'))
        server.read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n")
        server.drip(connection, SLOW)

    with raw_server(script) as server:
        with pytest.raises(AccessError, match=r"/next failed 1 times: no complete answer within 0\.3 sec"):
            read_raw(server, "link", requestTimeout="300ms")
        assert server.left.wait(10)
        assert (server.paths, server.connections) == (["/orders", "/next"], 1)


def test_bytes_beyond_the_length_of_a_response_are_not_taken_for_the_next_response() -> None:
    smuggled = answer(b'[{"id": 666}]')

    def script(server: RawServer, connection: socket.socket) -> None:
        if server.connections == 1:
            connection.sendall(answer(PAGE, 'Link: </next>; rel="next"') + smuggled)
            server.read_request(connection)
        connection.sendall(answer(b'[{"id": 2}]'))

    with raw_server(script) as server:
        assert read_raw(server, "link").ids == [1, 2]
        assert server.paths == ["/orders", "/next"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a key and a certificate for 127.0.0.1."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_tls_responses_are_read_and_dripping_ones_are_aborted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with raw_server(says(answer(PAGE)), tls) as server:
        assert read_raw(server).ids == [1]
    whole = answer(b"[" + SLOW + b"]")
    with raw_server(drips(whole[:60], whole[60:]), tls) as server:
        with pytest.raises(AccessError, match=r"no complete answer within 0\.5 seconds"):
            read_raw(server, requestTimeout="500ms")
        assert server.left.wait(10)


def test_a_dripping_tls_handshake_is_aborted() -> None:
    handshake = b"\x16\x03\x03\x40\x00" + b"\x02" * 3000
    with raw_server(drips(b"", handshake), before_tls=True) as server:
        with pytest.raises(AccessError, match=r"no complete answer within 0\.3 seconds"):
            read_raw(server, requestTimeout="300ms")
        assert server.left.wait(10)


def test_a_dripping_proxy_connection_is_aborted_and_the_password_is_in_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with raw_server(drips(b"", b"HTTP/1.1 200 Connection established\r\nX: " + SLOW)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//tom:hunter2@"))
        api = RawServer("https://127.0.0.1:9")
        with pytest.raises(AccessError, match=r"no complete answer within 0\.3 seconds") as caught:
            read_raw(api, requestTimeout="300ms")
        assert proxy.left.wait(10)
        assert proxy.requests[0].startswith(b"CONNECT 127.0.0.1:9 ")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(AccessError, match="ProxyError") as caught:
        read_raw(api)
    assert "hunter2" not in str(caught.value)


def packed(body: bytes, *codings: str) -> bytes:
    names = ", ".join(codings)
    return answer(body, f"Content-Encoding: {names}")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(packed(gzip.compress(PAGE), "gzip"), id="gzip"),
        pytest.param(packed(gzip.compress(PAGE), "x-gzip"), id="x-gzip"),
        pytest.param(packed(gzip.compress(PAGE), "GZIP", "identity"), id="gzip and identity"),
        pytest.param(
            packed(gzip.compress(PAGE[:5]) + gzip.compress(PAGE[5:]), "gzip"), id="two gzip members"
        ),
        pytest.param(packed(zlib.compress(PAGE), "deflate"), id="deflate"),
        pytest.param(packed(PAGE, "identity"), id="identity"),
    ],
)
def test_compressed_responses_are_read(data: bytes) -> None:
    with raw_server(says(data)) as server:
        assert read_raw(server).ids == [1]
    assert b"\r\nAccept-Encoding: gzip\r\n" in server.requests[0]


def test_a_large_response_is_read_completely(api: HttpApi) -> None:
    rows = [{"id": number, "at": "x" * 100} for number in range(20_000)]
    body = json.dumps(rows).encode()
    for data in (answer(body), packed(gzip.compress(body, 1), "gzip")):
        with raw_server(says(data)) as server:
            assert read_raw(server).ids == list(range(20_000))


def test_a_response_that_decompresses_without_bound_is_refused_before_it_is_decompressed() -> None:
    bomb = gzip.compress(b" " * 200_000_000, 1)
    assert len(bomb) < 1_000_000
    with raw_server(says(packed(bomb, "gzip"))) as server:
        tracemalloc.start()
        try:
            with pytest.raises(AccessError, match="unpacks to more than the 10485760 bytes") as caught:
                read_raw(server, maxResponseBytes="10m", httpRetries="5")
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak_bytes < 40_000_000
    assert server.connections == 1
    assert "maxResponseBytes" in str(caught.value)


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"Content-Length: 99999999999\r\n\r\n", b" "),
        (b"\r\n", b" "),
        (b"Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n", b" "),
        (b"Content-Encoding: gzip\r\n\r\n", gzip.compress(b"")),
    ],
    ids=["length", "no length", "chunk", "empty gzip members"],
)
def test_an_endless_response_is_refused(head: bytes, piece: bytes) -> None:
    with raw_server(floods(b"HTTP/1.1 200 OK\r\n" + head, piece * 1_000)) as server:
        with pytest.raises(AccessError, match="more than the 1048576 bytes of maxResponseBytes"):
            read_raw(server, maxResponseBytes="1m", httpRetries="5")
        assert server.connections == 1


@pytest.mark.parametrize("status", ["302 Found", "404 Not Found", "500 Internal Server Error"])
def test_only_the_beginning_of_an_endless_error_response_is_read(status: str) -> None:
    head = f"HTTP/1.1 {status}\r\nLocation: /there\r\n\r\n".encode()
    with raw_server(floods(head, b"oops" * 25_000)) as server:
        with pytest.raises(AccessError, match=f"status {status}, 'oopsoops") as caught:
            read_raw(server)
        assert server.left.wait(10)
    assert len(str(caught.value)) < 1000


BAD = {
    "not HTTP": (b"<html>old server</html>\r\n\r\n", "the connection broke"),
    "HTTP 0.9": (b"[]", "the connection broke"),
    "long header": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000, "the connection broke"),
    "many headers": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000, "the connection broke"),
    "long link": (answer(PAGE, "Link: <" + "x" * 1_000_000 + '>; rel="next"'), "the connection broke"),
    "long chunk size": (CHUNKED + b"1" * 1_000_000, "the body was cut off"),
    "chunk without a size": (CHUNKED + b"xyz\r\n[]\r\n0\r\n\r\n", "the body was cut off"),
    "truncated chunks": (CHUNKED + b"2\r\n[]\r\n", "the body was cut off"),
    "length too large": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[]", "the body was cut off"),
    "two lengths": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n[] ",
        "the body was cut off",
    ),
    "length too small": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + PAGE, "is not JSON"),
    "truncated gzip": (packed(gzip.compress(PAGE)[:-9], "gzip"), "the compressed body is truncated"),
    "damaged gzip": (packed(b"x" * 100, "gzip"), "the compressed body is damaged"),
    "gzip with trailing bytes": (packed(gzip.compress(PAGE) + b"more", "gzip"), "body is damaged"),
    "gzip twice": (packed(gzip.compress(gzip.compress(PAGE)), "gzip", "gzip"), "encoded with gzip, gzip"),
    "another coding": (packed(PAGE, "br"), "encoded with br, which was not requested"),
    "another transfer": (CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n", "encoded with gzip"),
    "deep": (answer(b'[{"id":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}]"), "it is nested too deeply"),
    "status": (b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n", "status 999"),
    "early hints": (b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer(PAGE), "status 103"),
}


@pytest.mark.parametrize(("data", "why"), BAD.values(), ids=BAD)
def test_an_invalid_response_is_a_clear_error(data: bytes, why: str) -> None:
    with raw_server(says(data)) as server, pytest.raises(AccessError, match=why) as caught:
        read_raw(server)
    assert f"{server.url}/orders" in str(caught.value)
    assert "What to do" in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_a_deeply_nested_record_is_read(api: HttpApi) -> None:
    for depth in (100, 900):
        api.misbehaves(Says(b'[{"id": 1, "x": %s%s}]' % (b"[" * depth, b"]" * depth)))
        assert read(api, "none", mode="FAILFAST").ids == [1]


@dataclass(frozen=True)
class LeadsOn(Misbehaviour):
    """Answers with pages without records, of which each has a next one."""

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        following = f"after-{len(api.requests) + 100}"
        return Answer({"data": {"items": []}, "meta": {"next": following}})


def test_a_repeated_batch_does_not_follow_empty_pages_for_ever(api: HttpApi) -> None:
    first = read(api, "cursor")
    api.misbehaves(*[LeadsOn()] * 200)
    with pytest.raises(AccessError, match="100 requests in a row returned no rows"):
        read(api, "cursor", end=first.position, most_requests=100)


def test_empty_pages_are_followed_as_long_as_the_batch_may_end_after_them(api: HttpApi) -> None:
    api.misbehaves(*[LeadsOn()] * 200)
    assert len(read(api, "cursor", pages=150, most_requests=100).marks) == 150


def test_a_repeated_batch_ends_even_if_records_are_added_before_its_end(api: HttpApi) -> None:
    first = read(api, "since")

    class GrowsWithin(Misbehaviour):
        def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
            at = f"2026-01-01T00:00:00.{len(api.requests):06}Z"
            return Answer([{"id": 1000 + len(api.requests), "at": at}])

    api.misbehaves(*[GrowsWithin()] * 200)
    with pytest.raises(AccessError, match="there are more records than before"):
        read(api, "since", end=first.position)
    assert len(api.requests) < 100


@pytest.mark.parametrize("wait", ["9" * 4000, "Thu, 01 Jan 99999999 00:00:00 +9999", "-5", "\xb2", "1e9"])
def test_an_impossible_retry_after_is_replaced_by_a_short_pause(api: HttpApi, wait: str) -> None:
    api.misbehaves(Fails(503, retry_after=wait))
    share = read(api, "none", maxBackoff="5s")
    assert share.ids == list(range(6))
    assert share.pauses in ([1], [5])
