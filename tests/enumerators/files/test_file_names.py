"""Every name that a file system can hold is a name: its file is read once, by its own rows, and cleaned."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.errors import OptionError, StateLocationError
from flip27_source.file_systems.paths import disk_path, local_path, location, path_text, redacted, shown_path
from flip27_source.snapshots.store import open_store
from flip27_source.testing import MicroBatchEngine
from tests.other_file_systems import PASSWORD, USER, sftp_server
from tests.s3_server import S3Bucket

LINE = pa.schema([pa.field("value", pa.string())])
NAMES = [
    "plain",
    "a::b.json",
    "a.json",
    "a.json::b.json",
    "simplecache::s3",
    "http:",
    "http:x",
    "file:x",
    "C:",
    "C:x",
    "~",
    "~root",
    "$HOME",
    "${x}",
    "%20",
    "%00",
    "a%2Fb",
    "a b",
    " first",
    "last ",
    "#",
    "a#0-5",
    "a#0-",
    "a#",
    "a@b",
    "a@",
    "a@1#0-2",
    "@",
    "?",
    "a?x=1&y=2",
    "*",
    "**",
    "[a]",
    "[",
    "]",
    "[!a]",
    "{a,b}",
    "a,b",
    "a=b.txt",
    "new\nline",
    "tab\tx",
    "cr\rx",
    "esc\x1b[31m",
    "\x01",
    "\x7f",
    "\u00e9",
    "e\u0301",
    "日本",
    "\U0001f600",
    "\u202eabc",
    "-rf",
    "--help",
    '"q"',
    "'q'",
    "back\\slash",
    "a;b",
    "a|b",
    "a&b",
    "<a>",
    "nul\\0",
    "null",
    "None",
    "+",
    "a+b",
    "^",
    "`x`",
    "ß" * 127,
]
NOT_UTF8 = [b"\xff\xfe.x", b"a\x80b", b"caf\xe9.txt"]
FOLDERS = ["day::1", "http:", "%3A", "a#b", "a?b", "[x]", "{x}", "~", "b@c", "new\nline"]


class Place:
    """A landing folder somewhere, and the options that reach it."""

    def __init__(self, file_system: Any, root: str, path: str, options: dict[str, str]) -> None:
        self.fs = file_system
        self.root = root
        self.path = path
        self.options = options

    def put(self, name: str, data: bytes) -> None:
        self.fs.makedirs(f"{self.root}/{name}".rpartition("/")[0], exist_ok=True)
        self.fs.pipe_file(f"{self.root}/{name}", data)

    def names(self) -> set[str]:
        self.fs.invalidate_cache()
        found = self.fs.find(self.root) if self.fs.exists(self.root) else []
        return {name[len(self.root) + 1 :] for name in found}

    @property
    def storable(self) -> list[str]:
        """The names that the file system can hold; moto has no keys with a line feed."""
        return [name for name in NAMES if "\n" not in name or not self.path.startswith("s3:")]

    @property
    def archive(self) -> str:
        """The option ``sourceArchiveDir``."""
        return self.path.removesuffix("landing") + "archive"

    def archived(self) -> dict[str, bytes]:
        """What is in the archive, by its name in the landing folder."""
        whole = self.path.removesuffix("/landing").partition("://")[2].partition("/")[2]
        folder = f"{self.root.removesuffix('landing')}archive/{whole}/landing".replace("//", "/")
        self.fs.invalidate_cache()
        return {name[len(folder) + 1 :]: self.fs.cat_file(name) for name in self.fs.find(folder)}


@contextmanager
def on_s3(bucket: S3Bucket) -> Iterator[Place]:
    root = f"{bucket.name}/landing"
    yield Place(bucket.file_system, root, f"s3://{root}", bucket.options)


@contextmanager
def on_sftp(folder: Path) -> Iterator[Place]:
    import fsspec

    with sftp_server(folder) as url:
        host, _, port = url.removeprefix("sftp://").partition(":")
        fs = fsspec.filesystem("sftp", host=host, port=int(port), username=USER, password=PASSWORD)
        options = {"storage.username": USER, "storage.password": PASSWORD}
        yield Place(fs, "/landing", f"{url}/landing", options)


class LocalPlace(Place):
    """A local folder, written to by the operating system's own calls."""

    def __init__(self, folder: Path) -> None:
        super().__init__(None, str(folder), str(folder), {})

    def put(self, name: str, data: bytes) -> None:
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    def names(self) -> set[str]:
        walked = os.walk(self.root)
        return {
            os.path.relpath(os.path.join(at, name), self.root) for at, _, names in walked for name in names
        }

    def archived(self) -> dict[str, bytes]:
        root = f"{self.archive}{self.root}"
        return {name: Path(root, name).read_bytes() for name in os.listdir(root)}


_roots = itertools.count()


@contextmanager
def in_memory() -> Iterator[Place]:
    import fsspec

    fs = fsspec.filesystem("memory")
    top = f"/names[{next(_roots)}]"
    try:
        yield Place(fs, f"{top}/landing", f"memory://{top}/landing", {})
    finally:
        for name in fs.find(top):
            fs.rm_file(name)


