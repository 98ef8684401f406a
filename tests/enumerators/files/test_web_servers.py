"""Files of realistic web servers: without lengths, with occasional failures, with pages of every kind."""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_source.enumerators.files.listing.choice import open_listers
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DiscoveryError, Flip27Error, OptionError, SplitReadError
from flip27_source.options import Options
from flip27_source.reader import SplitReader
from flip27_source.readers.binary import BinaryReader
from flip27_source.readers.columnar.parquet import ParquetReader
from flip27_source.readers.files.input import (
    CorruptFileError,
    FileMissingError,
    open_raw,
    read_whole,
    reading,
)
from flip27_source.readers.text import TextReader
from flip27_source.testing import plan
from tests.other_file_systems import WebFiles, http_files
from tests.readers.spark_reading import read_batches

from .file_sources import all_lines, files_query, write

PASSWORD = "s3cr3t-of-tom"
NO_OPTIONS = Options.parse({}, TextReader.options)


def put_files(folder: Path, *names: str) -> None:
    """Write files that contain their own name as a line; each is ten days newer than the one before it."""
    for number, name in enumerate(names):
        write(folder, name, data=f"{name}\n".encode(), modified_s=1_700_000_000 + number * 864_000)


class WithoutLengths(WebFiles):
    def send_header(self, keyword: str, value: str) -> None:
        if keyword != "Content-Length" or self.path.endswith("/"):
            super().send_header(keyword, value)


def test_a_file_without_a_length_from_the_server_stops_the_query_and_is_named(tmp_path: Path) -> None:
    put_files(tmp_path, "a.txt")
    with (
        http_files(tmp_path, WithoutLengths) as url,
        pytest.raises(DiscoveryError, match=rf"the length of {url}/a\.txt") as caught,
    ):
        all_lines(files_query(url, discoveryRetries="0"))
    assert "Content-Length" in str(caught.value)


def failing(status: int | None, times: int) -> type[WebFiles]:
    """Return the class of a server that fails the first requests for ``b.txt``; None hangs up."""

    class Failing(WebFiles):
        left: ClassVar[Counter[str]] = Counter({"b.txt": times})

        def is_answered(self) -> bool:
            name = self.path.rpartition("/")[2]
            if not self.left[name]:
                return False
            self.left[name] -= 1
            if status is None:
                self.close_connection = True
            else:
                self.send_error(status)
            return True

    return Failing


@pytest.mark.parametrize(
    ("seen", "available_now"),
    [("exact", True), ("exact", False), ("nameCursor", False), ("modifiedCursor", False)],
)
@pytest.mark.parametrize("status", [503, 403, None], ids=["unavailable", "forbidden", "hung-up"])
def test_a_failed_request_is_retried_and_no_file_is_left_out(
    status: int | None, seen: str, available_now: bool, tmp_path: Path
) -> None:
    put_files(tmp_path, "a.txt", "b.txt", "c.txt")
    # A file is requested with HEAD, then with GET.
    with http_files(tmp_path, failing(status, times=2)) as url:
        lines = all_lines(files_query(url, available_now=available_now, seenFiles=seen))
    assert lines == ["a.txt", "b.txt", "c.txt"]


def test_a_file_whose_requests_keep_failing_stops_the_query_with_the_status(tmp_path: Path) -> None:
    put_files(tmp_path, "a.txt", "b.txt")
    with (
        http_files(tmp_path, failing(503, times=1000)) as url,
        pytest.raises(DiscoveryError, match=rf"{url}/b\.txt .*503"),
    ):
        all_lines(files_query(url, discoveryRetries="1"))


@pytest.mark.parametrize("status", [404, 410])
def test_a_file_that_the_server_says_is_gone_is_left_out(status: int, tmp_path: Path) -> None:
    put_files(tmp_path, "a.txt", "b.txt")
    with http_files(tmp_path, failing(status, times=1000)) as url:
        assert all_lines(files_query(url, discoveryRetries="0")) == ["a.txt"]


@pytest.mark.parametrize("status", [404, 410])
def test_a_reader_takes_a_file_for_missing_only_if_the_server_says_that_it_is_gone(
    status: int, tmp_path: Path
) -> None:
    put_files(tmp_path, "b.txt")
    with http_files(tmp_path, failing(status, times=1000)) as url:
        split = FileSplit(path=f"{url}/b.txt", length=6, modified_us=0)
        with pytest.raises(FileMissingError):
            read_whole(split, NO_OPTIONS)
        with pytest.raises(FileMissingError):
            open_raw(split, NO_OPTIONS)
    with (
        http_files(tmp_path, failing(503, times=1000)) as url,
        pytest.raises(SplitReadError, match="503") as caught,
    ):
        open_raw(at(f"{url}/b.txt"), NO_OPTIONS)
    assert not isinstance(caught.value, FileMissingError)


