"""A file with any name that its file system allows is read once, with its own rows, and cleaned."""

from __future__ import annotations

import io
import os
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_source.errors import DiscoveryError, OptionError, StateLocationError
from flip27_source.file_systems.paths import (
    canonical_path,
    disk_path,
    local_path,
    location,
    path_text,
    shown_path,
)
from flip27_source.snapshots.store import open_store
from flip27_source.testing import MicroBatchEngine
from tests.deadline import until
from tests.places import Place

from .file_sources import all_lines, files_query, lines_of

LINE = pa.schema([pa.field("value", pa.string())])
NAMES = [
    "plain", "a::b.json", "a.json", "a.json::b.json", "simplecache::s3", "http:", "http:x", "file:x",
    "C:", "C:x", "~", "~root", "$HOME", "${x}", "%20", "%00", "a%2Fb", "a b", " first", "last ", "#",
    "a#0-5", "a#0-", "a#", "a@b", "a@", "a@1#0-2", "@", "?", "a?x=1&y=2", "*", "**", "[a]", "[", "]",
    "[!a]", "{a,b}", "a,b", "a=b.txt", "new\nline", "tab\tx", "cr\rx", "esc\x1b[31m", "\x01", "\x7f",
    "\u00e9", "e\u0301", "日本", "\U0001f600", "\u202eabc", "-rf", "--help", '"q"', "'q'", "back\\slash",
    "a;b", "a|b", "a&b", "<a>", "nul\\0", "null", "None", "+", "a+b", "^", "`x`", "ß" * 127,
]  # fmt: skip
ODDEST = [
    "a::b.json", "http:x", "~", "%20", "a%2Fb", "a b", " first", "#", "a#0-5", "a@1#0-2", "?",
    "a?x=1&y=2", "*", "[a]", "{a,b}", "a,b", "new\nline", "\x01", "日本", "\u202eabc", '"q"', "back\\slash",
    "a;b", "<a>", "a+b",
]  # fmt: skip
"""The names that are tried where each takes several requests."""

NOT_UTF8 = [b"\xff\xfe.x", b"a\x80b", b"caf\xe9.txt"]
FOLDERS = ["day::1", "http:", "%3A", "a#b", "a?b", "[x]", "{x}", "~", "b@c", "new\nline"]


def storable(place: Place, names: list[str] = NAMES) -> list[str]:
    """Return the names that the file system can hold."""
    return [name for name in names if place.can_hold(name)]


def cleanable(place: Place) -> list[str]:
    """Return fewer of these names for slow places, in tests in which each file takes many requests."""
    return storable(place, NAMES if place.is_quick else ODDEST)


def query(place: Place, path: str = "", **options: str) -> MicroBatchEngine:
    return files_query(path or place.landing, **place.options, **options)


def put_numbered(place: Place, names: list[str]) -> list[str]:
    """Write files of equal length, so that a wrong file would not be noticed by it; return their lines."""
    for number, name in enumerate(names):
        place.put(name, b"%05d\n" % number)
    return [f"{number:05d}" for number in range(len(names))]


def read_and_clean(engine: MicroBatchEngine) -> None:
    """Read everything, and restart the query, which then cleans what it has read."""
    engine.process_all_available()
    engine.restart()
    engine.run_batch()


def wait_for_names(place: Place, names: set[str]) -> None:
    until(lambda: place.names() == names, lambda: place.names() ^ names)


def test_each_file_is_read_once_with_its_own_rows_whatever_its_name(place: Place) -> None:
    lines = put_numbered(place, storable(place))
    assert all_lines(query(place)) == lines


def test_exactly_the_files_that_were_read_are_deleted_whatever_their_names(place: Place) -> None:
    put_numbered(place, cleanable(place))
    place.put("_left", b"hidden\n")
    read_and_clean(query(place, cleanSource="delete", discoveryInterval="1ms"))
    wait_for_names(place, {"_left"})


def test_files_in_folders_of_any_name_are_found_and_named_by_partition_columns(place: Place) -> None:
    folders = storable(place, FOLDERS)
    lines = put_numbered(place, [f"{folder}/x={number}/file" for number, folder in enumerate(folders)])
    assert all_lines(query(place, recursiveFileLookup="true")) == lines


