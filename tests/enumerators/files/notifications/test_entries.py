"""A lister finds a single file without listing, with the same result as a whole listing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from s3fs import S3FileSystem

from flip27_source.enumerators.files.listing.choice import open_listers
from tests.s3_server import S3Bucket, new_bucket
from tests.soak.objects import Landing

FOLDERS = ("a", "_x", "k=1", "2026-01")
PARTS = ("a", "b.txt", "_x", ".y", "k=1", "_k=2", "2026-01")
KEYS = sorted("/".join(parts) for depth in (1, 2, 3) for parts in itertools.product(PARTS, repeat=depth))


@pytest.fixture(scope="module")
def bucket(_s3_endpoint: str) -> S3Bucket:
    bucket = new_bucket(_s3_endpoint)
    Landing(bucket, "landing").put(KEYS)
    Landing(bucket, "landing2").put(["a", "b.txt"])
    return bucket


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize(
    "paths",
    [["landing"], ["landing/"], ["landing/k=1"], ["landing/*"], ["landing/{a,2026-*}/*.txt"],
     ["landing/_*/k=1"], ["landing/a", "landing2"], [""]],
)  # fmt: skip
def test_exactly_the_files_of_the_listing_have_an_entry(
    bucket: S3Bucket, paths: Sequence[str], *, recursive: bool
) -> None:
    lister = open_listers([f"s3://{bucket.name}/{path}" for path in paths], bucket.storage_options)
    listed = {path for path, _ in lister.files(recursive=recursive)}
    everything = [f"s3://{bucket.name}/landing/{key}" for key in KEYS]
    everything += [f"s3://{bucket.name}/landing2/{key}" for key in ("a", "b.txt")]
    everything += [f"s3://{bucket.name}2/landing/a", f"s3://{bucket.name}/landing/a/"]
    found = [lister.entry(path, recursive=recursive) for path in everything]
    assert {one[0] for one in found if one is not None} == listed


def test_an_entry_has_the_information_of_the_listing_and_that_of_a_missing_file_has_none(
    bucket: S3Bucket,
) -> None:
    lister = open_listers([f"s3://{bucket.name}/landing"], bucket.storage_options)
    listed = {path: info() for path, info in lister.files(recursive=False)}
    path = f"s3a://{bucket.name}/landing/k=1/b.txt"
    entry = lister.entry(path, recursive=False)
    assert entry is not None
    assert entry[0] == path.replace("s3a", "s3")
    assert entry[1]() == listed[entry[0]] is not None
    gone = lister.entry(f"s3://{bucket.name}/landing/gone", recursive=False)
    assert gone is not None
    assert gone[1]() is None


def test_an_unreadable_object_has_an_entry_as_in_a_listing(
    bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_s3 = S3FileSystem.call_s3

    def without_heads(file_system: Any, method: str, **arguments: Any) -> Any:
        if method == "head_object":
            raise PermissionError("Forbidden")
        return call_s3(file_system, method, **arguments)

    lister: Any = open_listers([f"s3://{bucket.name}/landing"], bucket.storage_options)
    listed = {path: info() for path, info in lister.files(recursive=False)}
    monkeypatch.setattr(S3FileSystem, "call_s3", without_heads)
    path = f"s3://{bucket.name}/landing/a"
    assert lister.entry(path, recursive=False)[1]() == listed[path] is not None
    assert lister.entry(f"{path}gone", recursive=False)[1]() is None


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("pattern", ["", "*", "{a,2026-*}", "_*/k=1", "*/*.txt"])
def test_entries_on_a_local_disk_equal_those_of_a_first_listing(
    tmp_path: Path, pattern: str, *, recursive: bool
) -> None:
    folders = ["/".join(parts) for depth in range(3) for parts in itertools.product(FOLDERS, repeat=depth)]
    everything = [tmp_path / folder / name for folder in folders for name in ("f.txt", "_h.txt")]
    for file in everything:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    lister = open_listers([f"{tmp_path}/{pattern}"], {})
    found = [lister.entry(str(path), recursive=recursive) for path in everything]
    lister.remember([])
    listed = {path: info() for path, info in lister.files(recursive=recursive)}
    assert {one[0]: one[1]() for one in found if one is not None} == listed
    assert listed or pattern == "_*/k=1"
    assert lister.entry(f"s3://bucket{tmp_path}/f.txt", recursive=recursive) is None