def test_a_compressed_file_that_a_server_sends_too_slowly_is_not_taken_for_damaged() -> None:
    with (
        pytest.raises(SplitReadError, match="TimeoutError") as caught,
        reading("http://host/a.gz", NO_OPTIONS),
    ):
        raise TimeoutError
    assert not isinstance(caught.value, CorruptFileError)


def test_a_failing_subdirectory_stops_the_round_but_a_missing_one_does_not(tmp_path: Path) -> None:
    put_files(tmp_path, "a.txt", "below/b.txt")

    def handler(status: int) -> type[WebFiles]:
        class Failing(WebFiles):
            def is_answered(self) -> bool:
                is_below = self.command == "GET" and self.path.rstrip("/").endswith("/below")
                if is_below:
                    self.send_error(status)
                return is_below

        return Failing

    with http_files(tmp_path, handler(503)) as url, pytest.raises(DiscoveryError, match="503"):
        all_lines(files_query(url, recursiveFileLookup="true", discoveryRetries="0"))
    with http_files(tmp_path, handler(410)) as url:
        assert all_lines(files_query(url, recursiveFileLookup="true", discoveryRetries="0")) == ["a.txt"]


class OnlyForTom(WebFiles):
    wanted = "Basic " + base64.b64encode(f"tom:{PASSWORD}".encode()).decode()

    def is_answered(self) -> bool:
        is_tom = self.headers.get("Authorization") == self.wanted
        if not is_tom:
            self.send_error(HTTPStatus.UNAUTHORIZED)
        return not is_tom


def test_a_password_in_the_path_is_refused_and_is_in_no_error_and_no_state(tmp_path: Path) -> None:
    put_files(tmp_path / "landing", "a.txt")
    with http_files(tmp_path, OnlyForTom) as url:
        path = f"{url.replace('//', f'//tom:{PASSWORD}@')}/landing"
        state = {"stateLocation": str(tmp_path / "state")}
        for attempt in (
            lambda: all_lines(files_query(path, **state)),
            lambda: all_lines(files_query(path, reader="parquet", **state)),
            lambda: plan({"enumerator": "files", "reader": "text", "path": path}),
        ):
            with pytest.raises(OptionError, match=r"storage\.client_kwargs") as caught:
                attempt()
            assert PASSWORD not in str(caught.value)
            assert "tom" not in str(caught.value)
    stored = [path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert not any(PASSWORD.encode() in data for data in stored)


def test_files_of_a_server_that_asks_for_a_password_are_read_with_the_option_that_the_error_names(
    tmp_path: Path,
) -> None:
    put_files(tmp_path, "a.txt")
    (tmp_path / "b.txt").write_text(f"{'b' * 999}\n" * 9_000)
    options = {"storage.client_kwargs": json.dumps({"headers": {"Authorization": OnlyForTom.wanted}})}
    with http_files(tmp_path, OnlyForTom) as url:
        assert set(all_lines(files_query(url, **options))) == {"a.txt", "b" * 999}
        with pytest.raises(OptionError, match="401") as caught:
            files_query(url).trigger()
    assert "storage" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sftp://tom:s3cr3t-of-tom@host/a", "user name or password"),
        ("https://tom@host/a", "user name or password"),
        ("simplecache::http://tom:s3cr3t-of-tom@host/a", "several file systems"),
    ],
)
def test_a_path_with_a_user_is_refused_before_any_server_is_contacted(url: str, why: str) -> None:
    with pytest.raises(OptionError, match=why) as caught:
        open_listers([url], {})
    assert PASSWORD not in str(caught.value)


def page(html: str, at: str = "/") -> type[WebFiles]:
    """Return the class of a server with this page for a directory; PORT stands for the server's."""

    class Page(WebFiles):
        def is_answered(self) -> bool:
            if unquote(self.path).rstrip("/") != at.rstrip("/"):
                return False
            body = html.replace("PORT", str(self.connection.getsockname()[1])).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)
            return True

    return Page


