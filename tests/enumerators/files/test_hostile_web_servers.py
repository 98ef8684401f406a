"""A hostile or broken web server obtains no credentials of others, blocks no query and fills no memory."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from flip27_source.enumerators.files.entries import modified_us
from flip27_source.enumerators.files.listing.choice import open_listers
from flip27_source.enumerators.files.listing.web_servers import links_of
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DiscoveryError, Flip27Error, SplitReadError
from flip27_source.file_systems.paths import open_listed
from flip27_source.options import Options
from flip27_source.readers.files.input import open_raw, read_whole
from flip27_source.readers.files.web_files import downloaded
from flip27_source.readers.text import TextReader
from flip27_source.testing import MicroBatchEngine
from tests.deadline import soon
from tests.other_file_systems import WebFiles, http_files
from tests.raw_server import RawServer, answer, drips, floods, raw_server, says

from .file_sources import all_lines, files_query

KEY = "s3cr3t-of-tom"
NO_OPTIONS = Options.parse({}, TextReader.options)
HEADERS = json.dumps({"Authorization": f"Bearer {KEY}", "X-Api-Key": KEY})
CREDENTIALS = [
    {"storage.client_kwargs": json.dumps({"headers": json.loads(HEADERS)})},
    {"storage.headers": HEADERS},
    {"storage.client_kwargs": json.dumps({"cookies": {"session": KEY}})},
    {"storage.cookies": json.dumps({"session": KEY})},
    {},
]


def query(url: str, **options: str) -> MicroBatchEngine:
    return files_query(url, discoveryRetries="0", **options)


def redirecting(name: str, target: str, status: int = 302) -> type[WebFiles]:
    """Return the class of a server that answers requests for ``name`` with a redirect."""

    class Redirecting(WebFiles):
        def is_answered(self) -> bool:
            if self.path.strip("/") != name:
                return False
            self.send_response(status)
            self.send_header("Location", target)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return True

    return Redirecting


@contextmanager
def another_server() -> Iterator[RawServer]:
    """Start a server that answers every request and records the requests."""
    with raw_server(says(answer(b"stolen\n", "Content-Type: text/plain"))) as server:
        yield server


@pytest.mark.parametrize("options", CREDENTIALS, ids=str)
@pytest.mark.parametrize("name", ["a.txt", "", "below"])
def test_a_redirect_to_another_server_is_refused_without_a_request_to_it(
    name: str, options: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "below").mkdir()
    for path in ("a.txt", "below/b.txt"):
        (tmp_path / path).write_text("ours\n")
    with another_server() as other:
        handler = redirecting(name, f"{other.url}/a.txt")
        with (
            http_files(tmp_path, handler) as url,
            pytest.raises(Flip27Error, match=rf"redirects from {url} to {other.url}") as caught,
        ):
            all_lines(query(url, recursiveFileLookup="true", **options))
        assert other.connections == 0
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("options", CREDENTIALS, ids=str)
def test_a_planned_file_is_not_read_from_another_server_after_a_redirect(
    options: dict[str, str], tmp_path: Path
) -> None:
    parsed = Options.parse(options, TextReader.options)
    with another_server() as other, http_files(tmp_path, redirecting("a.txt", f"{other.url}/a.txt")) as url:
        split = FileSplit(path=f"{url}/a.txt", length=7, modified_us=0)
        with pytest.raises(SplitReadError, match=f"redirects from {url} to {other.url}"):
            read_whole(split, parsed)
        with pytest.raises(SplitReadError, match=f"redirects from {url} to {other.url}"):
            open_raw(split, parsed)
        assert other.connections == 0


@pytest.mark.parametrize(
    "location",
    [
        "//{other}/a.txt", "http:\\\\{other}\\a.txt", "http://{other}\\@{own}/a.txt",
        "http://{own}@{other}/a.txt", "https://{own}/a.txt", "http://[{other}/a.txt", "ftp://{other}/a.txt",
        "file:///etc/passwd", "",
    ],
)  # fmt: skip
def test_only_the_server_of_the_path_is_contacted_whatever_a_redirect_says(
    location: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("ours\n")
    with another_server() as other:

        class Redirecting(WebFiles):
            def is_answered(self) -> bool:
                own = self.headers["Host"]
                self.send_response(HTTPStatus.FOUND)
                self.send_header("Location", location.format(other=other.url[7:], own=own))
                self.end_headers()
                return True

        with http_files(tmp_path, Redirecting) as url:
            split = FileSplit(path=f"{url}/a.txt", length=7, modified_us=0)
            with pytest.raises(SplitReadError):
                read_whole(split, Options.parse(CREDENTIALS[0], TextReader.options))
        assert other.connections == 0


def test_a_redirect_within_the_server_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("ours\n")
    (tmp_path / "a.txt").write_text("never\n")
    with http_files(tmp_path, redirecting("a.txt", "/real.txt")) as url:
        assert all_lines(query(url)) == ["ours", "ours"]


def test_endless_redirects_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("never\n")
    with (
        http_files(tmp_path, redirecting("a.txt", "/a.txt")) as url,
        pytest.raises(DiscoveryError, match="TooManyRedirects"),
    ):
        all_lines(query(url))


def test_netrc_and_the_proxies_of_the_environment_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with another_server() as proxy, raw_server(says(answer(b"0123456789"))) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        read_whole(FileSplit(path=f"{server.url}/a.txt", length=10, modified_us=0), NO_OPTIONS)
        assert proxy.connections == 0
    assert b"Authorization" not in server.requests[0]


def page(html: str) -> bytes:
    return answer(html.encode(), "Content-Type: text/html", "Connection: close")


@pytest.mark.parametrize("coding", ["gzip", "deflate, gzip", "br", "identity"])
def test_a_compressed_page_is_read_or_refused_and_never_taken_for_empty(coding: str) -> None:
    html = b'<a href="a.txt">a</a>'
    body = gzip.compress(html) if coding == "gzip" else html
    sent = answer(body, f"Content-Encoding: {coding}", "Content-Type: text/html", "Connection: close")
    with raw_server(says(sent)) as server:
        lister = open_listers([server.url], {})
        if coding in ("gzip", "identity"):
            assert [path for path, _ in lister.files(recursive=False)] == [f"{server.url}/a.txt"]
        else:
            with pytest.raises(ValueError, match=f"encoded with {coding}, which was not requested"):
                list(lister.files(recursive=False))
    assert b"Accept-Encoding: identity\r\n" in server.requests[0]


def test_a_page_that_decompresses_without_bound_is_refused() -> None:
    bomb = gzip.compress(b" " * 400_000_000, 1)
    sent = answer(bomb, "Content-Encoding: gzip", "Content-Type: text/html", "Connection: close")
    with raw_server(says(sent)) as server:
        tracemalloc.start()
        try:
            with pytest.raises(DiscoveryError, match="the page has more than 134217728 bytes"):
                all_lines(query(server.url))
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak_bytes < 300_000_000


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/10\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
    ],
    ids=["part", "length", "chunk"],
)
def test_no_more_bytes_are_read_than_the_length_of_the_file(head: bytes) -> None:
    with raw_server(floods(head)) as server:
        split = FileSplit(path=f"{server.url}/a.txt", length=10, modified_us=0)
        with pytest.raises(SplitReadError, match="had 10 bytes when it was discovered and has 11 now"):
            read_whole(split, NO_OPTIONS)
        assert server.left.wait(10)


def test_a_slowly_dripping_download_is_aborted() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n"
    with raw_server(drips(head, b"x" * 3000)) as server:
        fs, name = open_listed(f"{server.url}/a.txt", {})
        with pytest.raises(TimeoutError):
            downloaded(fs, name, 300, patience_s=0.3)
        assert server.left.wait(10)


@pytest.mark.parametrize(
    ("size", "head", "why"),
    [
        (10, "Content-Length: 99999999999\r\n", "more than 10 bytes"),
        (10, "Transfer-Encoding: chunked\r\n\r\nfffffffff", "more than 10 bytes"),
        (10, "Content-Encoding: gzip\r\nContent-Length: 99999999999\r\n", "compresses the file"),
    ],
)
def test_a_download_reads_no_more_bytes_than_the_file_has(size: int, head: str, why: str) -> None:
    with raw_server(floods(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode())) as server:
        fs, name = open_listed(f"{server.url}/a.txt", {})
        with pytest.raises(ValueError, match=why):
            downloaded(fs, name, size)
        assert server.left.wait(10)


def test_a_response_with_another_range_than_requested_is_refused() -> None:
    part = answer(b"0123456789", "Content-Range: bytes 10-19/100", status="206 Partial Content")
    with raw_server(says(part)) as server:
        split = FileSplit(path=f"{server.url}/a.txt", length=10, modified_us=0)
        with pytest.raises(SplitReadError, match="the response starts at byte 10"):
            read_whole(split, NO_OPTIONS)


@pytest.mark.parametrize(
    "piece", ["<a ", " ", "x ", "<a href=", " href=", "http://", "<a\n'", '"', "=", "<a x='", '<a x="', "/"]
)
def test_the_links_of_a_page_are_found_in_linear_time(piece: str) -> None:
    """With fsspec's regular expression, a page of 3,000 blanks takes minutes, and one of 10,000 hours."""
    with soon():
        links = list(links_of("<a " + piece * 1_000_000 + '><a href="a.txt">'))
    assert len(links) <= 1_000_001