READ_AS_OTHERS = [("s3", "b?versionId=1"), ("azure", "a#"), ("azure", "a?versionid=1")]
"""Names of objects that the client libraries mistake for other objects."""


@pytest.mark.parametrize(("place", "name"), READ_AS_OTHERS, indirect=["place"])
def test_an_object_whose_name_a_library_misreads_is_neither_read_nor_deleted(place: Place, name: str) -> None:
    place.put("a", b"of a\n")
    place.put_itself(name, b"other\n")
    engine = query(place, onSplitError="quarantine", cleanSource="delete", discoveryInterval="1ms")
    read_and_clean(engine)
    wait_for_names(place, {name})
    assert engine.rows == [("of a",)]
    assert engine.holder.report()["quarantinedSplits"] == 1


@pytest.mark.parametrize("place", ["azure"], indirect=True)
def test_a_folder_whose_name_a_library_misreads_stops_the_query(place: Place) -> None:
    place.put("x=1/a", b"1\n")
    place.put_itself("x=1#/b", b"2\n")
    with pytest.raises(DiscoveryError, match="adlfs reads this name as that of another blob"):
        all_lines(query(place, discoveryRetries="0"))
    with pytest.raises(OptionError, match="adlfs reads this name as that of another blob"):
        all_lines(query(place, path=f"{place.landing}/x=1#"))


def test_an_archived_file_keeps_its_name_below_the_archive(place: Place) -> None:
    names = cleanable(place)
    lines = put_numbered(place, names)
    archived = {"cleanSource": "archive", "sourceArchiveDir": place.archive}
    read_and_clean(query(place, **archived, discoveryInterval="1ms"))
    wait_for_names(place, set())
    contents = [f"{line}\n".encode() for line in lines]
    assert place.archived() == dict(zip(names, contents, strict=True))


@pytest.mark.parametrize("reader", ["text", "binary", "json", "csv", "parquet"])
def test_a_name_that_is_not_utf8_is_read_and_cleaned_like_any_other(reader: str, tmp_path: Path) -> None:
    schemas = {"text": LINE, "binary": pa.schema([("path", pa.string()), ("content", pa.binary())])}
    parquet = io.BytesIO()
    pq.write_table(pa.table({"id": [7]}), parquet)
    contents = {"json": b'{"id": 7}\n', "parquet": parquet.getvalue()}
    landing = os.fsencode(tmp_path / "landing")
    os.mkdir(landing)
    for name in NOT_UTF8:
        with open(os.path.join(landing, name), "wb") as file:
            file.write(contents.get(reader, b"7\n"))
    given = {
        "enumerator": "files", "reader": reader, "path": str(tmp_path / "landing"), "requestInterval": "0s",
        "cleanSource": "delete", "discoveryInterval": "1ms", "stateLocation": str(tmp_path / "state"),
    }  # fmt: skip
    engine = MicroBatchEngine(given, schema=schemas.get(reader, pa.schema([("id", pa.int64())])))
    read_and_clean(engine)
    assert len(engine.rows) == len(NOT_UTF8)
    if reader == "binary":
        names = sorted(row[0].rpartition("/")[2] for row in engine.rows)
        assert names == ["%FF%FE.x", "a%80b", "caf%E9.txt"]
    until(lambda: not os.listdir(landing), lambda: os.listdir(landing))


def test_a_new_file_in_a_folder_that_is_not_utf8_is_found_in_the_next_round(tmp_path: Path) -> None:
    folder = os.path.join(os.fsencode(tmp_path), b"\xff")
    os.mkdir(folder)
    engine = files_query(tmp_path, recursiveFileLookup="true", discoveryInterval="1ms")
    for number in range(3):
        with open(os.path.join(folder, b"%d" % number), "wb") as file:
            file.write(b"%d\n" % number)
        engine.process_all_available()
        engine.restart()
    assert lines_of(engine) == ["0", "1", "2"]


def test_a_path_of_the_greatest_possible_length_is_read(tmp_path: Path) -> None:
    name, folder = "x" * 200, str(tmp_path)
    while len(folder) + len(name) < 4000:
        folder = f"{folder}/{name}"
    os.makedirs(folder)
    with open(f"{folder}/a", "w", encoding="utf-8") as file:
        file.write("deep\n")
    assert all_lines(files_query(tmp_path, recursiveFileLookup="true")) == ["deep"]


