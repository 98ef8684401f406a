"""Files of a slow store are fetched ahead. In these tests the store is an HTTP server."""

from __future__ import annotations

import gc
import io
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pyarrow as pa
import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.caching import BackgroundBlockCache

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError
from flip27_source.options import Options
from flip27_source.readers.binary import BinaryReader
from flip27_source.readers.files.input import open_file, read_whole
from flip27_source.readers.files.line_blocks import line_blocks
from flip27_source.readers.files.read_ahead import fetched_ahead
from flip27_source.readers.text import TextReader
from tests.server_process import Answering, web_server

from ..formats import COLUMNAR, READERS, WRITERS
from ..spark_reading import read_batches

DEADLINE_S = 30.0
OPTIONS = Options.parse({}, TextReader.options)


class FileServer:
    """Serves files, whole or in ranges, and records the requests.

    Attributes:
        asked: the name and the first byte of each request.
        gate: called with the path of each request before the answer.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[tuple[str, int]] = []
        self.changed = threading.Condition()
        self.gate: Callable[[str], Any] = lambda _path: None
        self.url = ""

    def split(self, name: str) -> FileSplit:
        length = len(self.files.get(name, b"x"))
        return FileSplit(path=f"{self.url}/{name}", length=length, modified_us=0)

    def wait_until_asked(self, name: str, start: int) -> None:
        """Wait for a request for the range of a file that begins at ``start``."""
        with self.changed:
            assert self.changed.wait_for(lambda: (name, start) in self.asked, DEADLINE_S), self.asked


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[FileServer]:
    server = FileServer(files)

    class Handler(Answering):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            name = self.path.lstrip("/")
            content = server.files.get(name)
            if content is None:
                self.send_error(404)
                return
            given = self.headers.get("Range")
            start, stop = 0, len(content)
            if given:
                first, last = given.removeprefix("bytes=").split("-")
                start, stop = int(first), min(int(last or len(content)) + 1, len(content))
            if body:
                with server.changed:
                    server.asked.append((name, start))
                    server.changed.notify_all()
                server.gate(name)
            headers = {"Accept-Ranges": "bytes"}
            if given:
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
            self.answer(206 if given else 200, content[start:stop], headers.items())

    with web_server(Handler) as server.url:
        yield server


def test_small_files_are_requested_before_the_first_response_arrives() -> None:
    """The server answers only once it has received the requests for all four files."""
    files = {f"{number}.txt": f"line {number}\n".encode() for number in range(4)}
    with serving(files) as server:
        together = threading.Barrier(4)
        server.gate = lambda _: together.wait(DEADLINE_S)
        blocks = list(line_blocks([server.split(name) for name in files], OPTIONS))
    assert [block.data for block in blocks] == [b"line 0\nline 1\nline 2\nline 3\n"]


@pytest.mark.parametrize("name", COLUMNAR)
def test_small_files_of_every_format_are_requested_together_and_once(name: str) -> None:
    files = {}
    for number in range(2):
        WRITERS[name](pa.table({"n": [number]}), sink := io.BytesIO())
        files[f"{number}"] = sink.getvalue()
    with serving(files) as server:
        together = threading.Barrier(2)
        server.gate = lambda _: together.wait(DEADLINE_S)
        batches = read_batches(READERS[name](), map(server.split, files), pa.schema([("n", pa.int64())]))
        assert sorted(server.asked) == [("0", 0), ("1", 0)]
    assert pa.Table.from_batches(batches).to_pydict() == {"n": [0, 1]}


def test_binary_files_are_requested_together_if_their_content_is_read() -> None:
    with serving({"a": b"aa", "b": b"bb"}) as server:
        together = threading.Barrier(2)
        server.gate = lambda _: together.wait(DEADLINE_S)
        wanted = pa.schema([("content", pa.binary())])
        batches = read_batches(BinaryReader(), map(server.split, "ab"), wanted)
        assert pa.Table.from_batches(batches).to_pydict() == {"content": [b"aa", b"bb"]}
        server.asked.clear()
        read_batches(BinaryReader(), map(server.split, "ab"), pa.schema([("length", pa.int64())]))
        assert server.asked == []


def test_a_limited_number_of_files_is_fetched_ahead() -> None:
    files = {f"{number:03d}": b"x" for number in range(100)}
    with serving(files) as server:
        given = fetched_ahead([server.split(name) for name in files], OPTIONS)
        first = [fetched for _, fetched in islice(given, 1)]
        assert [fetched.result(DEADLINE_S) for fetched in first if fetched] == [b"x"]
        given.close()  # type: ignore[attr-defined]
        assert len(server.asked) <= 33


def test_a_missing_file_fails_in_its_turn_and_not_before() -> None:
    with serving({"a": b"a", "c": b"c"}) as server:
        given = fetched_ahead([server.split(name) for name in ("a", "b", "c")], OPTIONS)
        # At its end the iterator cancels what is still being fetched.
        contents = (fetched for _, fetched in given if fetched is not None)
        assert next(contents).result(DEADLINE_S) == b"a"
        with pytest.raises(SplitReadError, match=r"/b no longer exists"):
            next(contents).result(DEADLINE_S)
        assert next(contents).result(DEADLINE_S) == b"c"


def test_a_file_that_has_grown_since_it_was_found_is_refused() -> None:
    with serving({"a": b"a"}) as server:
        split = server.split("a")
        server.files["a"] = b"a and more"
        ((_, fetched),) = fetched_ahead([split], OPTIONS)
        assert fetched is not None
        with pytest.raises(SplitReadError, match="had 1 bytes when it was discovered"):
            fetched.result(DEADLINE_S)


def test_local_files_are_not_read_ahead(tmp_path: Path) -> None:
    splits = [FileSplit(path=p, length=1, modified_us=0) for p in (f"{tmp_path}/a", f"file://{tmp_path}/b")]
    assert list(fetched_ahead(splits, OPTIONS)) == [(split, None) for split in splits]


def split_at(url: str) -> FileSplit:
    return FileSplit(path=url, length=-1, modified_us=0)


def test_the_next_block_of_a_large_file_is_requested_while_the_current_one_is_read() -> None:
    block = 8 << 20
    with (
        serving({"large": b"x" * (3 * block)}) as server,
        open_file(split_at(f"{server.url}/large"), OPTIONS) as stream,
    ):
        assert stream.read(10) == b"x" * 10
        server.wait_until_asked("large", block)


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable the garbage collector, so that objects in reference cycles are not freed."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("closes_its_cache", [True, False], ids=["fsspec 2026.7", "fsspec before 2026.7"])
def test_closing_a_file_releases_its_blocks_and_its_thread(
    closes_its_cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not closes_its_cache:
        monkeypatch.delattr(BackgroundBlockCache, "close", raising=False)
    files = {f"{number}": bytes(20 << 20) for number in range(3)}
    with serving(files) as server, no_collection():
        threads = set(threading.enumerate())
        caches = []
        for name, content in files.items():
            with open_file(split_at(f"{server.url}/{name}"), OPTIONS) as stream:
                caches.append(weakref.ref(stream.cache))  # type: ignore[attr-defined]
                assert stream.read(12 << 20) + stream.read() == content
        assert [cache() for cache in caches] == [None, None, None]
        left = {thread.name for thread in set(threading.enumerate()) - threads}
        assert not [name for name in left if name.startswith("ThreadPoolExecutor")]


class Made(AsyncFileSystem):
    """A file system that records the threads on which it was created."""

    protocol = "made"
    cachable = False
    threads: ClassVar[list[threading.Thread]] = []

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.threads.append(threading.current_thread())

    async def _cat_file(self, path: str, **_: Any) -> bytes:
        return b"x"


def test_the_file_system_is_created_once_before_the_fetching_threads() -> None:
    fsspec.register_implementation("made", Made, clobber=True)
    Made.threads.clear()
    splits = [FileSplit(path=f"made://once/{number}", length=1, modified_us=0) for number in range(40)]
    contents = [fetched.result(DEADLINE_S) for _, fetched in fetched_ahead(splits, OPTIONS) if fetched]
    assert contents == [b"x"] * 40
    assert Made.threads == [threading.current_thread()]


class NotMade(Made):
    """A file system that cannot be created, as with a server that does not answer."""

    protocol = "not-made"

    def __init__(self, **_: Any) -> None:
        raise ConnectionError("nobody answers")


def test_a_file_system_that_cannot_be_created_fails_with_its_first_file_in_its_turn() -> None:
    fsspec.register_implementation("made", Made, clobber=True)
    fsspec.register_implementation("not-made", NotMade, clobber=True)
    there, not_there = (FileSplit(path=f"{p}://a", length=1, modified_us=0) for p in ("made", "not-made"))
    given = fetched_ahead([there, not_there], OPTIONS)
    assert next(given)[0] == there
    assert next(given) == (not_there, None)
    with pytest.raises(SplitReadError, match=r"not-made://a cannot be read: .*: nobody answers"):
        read_whole(not_there, OPTIONS)