@pytest.mark.parametrize(
    ("html", "names"),
    [
        ('<a href="httpd.log">a</a>', ["httpd.log"]),
        ("<A class='x' HREF='a.txt'>a</A>", ["a.txt"]),
        ('<a\n  title="b"\n  href="a.txt">', ["a.txt"]),
        ('<a title="1 < 2" href="a.txt">', ["a.txt"]),
        ('<a name="top"></a><link href="style.css"><a href="a.txt">', ["a.txt"]),
        ('<area href="x"><a data-href="y" href="a.txt">', ["a.txt"]),
        ('<a name="x"><img src="y"> href="no.txt"<a href="a.txt">', ["a.txt"]),
        ('<a href="it\'s.txt">', ["it's.txt"]),
        ("<a href='a&quot;b.txt'>", ['a"b.txt']),
        ('<a href="a&amp;amp;b.txt">', ["a&amp;b.txt"]),
        ("<a href=a.txt>a</a><a href=b.txt title=b>", ["a.txt", "b.txt"]),
        ('<a href = "a.txt">', ["a.txt"]),
        ('<a title="a>b" href="a.txt">', ["a.txt"]),
        ('<a title=\'href="no.txt"\' href="a.txt" href="no.txt">', ["a.txt"]),
        ('<a\n/href=" a.txt\n"/>', ["a.txt"]),
        ('<a href><a href=""><a href="a.txt"><a href="no.tx', ["a.txt"]),
    ],
)
def test_links_are_found_in_the_spellings_of_real_pages(html: str, names: list[str]) -> None:
    with raw_server(says(page(html))) as server:
        found = [path for path, _ in open_listers([server.url], {}).files(recursive=False)]
    assert found == [f"{server.url}/{name}" for name in names]


@pytest.mark.parametrize(
    "date", ["0", "-1", "Thu, 32 Jan 2026 00:00:00 GMT", "Thu, 01 Jan 99999999 0:0:0 +9999"]
)
def test_an_invalid_time_counts_as_missing(date: str) -> None:
    assert modified_us({"Last-Modified": date}) == 0
    assert modified_us({"Last-Modified": "Thu, 01 Jan 2026 00:00:01 GMT"}) == 1_767_225_601_000_000