@pytest.fixture(params=["local", "s3", "sftp", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    match request.param:
        case "local":
            (tmp_path / "landing").mkdir()
            yield LocalPlace(tmp_path / "landing")
        case "s3":
            with on_s3(request.getfixturevalue("s3_bucket")) as found:
                yield found
        case "sftp":
            with on_sftp(tmp_path) as found:
                yield found
        case _:
            with in_memory() as found:
                yield found


def query(place: Place, **options: str) -> MicroBatchEngine:
    given = {"enumerator": "files", "reader": "text", "path": place.path, "requestInterval": "0s"}
    return MicroBatchEngine({**given, **place.options, **options}, schema=LINE)


def comes_true(place: Place, names: set[str]) -> None:
    deadline = monotonic() + 20
    while (found := place.names()) != names:
        assert monotonic() < deadline, found ^ names


def test_each_file_is_read_once_and_by_its_own_rows_whatever_it_is_called(place: Place) -> None:
    names = place.storable
    for number, name in enumerate(names):
        place.put(name, b"%05d\n" % number)  # all of one length: a wrong file would not be noticed by that
    engine = query(place)
    engine.process_all_available()
    found = sorted(row[0] for row in engine.rows)
    assert found == [f"{number:05d}" for number in range(len(names))]


def test_each_file_is_deleted_and_no_other_whatever_it_is_called(place: Place) -> None:
    for number, name in enumerate(place.storable):
        place.put(name, b"%05d\n" % number)
    place.put("_left", b"hidden\n")
    engine = query(place, cleanSource="delete", discoveryInterval="1ms")
    engine.process_all_available()
    engine.restart()
    engine.run_batch()
    comes_true(place, {"_left"})


def test_files_in_folders_of_any_name_are_found_and_named_by_partition_columns(place: Place) -> None:
    folders = [name for name in FOLDERS if "\n" not in name or "new\nline" in place.storable]
    for number, folder in enumerate(folders):
        place.put(f"{folder}/x={number}/file", b"%05d\n" % number)
    engine = query(place, recursiveFileLookup="true")
    engine.process_all_available()
    assert sorted(row[0] for row in engine.rows) == [f"{number:05d}" for number in range(len(folders))]


def test_a_key_that_s3fs_takes_for_a_version_of_another_object_is_neither_read_nor_deleted(
    s3_bucket: S3Bucket,
) -> None:
    with on_s3(s3_bucket) as place:
        place.put("a", b"of a\n")
        s3_bucket.file_system.call_s3(
            "put_object", Bucket=s3_bucket.name, Key="landing/a?versionId=1", Body=b"of b\n"
        )
        engine = query(place, onSplitError="quarantine", cleanSource="delete", discoveryInterval="1ms")
        engine.process_all_available()
        engine.restart()
        engine.run_batch()
        comes_true(place, {"a?versionId=1"})
        assert engine.rows == [("of a",)]
        assert engine.holder.report()["quarantinedSplits"] == 1


def test_a_file_that_is_archived_keeps_its_name_below_the_archive(place: Place) -> None:
    names = place.storable
    for number, name in enumerate(names):
        place.put(name, b"%05d\n" % number)
    engine = query(place, cleanSource="archive", sourceArchiveDir=place.archive, discoveryInterval="1ms")
    engine.process_all_available()
    engine.restart()
    engine.run_batch()
    comes_true(place, set())
    assert place.archived() == {name: b"%05d\n" % number for number, name in enumerate(names)}


@pytest.mark.parametrize("reader", ["text", "binary", "json", "csv", "parquet"])
def test_a_name_that_is_not_utf8_is_read_and_cleaned_like_any_other(reader: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    landing = os.fsencode(tmp_path / "landing")
    schema = pa.schema([pa.field("id", pa.int64())])
    if reader == "text":
        schema = LINE
    if reader == "binary":
        schema = pa.schema([pa.field("path", pa.string()), pa.field("content", pa.binary())])
    os.mkdir(landing)
    contents = {"text": b"7\n", "csv": b"7\n", "json": b'{"id": 7}\n', "binary": b"7"}
    for name in NOT_UTF8:
        path = os.path.join(landing, name)
        if reader == "parquet":
            with open(path, "wb") as file:
                pq.write_table(pa.table({"id": [7]}), file)
        else:
            with open(path, "wb") as file:
                file.write(contents[reader])
    given = {
        "enumerator": "files", "reader": reader, "path": str(tmp_path / "landing"), "requestInterval": "0s",
        "cleanSource": "delete", "discoveryInterval": "1ms", "stateLocation": str(tmp_path / "state"),
    }  # fmt: skip
    engine = MicroBatchEngine(given, schema=schema)
    engine.process_all_available()
    assert len(engine.rows) == len(NOT_UTF8)
    if reader == "binary":
        names = sorted(row[0].rpartition("/")[2] for row in engine.rows)
        assert names == ["%FF%FE.x", "a%80b", "caf%E9.txt"]
    engine.restart()
    engine.run_batch()
    deadline = monotonic() + 20
    while left := os.listdir(landing):
        assert monotonic() < deadline, left


def test_a_new_file_in_a_folder_that_is_not_utf8_is_found_in_the_next_round(tmp_path: Path) -> None:
    folder = os.path.join(os.fsencode(tmp_path), b"\xff")
    os.mkdir(folder)
    engine = query(LocalPlace(tmp_path), recursiveFileLookup="true", discoveryInterval="1ms")
    for number in range(3):
        with open(os.path.join(folder, b"%d" % number), "wb") as file:
            file.write(b"%d\n" % number)
        engine.process_all_available()
        engine.restart()
    assert sorted(row[0] for row in engine.rows) == ["0", "1", "2"]


def test_a_path_as_long_as_paths_can_be_is_read(tmp_path: Path) -> None:
    name, folder = "x" * 200, str(tmp_path)
    while len(folder) + len(name) < 4000:
        folder = f"{folder}/{name}"
    os.makedirs(folder)
    with open(f"{folder}/a", "w", encoding="utf-8") as file:
        file.write("deep\n")
    engine = query(LocalPlace(tmp_path), recursiveFileLookup="true")
    engine.process_all_available()
    assert engine.rows == [("deep",)]


@pytest.mark.parametrize("name", ["ck::x", "http:", "s3:", "~", "$HOME", "%20", "a#b", "[a]", "日本"])
def test_state_lies_where_the_path_says_whatever_is_in_it(name: str, tmp_path: Path) -> None:
    store = open_store(f"{tmp_path}/{name}/flip27", {})
    store.create("lineage/a", b"1")
    assert (tmp_path / name / "flip27" / "lineage" / "a").read_bytes() == b"1"


def test_state_in_a_folder_whose_name_looks_like_a_glob_touches_no_other_folder() -> None:
    import fsspec

    fs = fsspec.filesystem("memory")
    fs.pipe_file("/state1/flip27/a/b", b"somebody else's")
    store = open_store("memory:///state[1]/flip27", {})
    store.replace("a/b", b"1")
    store.replace("a/b", b"2")
    assert store.read("a/b") == b"2"
    store.delete("a/b")
    store.remove_empty("a")
    assert fs.cat_file("/state1/flip27/a/b") == b"somebody else's"
    assert not fs.exists("/state[1]/flip27/a")
    fs.rm_file("/state1/flip27/a/b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a", "/a"),
        ("/a::b", "/a::b"),
        ("/a/http://x", "/a/http://x"),
        ("/s3://x", "/s3://x"),
        ("a::b", "a::b"),
        ("file:/a::b", "/a::b"),
        ("file:///a", "/a"),
        ("~/a", "~/a"),
        ("C:/x", "C:/x"),
        ("x/y://z", "x/y://z"),
        ("s3://bucket/a", None),
        ("s3://bucket/a::b", None),
        ("abfs://c@account/x", None),
        ("HTTP://x", None),
    ],
)
def test_what_begins_with_a_protocol_is_a_url_and_nothing_else_is(text: str, expected: str | None) -> None:
    assert local_path(text) == expected


@pytest.mark.parametrize("name", NOT_UTF8)
def test_a_name_that_is_not_utf8_comes_back_from_its_text(name: bytes) -> None:
    path = os.fsdecode(b"/landing/" + name)
    assert path_text(path).encode().decode() == path_text(path)
    assert disk_path(path_text(path)) == path
    assert shown_path(path_text(path)).isprintable()


@pytest.mark.parametrize(
    "url",
    [
        "simplecache::s3://bucket/x",
        "zip://*.csv::s3://bucket/x.zip",
        "blockcache::simplecache::http://host/x",
    ],
)
def test_a_url_through_several_file_systems_is_refused_where_it_is_given(url: str) -> None:
    with pytest.raises(ValueError, match="names several file systems"):
        location(url)
    with pytest.raises(StateLocationError, match="names several file systems"):
        open_store(url, {})
    with pytest.raises(OptionError, match="names several file systems"):
        MicroBatchEngine({"enumerator": "files", "reader": "text", "path": url}, schema=LINE).run_batch()
    given = {"enumerator": "files", "reader": "text", "path": "/x", "stateLocation": url}
    with pytest.raises(OptionError, match="names several file systems"):
        MicroBatchEngine(given, schema=LINE)


def test_a_location_with_a_nul_is_refused_where_it_is_given() -> None:
    with pytest.raises(StateLocationError, match="NUL character"):
        open_store("/tmp/a\0b", {})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("/landing/ftp://me:pw@x", "/landing/ftp://me:pw@x"),
        ("simplecache::ftp://me:pw@host/x", "simplecache::ftp://host/x"),
    ],
)
def test_only_urls_have_passwords_in_them(url: str, shown: str) -> None:
    assert redacted(url) == shown
