"""Listing: the same files on local disk, in fsspec's memory and on an S3 server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import s3fs

from flip27_source.enumerators.files.entries import modified_us
from flip27_source.enumerators.files.listing.choice import open_listers
from flip27_source.enumerators.files.listing.lister import Lister, is_hidden
from flip27_source.errors import OptionError
from tests.places import PLACES, Place
from tests.s3_server import S3Bucket


@pytest.fixture(params=["local", "memory", "s3"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with PLACES[request.param](request) as place:
        yield place


def put(place: Place, *names: str) -> None:
    for name in names:
        place.put(name)


def lister_of(place: Place, below: str = "") -> Lister:
    return open_listers([f"{place.landing}{below}"], place.storage_options)


def names(place: Place, *, recursive: bool = False) -> list[str]:
    """The listed paths, relative to the directory."""
    listed = [path for path, _ in lister_of(place).files(recursive=recursive)]
    return sorted(path.partition("/landing/")[2] for path in listed)


def test_files_directly_in_the_directory_are_listed(place: Place) -> None:
    put(place, "b.json", "a.json", "folder/c.json")
    assert names(place) == ["a.json", "b.json"]


def test_files_of_all_subdirectories_are_listed_on_request(place: Place) -> None:
    put(place, "a.json", "x/b.json", "x/y/c.json", "date=2026-01-01/d.json")
    assert names(place, recursive=True) == ["a.json", "date=2026-01-01/d.json", "x/b.json", "x/y/c.json"]


def test_hidden_files_and_directories_are_left_out_as_in_spark(place: Place) -> None:
    put(place, "a.json", "_SUCCESS", ".a.json.crc", "b.json._COPYING_", "_hidden/c.json", ".tmp/d.json")
    put(place, "_col=1/e.json")
    assert names(place, recursive=True) == ["_col=1/e.json", "a.json"]


@pytest.mark.parametrize(
    ("name", "hidden"),
    [("a", False), ("_a", True), (".a", True), ("_a=1", False), (".a=1", True), ("a._COPYING_", True)],
)
def test_names_that_spark_hides_are_hidden(name: str, hidden: bool) -> None:
    assert is_hidden(name) is hidden


def test_partition_directories_belong_to_the_path_at_every_level(place: Place) -> None:
    put(
        place, "a.json", "date=2026-01-01/b.json", "date=2026-01-02/hour=7/c.json", "x/d.json", "d=3/x/e.json"
    )
    found = [path.rpartition("/")[2] for path, _ in lister_of(place).files(recursive=False)]
    assert sorted(found) == ["a.json", "b.json", "c.json"]


def test_size_and_time_of_a_file_are_known(place: Place) -> None:
    place.put("a.json", data=b"12345")
    ((_, info),) = lister_of(place).files(recursive=False)
    found = info()
    assert found is not None
    assert found.length == 5
    age = dt.datetime.now(dt.UTC) - dt.datetime.fromtimestamp(found.modified_us / 1e6, dt.UTC)
    assert abs(age) < dt.timedelta(hours=1)


def test_a_second_listing_sees_added_and_removed_files(place: Place) -> None:
    put(place, "a.json", "b.json")
    lister = lister_of(place)
    assert len(list(lister.files(recursive=False))) == 2
    put(place, "c.json")
    place.remove("a.json")
    assert {path.rpartition("/")[2] for path, _ in lister.files(recursive=False)} == {"b.json", "c.json"}


@pytest.mark.parametrize("recursive", [True, False])
def test_a_second_listing_sees_files_written_by_another_process(s3_bucket: S3Bucket, recursive: bool) -> None:
    """s3fs caches its listings, and files are always written by other processes."""
    writer = s3fs.S3FileSystem(**s3_bucket.storage_options, skip_instance_cache=True)
    writer.pipe_file(f"{s3_bucket.name}/landing/a.json", b"data")
    lister = open_listers([f"s3://{s3_bucket.name}/landing"], s3_bucket.storage_options)
    assert len(list(lister.files(recursive=recursive))) == 1
    writer.pipe_file(f"{s3_bucket.name}/landing/b.json", b"data")
    assert len(list(lister.files(recursive=recursive))) == 2


def test_listed_paths_can_be_opened_in_their_file_system(place: Place) -> None:
    place.put("a b#1%20.json", data=b"odd")
    ((path, _),) = lister_of(place).files(recursive=False)
    with fsspec.open(path, **place.storage_options) as file:
        assert file.read() == b"odd"


def test_a_path_that_is_a_file_lists_this_file_until_it_is_gone(place: Place) -> None:
    put(place, "a.json")
    put(place, "a.json.old")
    lister = lister_of(place, "/a.json")
    lister.check_root()
    ((path, info),) = lister.files(recursive=True)
    listed = lister_of(place)
    ((_, expected),) = (found for found in listed.files(recursive=False) if found[0] == path)
    assert path.endswith("/landing/a.json")
    assert info() == expected() is not None
    assert [found for found, _ in lister.files_after(path, recursive=False)] == []
    place.remove("a.json")
    assert list(lister.files(recursive=False)) == []


def test_a_path_below_a_file_is_an_error_that_names_the_path(place: Place) -> None:
    put(place, "a.json")
    with pytest.raises(OptionError, match=r"/landing/a\.json/below"):
        lister_of(place, "/a.json/below").check_root()


@pytest.mark.parametrize("prefix", ["", "/", "file://", "file:", "local://", "local:/"])
def test_a_local_directory_has_the_same_files_in_every_spelling(prefix: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("")
    assert [path for path, _ in open_listers([f"{prefix}{tmp_path}"], {}).files(recursive=False)] == [
        f"{tmp_path}/a.json"
    ]


def test_a_file_that_vanished_since_it_was_listed_has_no_information(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("")
    ((_, info),) = open_listers([str(tmp_path)], {}).files(recursive=False)
    (tmp_path / "a.json").unlink()
    assert info() is None


def test_a_server_that_cannot_be_reached_is_an_error_without_its_secrets(s3_bucket: S3Bucket) -> None:
    options = {
        "endpoint_url": "http://127.0.0.1:9",
        "key": "test",
        "secret": "hunter2",
        "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1},
        "skip_instance_cache": True,
    }
    with pytest.raises(OptionError, match=r"s3://b/landing cannot be reached") as caught:
        open_listers(["s3://b/landing"], options).check_root()
    assert "hunter2" not in str(caught.value)
    assert "storage.* options" in str(caught.value)


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"mtime": 1.5}, 1_500_000),
        ({"LastModified": dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)}, 2_000_000),
        ({"updated": "1970-01-01T00:00:03Z"}, 3_000_000),
        ({"mtime": dt.datetime(2038, 8, 4, 7, 38, 53, 836126, dt.UTC)}, 2_164_520_333_836_126),
        ({"last_modified": dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))}, 0),
        ({"modify": "19700101000004"}, 4_000_000),
        ({"modify": "19700101000004.25"}, 4_250_000),
        ({"modify": "Jan 01 00:04"}, 0),
    ],
    ids=["mtime", "s3", "gcs", "exact", "azure", "ftp", "ftp with a fraction", "ftp without MLSD"],
)
def test_the_modification_time_is_found_under_every_name(info: dict[str, Any], expected: int) -> None:
    assert modified_us(info) == expected