@pytest.mark.parametrize(
    "links",
    [
        ["./a.txt"],
        ["/a.txt"],
        ["#top", "a.txt", "a.txt#line-1", "./a.txt"],
        ["/", "..", "../", "../x/b.txt", "./", ".", "?C=N;O=D", "./?C=N", "a.txt"],
        ["mailto:x@y.z", "javascript:void(0)", "https://elsewhere.invalid/b.txt", "a.txt"],
        ["below/../a.txt"],
    ],
)
def test_each_link_of_a_page_to_a_path_below_the_page_is_listed_once(
    links: list[str], tmp_path: Path
) -> None:
    html = "".join(f'<a href="{link}">link</a>\n' for link in links)
    with http_files(tmp_path, page(html)) as url:
        assert [path for path, _ in open_listers([url], {}).files(recursive=True)] == [f"{url}/a.txt"]


@pytest.mark.parametrize(
    ("folder", "link"),
    [
        ("my dir", "/my%20dir/a.txt"),
        ("my%20dir", "/my%20dir/a.txt"),
        ("\u00e9", "/%C3%A9/a.txt"),
        ("(x)", "/%28x%29/a.txt"),
        ("~a", "/%7ea/a.txt"),
        ("day=1", "/day%3D1/a.txt"),
        ("day=1", "//LOCALHOST:PORT/day=1/a.txt"),
        ("in", "HTTP://LocalHost:PORT/in/a.txt"),
        ("in", "https://localhost:PORT/in/a.txt"),
        ("in", "../in/a.txt"),
    ],
)
def test_links_that_spell_the_path_in_another_way_are_below_it(
    folder: str, link: str, tmp_path: Path
) -> None:
    """IIS and others write links as absolute paths, and escape other characters than users do."""
    put_files(tmp_path, f"{unquote(folder)}/a.txt")
    with http_files(tmp_path, page(f'<a href="{link}">', f"/{unquote(folder)}")) as url:
        root = url.replace("127.0.0.1", "localhost") + f"/{folder}"
        assert [path for path, _ in open_listers([root], {}).files(recursive=True)] == [f"{root}/a.txt"]


@pytest.mark.parametrize(
    "link",
    [
        "/in%2Fx/a.txt",
        "/in?x/a.txt",
        "/IN/x/a.txt",
        "//elsewhere.invalid/in/x/a.txt",
        "http://localhost:1/in/x/a.txt",
        "../../../in/x/a.txt",
        "../y/a.txt",
        "/in/x/../../y/a.txt",
        "/in",
        "..",
        "../../",
    ],
)
def test_links_that_only_look_like_the_path_lead_elsewhere(link: str, tmp_path: Path) -> None:
    put_files(tmp_path, "in/x/b.txt")
    with http_files(tmp_path, page(f'<a href="{link}"><a href="b.txt">', "/in/x")) as url:
        root = url.replace("127.0.0.1", "localhost") + "/in/x"
        assert [path for path, _ in open_listers([root], {}).files(recursive=True)] == [f"{root}/b.txt"]


def test_the_links_of_a_partition_directorys_page_may_escape_its_equals_sign(tmp_path: Path) -> None:
    put_files(tmp_path, "day=1/a.txt")

    class Escaping(page('<a href="/day%3D1/">')):  # type: ignore[misc]
        def is_answered(self) -> bool:
            below: type[WebFiles] = page('<a href="/day%3D1/a.txt">', "/day=1")
            return bool(super().is_answered() or below.is_answered(self))

    with http_files(tmp_path, Escaping) as url:
        assert all_lines(files_query(url)) == ["day=1/a.txt"]


def test_links_are_parsed_as_in_html(tmp_path: Path) -> None:
    put_files(tmp_path, "a&b=1:2.txt")
    with http_files(tmp_path, page('<a href="/a&amp;b=1:2.txt">a</a>')) as url:
        assert all_lines(files_query(url)) == ["a&b=1:2.txt"]


def test_directories_that_a_page_links_with_a_dot_are_listed(tmp_path: Path) -> None:
    put_files(tmp_path, "day=1/a.txt", "x/y/b.txt")
    with http_files(tmp_path, page('<a href="./day=1/">day</a><a href="./x/">x</a>')) as url:
        lister = open_listers([url], {})
        assert [path for path, _ in lister.files(recursive=False)] == [f"{url}/day=1/a.txt"]
        found = sorted(path for path, _ in lister.files(recursive=True))
        assert found == [f"{url}/day=1/a.txt", f"{url}/x/y/b.txt"]