@pytest.mark.parametrize("name", ["ck::x", "http:", "s3:", "~", "$HOME", "%20", "a#b", "[a]", "日本"])
def test_state_is_stored_at_its_path_whatever_characters_the_path_has(name: str, tmp_path: Path) -> None:
    store = open_store(f"{tmp_path}/{name}/flip27", {})
    store.create("lineage/a", b"1")
    assert (tmp_path / name / "flip27" / "lineage" / "a").read_bytes() == b"1"


def test_state_in_a_folder_whose_name_looks_like_a_glob_touches_no_other_folder() -> None:
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
        ("FILE:///a", "/a"),
        ("File:/a", "/a"),
        ("//a//b", "/a//b"),
        ("local:///a", "/a"),
        ("local:/a", "/a"),
        ("local:a", "a"),
        ("dbfs:/Volumes/main/shop/in", "/Volumes/main/shop/in"),
        ("dbfs:x", "dbfs:x"),
        ("dbfs://host/x", None),
        ("~/a", "~/a"),
        ("C:/x", "C:/x"),
        ("x/y://z", "x/y://z"),
        ("s3://bucket/a", None),
        ("s3://bucket/a::b", None),
        ("abfs://c@account/x", None),
        ("HTTP://x", None),
    ],
)
def test_only_a_text_that_begins_with_a_protocol_is_a_url(text: str, expected: str | None) -> None:
    assert local_path(text) == expected


@pytest.mark.parametrize("name", NOT_UTF8)
def test_a_name_that_is_not_utf8_is_restored_from_its_text(name: bytes) -> None:
    path = os.fsdecode(b"/landing/" + name)
    assert path_text(path).encode().decode() == path_text(path)
    assert disk_path(path_text(path)) == path
    assert shown_path(path_text(path)).isprintable()


@pytest.mark.parametrize("url", ["s3://b/state?versionId=1", "abfs://c@a.dfs.core.windows.net/x?versionid=1"])
def test_a_location_that_names_one_version_of_an_object_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="names one version of one object, not a location"):
        location(url)


def test_the_scheme_of_a_url_has_one_meaning_in_lower_and_upper_case() -> None:
    """RFC 3986, 3.1."""
    known = "memory://scheme-of-a-url"
    spelled = known.replace("memory", "MEMory")
    open_store(known, {}).create("landing/k=1/a", b"row")
    assert open_store(spelled, {}).read("landing/k=1/a") == b"row"
    with pytest.raises(ValueError, match="names one version of one object, not a location"):
        location("S3://b/state?versionId=1")
    assert canonical_path(spelled) == canonical_path(known)
    engine = files_query(
        f"{known}/landing/*",
        paths=f"{spelled}/landing/k=1",
        basePath=spelled,
        stateLocation=f"{spelled}/_state",
    )
    assert all_lines(engine) == ["row"]


@pytest.mark.parametrize(
    "url",
    [
        "simplecache::s3://bucket/x",
        "zip://*.csv::s3://bucket/x.zip",
        "blockcache::simplecache::http://host/x",
    ],
)
def test_a_chained_url_is_refused_in_every_option(url: str) -> None:
    with pytest.raises(ValueError, match="names several file systems"):
        location(url)
    with pytest.raises(StateLocationError, match="names several file systems"):
        open_store(url, {})
    with pytest.raises(OptionError, match="names several file systems"):
        files_query(url).run_batch()
    with pytest.raises(OptionError, match="names several file systems"):
        files_query("/x", stateLocation=url)


def test_a_databricks_path_that_only_spark_knows_is_refused_with_the_path_to_use() -> None:
    """As a relative path it would be a folder on the driver's disk, which disappears with the cluster."""
    with pytest.raises(StateLocationError, match="give /dbfs/mnt/ckpt where it is mounted"):
        open_store("dbfs:/mnt/ckpt", {})
    with pytest.raises(OptionError, match="or a path below /Volumes/"):
        files_query("dbfs:/mnt/in").run_batch()
    assert location("dbfs:/Volumes/main/shop/in") == "dbfs:/Volumes/main/shop/in"


def test_a_location_with_a_nul_is_refused() -> None:
    with pytest.raises(StateLocationError, match="NUL character"):
        open_store("/tmp/a\0b", {})
