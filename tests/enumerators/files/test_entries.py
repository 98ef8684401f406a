"""What listing entries of fsspec say about the version of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flip27_source.enumerators.files.entries import modified_us, version_tag_of
from flip27_source.enumerators.files.listing.lister import FileInfo
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError
from flip27_source.readers.files.input import check_version

from .file_sources import GivenFiles, rounds_on

WRITTEN: dict[str, Any] = {
    "name": "bucket/in/a", "size": 4, "type": "file", "generation": "1767225600000000", "metageneration": "1",
    "etag": "CICA+ZWU6ZEDEAE=", "timeCreated": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z",
}  # fmt: skip
ARCHIVED = WRITTEN | {
    "metageneration": "2", "etag": "CICA+ZWU6ZEDEAI=", "updated": "2026-02-01T00:00:00Z"
}  # fmt: skip
OVERWRITTEN = WRITTEN | {
    "generation": "1769904000000000", "etag": "CIDA1ae8t5IDEAE=", "timeCreated": "2026-02-01T00:00:00Z",
    "updated": "2026-02-01T00:00:00Z",
}  # fmt: skip
NEW_YEAR_US = 1_767_225_600_000_000


def test_a_change_of_the_metadata_of_an_object_in_google_cloud_storage_is_no_new_version() -> None:
    """A lifecycle rule that sets another storage class changes the ETag and the time of the last update."""
    assert version_tag_of(WRITTEN) == version_tag_of(ARCHIVED) == "1767225600000000"
    assert modified_us(WRITTEN) == modified_us(ARCHIVED) == NEW_YEAR_US
    assert version_tag_of(OVERWRITTEN) != version_tag_of(WRITTEN)
    assert modified_us(OVERWRITTEN) != NEW_YEAR_US


@pytest.mark.parametrize("tag", ["1767225600000000", "CICA+ZWU6ZEDEAE=", None])
def test_a_waiting_file_is_still_the_one_that_was_found_by_its_generation_or_an_earlier_versions_etag(
    tag: str | None,
) -> None:
    split = FileSplit(path="gs://bucket/in/a", length=4, modified_us=NEW_YEAR_US, etag=tag)
    check_version(split, WRITTEN)
    with pytest.raises(SplitReadError, match="has changed since it was discovered"):
        check_version(split, OVERWRITTEN)
    if tag != "CICA+ZWU6ZEDEAE=":
        check_version(split, ARCHIVED)


def test_a_waiting_file_is_the_same_by_the_time_of_its_last_update_which_earlier_versions_stored() -> None:
    found_us = NEW_YEAR_US + 31 * 86_400_000_000
    check_version(FileSplit(path="gs://bucket/in/a", length=4, modified_us=found_us), ARCHIVED)


def test_objects_whose_etags_are_known_are_not_read_again_when_generations_are_compared(
    tmp_path: Path,
) -> None:
    rounds, lister = rounds_on(tmp_path, allowOverwrites=True), GivenFiles()
    rounds.list_with(lister)
    lister.infos["gs://bucket/in/a"] = FileInfo(4, NEW_YEAR_US, "CICA+ZWU6ZEDEAE=")
    assert rounds.names() == ["a"]
    for etag in ("CICA+ZWU6ZEDEAE=", "CICA+ZWU6ZEDEAI="):
        lister.infos["gs://bucket/in/a"] = FileInfo(4, NEW_YEAR_US, WRITTEN["generation"], former_etag=etag)
        assert rounds.names() == []
    lister.infos["gs://bucket/in/a"] = FileInfo(4, NEW_YEAR_US, OVERWRITTEN["generation"])
    assert rounds.names() == ["a"]