def test_a_page_without_links_is_an_empty_directory_and_files_added_later_are_found(tmp_path: Path) -> None:
    with http_files(tmp_path) as url:
        engine = files_query(url)
        assert all_lines(engine) == []
        put_files(tmp_path, "a.txt")
        assert all_lines(engine) == ["a.txt"]


def test_a_missing_path_is_distinguished_from_an_unreachable_server(tmp_path: Path) -> None:
    put_files(tmp_path, "a.txt", "b.txt")
    with http_files(tmp_path, failing(503, times=1000)) as url:
        for name, error in (("c", "does not exist"), ("b.txt", "cannot be reached.*503")):
            with pytest.raises(OptionError, match=error):
                open_listers([f"{url}/{name}"], {}).check_root()
        one = open_listers([f"{url}/a.txt"], {})
        one.check_root()
        assert [path for path, _ in one.files(recursive=False)] == [f"{url}/a.txt"]
        open_listers([f"{url}/c"], {}, ignore_missing=True).check_root()
        with pytest.raises(OptionError, match="503"):
            open_listers([f"{url}/b.txt"], {}, ignore_missing=True).check_root()


@pytest.mark.parametrize("ranges", [1, 3])
def test_a_large_text_file_is_read_from_a_server_without_range_requests(ranges: int, tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("".join(f"{number:0999d}\n" for number in range(20_000)))
    bounds = [20_000_000 * number // ranges for number in range(ranges)]
    with http_files(tmp_path) as url:
        splits = [
            FileSplit(path=f"{url}/large.txt", length=20_000_000, modified_us=0, start=start, end=end)
            for start, end in zip(bounds, [*bounds[1:], None], strict=True)
        ]
        batches = read_batches(TextReader(), splits, pa.schema([("value", pa.string())]))
    values = pa.Table.from_batches(batches).column("value").to_pylist()
    assert values == [f"{number:0999d}" for number in range(20_000)]


@pytest.mark.parametrize("reader", [ParquetReader, BinaryReader])
def test_readers_that_seek_read_a_large_file_from_a_server_without_range_requests(
    reader: type[SplitReader[FileSplit]], tmp_path: Path
) -> None:
    path = tmp_path / "large.parquet"
    values = [os.urandom(1000) for _ in range(12_000)]
    pq.write_table(pa.table({"content": values}), path, compression=None)
    with http_files(tmp_path) as url:
        split = FileSplit(path=f"{url}/large.parquet", length=path.stat().st_size, modified_us=0)
        batches = read_batches(reader(), [split], pa.schema([("content", pa.binary())]))
    found = pa.Table.from_batches(batches).column("content").to_pylist()
    assert found == (values if reader is ParquetReader else [path.read_bytes()])


def test_the_schema_of_a_parquet_file_is_inferred_on_a_server_without_range_requests(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(100_000)}), tmp_path / "a", compression=None, use_dictionary=False)
    with http_files(tmp_path) as url:
        assert all_lines(files_query(url, reader="parquet")) == list(range(100_000))


class GivesParts(WebFiles):
    """Supports requests for ranges of a file, and records the ranges."""

    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        given = self.headers.get("Range")
        self.asked.append(given)
        content = Path(self.translate_path(self.path)).read_bytes()
        first, last = (given or f"bytes=0-{len(content) - 1}").removeprefix("bytes=").split("-")
        part = content[int(first) : int(last) + 1]
        self.send_response(HTTPStatus.PARTIAL_CONTENT if given else HTTPStatus.OK)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}")
        self.end_headers()
        self.wfile.write(part)


def at(url: str) -> FileSplit:
    return FileSplit(path=url, length=-1, modified_us=0)


def test_with_range_requests_only_the_needed_parts_are_fetched(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"0123456789" * 2_000_000)
    GivesParts.asked.clear()
    with http_files(tmp_path, GivesParts) as url, open_raw(at(f"{url}/large"), NO_OPTIONS) as stream:
        stream.seek(-10, 2)
        assert stream.read(5) == b"01234"
    assert GivesParts.asked
    assert all(GivesParts.asked)


def test_a_failed_download_is_an_error_of_the_file(tmp_path: Path) -> None:
    class Cut(WebFiles):
        def copyfile(self, source: object, outputfile: object) -> None:
            self.wfile.write(b"x" * 1000)
            self.close_connection = True

    (tmp_path / "large").write_bytes(b"x" * 9_000_000)
    with http_files(tmp_path, Cut) as url, pytest.raises(Flip27Error, match=rf"{url}/large cannot be read"):
        open_raw(at(f"{url}/large"), NO_OPTIONS)
