"""Which files are read, and in which order: the options of Spark's file source, and further ones."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest

from flip27_source.coordination.batch_limits import Limits
from flip27_source.errors import DiscoveryError, IncompatibleStateError, OptionError
from tests.places import Place

from .file_sources import Run, files_source, names_on, one_by_one, rounds_on, write


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["b", "c", "a"]),
        ({"fileOrder": "modified"}, ["b", "c", "a"]),
        ({"fileOrder": "name"}, ["a", "b", "c"]),
        ({"fileOrder": "size"}, ["c", "a", "b"]),
        ({"latestFirst": "true"}, ["a", "c", "b"]),
    ],
    ids=str,
)
def test_files_are_read_in_the_chosen_order(
    tmp_path: Path, options: dict[str, str], expected: list[str]
) -> None:
    write(tmp_path, "a", data=b"xx", modified_s=3000)
    write(tmp_path, "b", data=b"xxx", modified_s=1000)
    write(tmp_path, "c", data=b"x", modified_s=2000)
    assert one_by_one(Run(files_source(tmp_path, **options)), 3) == expected


@pytest.mark.parametrize("options", [{}, {"fileOrder": "modified"}, {"fileOrder": "size"}], ids=str)
def test_files_that_tie_are_read_in_path_order(tmp_path: Path, options: dict[str, str]) -> None:
    write(tmp_path, "b", "a", "d", "c", modified_s=1000)
    assert one_by_one(Run(files_source(tmp_path, **options)), 5) == ["a", "b", "c", "d"]


ONE = Limits(files=1)


def test_latest_first_reads_newer_files_before_waiting_ones(tmp_path: Path) -> None:
    rounds = rounds_on(tmp_path, latestFirst=True)
    for number in range(6):
        write(tmp_path, f"old-{number}", modified_s=1000 + number)
    assert [rounds.names(ONE) for _ in range(2)] == [["old-5"], ["old-4"]]
    write(tmp_path, "new-1", "new-2", modified_s=2000)
    assert rounds.names(ONE) == ["new-2"]
    rounds = rounds.restarted()
    write(tmp_path, "newest", modified_s=3000)
    read = [rounds.names(ONE) for _ in range(7)]
    assert read == [["newest"], ["new-1"], ["old-3"], ["old-2"], ["old-1"], ["old-0"], []]


def test_latest_first_does_not_write_a_backlog_again_for_every_new_file(tmp_path: Path) -> None:
    """1,000 files wait; two arrive with each batch of one file: the segment of the 1,000 is not rewritten."""
    for number in range(1000):
        write(tmp_path, f"old-{number:04}", modified_s=1000)
    rounds = rounds_on(tmp_path, latestFirst=True)
    rounds.names(ONE)
    names = set()
    for number in range(40):
        write(tmp_path, f"new-{number:02}-a", f"new-{number:02}-b", modified_s=2000 + number)
        assert rounds.names(ONE) == [f"new-{number:02}-b"]
        assert rounds.restored is not None
        names.add(rounds.restored.enumerator_state.pages[-1].splits.name)
    assert len(names) == 1


def test_latest_first_and_another_order_are_refused_together(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError,
        match="latestFirst is true, which orders files by modification time, but fileOrder is name",
    ):
        names_on(tmp_path, latestFirst=True, fileOrder="name")


def test_files_older_than_max_file_age_are_left_out_counted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The age is relative to the newest known file; as in Spark, the first round accepts every file."""
    rounds = rounds_on(tmp_path, maxFileAge="1 hour")
    write(tmp_path, "ancient", modified_s=1000)
    write(tmp_path, "new", modified_s=100_000)
    assert rounds.names() == ["ancient", "new"]
    write(tmp_path, "old", modified_s=100_000 - 3601)
    write(tmp_path, "young", modified_s=100_000 - 3599)
    with caplog.at_level(logging.WARNING):
        assert rounds.names() == ["young"]
        assert rounds.names() == []
    assert rounds.gauges["filesTooOld"] == 1
    named = [message for message in caplog.messages if "older than maxFileAge" in message]
    assert named == [f"{tmp_path}/old is older than maxFileAge and is not read"]


def test_only_existing_files_are_remembered_as_too_old(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Over years, a query leaves out any number of files; it forgets those that have been removed."""
    rounds = rounds_on(tmp_path, maxFileAge="1 hour")
    write(tmp_path, "new", modified_s=100_000)
    assert rounds.names() == ["new"]
    for number in range(20):
        write(tmp_path, f"old{number}", modified_s=1000)
        assert rounds.names() == rounds.names() == []
        if number >= 2:
            (tmp_path / f"old{number - 2}").unlink()
    assert rounds.names() == []
    assert len(rounds.enumerator.search._too_old._last) == 2
    write(tmp_path, "newer", modified_s=100_001)
    assert rounds.names() == ["newer"]
    assert rounds.gauges["filesTooOld"] == 20
    assert sum("older than maxFileAge" in message for message in caplog.messages) == 20


def test_a_file_that_was_too_old_is_read_after_a_restart_with_a_greater_max_file_age(tmp_path: Path) -> None:
    rounds = rounds_on(tmp_path, maxFileAge="1 hour")
    write(tmp_path, "new", modified_s=100_000)
    assert rounds.names() == ["new"]
    write(tmp_path, "old", modified_s=1000)
    assert rounds.names() == []
    assert rounds.restarted(maxFileAge="1 hour").names() == []
    assert rounds.restarted(maxFileAge="100 days").names() == ["old"]


@pytest.mark.parametrize("limit", [{"maxFilesPerTrigger": 10}, {"maxBytesPerTrigger": "1m"}], ids=str)
def test_max_file_age_is_ignored_with_latest_first_and_a_limit_as_in_spark(
    tmp_path: Path, limit: dict[str, Any]
) -> None:
    rounds = rounds_on(tmp_path, maxFileAge="1 hour", latestFirst=True, **limit)
    write(tmp_path, "new", modified_s=100_000)
    assert rounds.names() == ["new"]
    write(tmp_path, "old", modified_s=1000)
    assert rounds.names() == ["old"]


def test_with_file_name_only_files_of_the_same_name_are_read_once_across_folders(tmp_path: Path) -> None:
    run = Run(files_source(tmp_path, fileNameOnly=True, recursiveFileLookup=True))
    write(tmp_path, "x/a", "y/a", "y/b")
    assert run.names() == ["a", "b"]
    write(tmp_path, "z/a", "z/c")
    assert run.names() == ["c"]


def test_file_name_only_cannot_be_changed_later(tmp_path: Path) -> None:
    """The state holds hashes of paths or of names: with the other kind, every file would be read again."""
    run = Run(files_source(tmp_path))
    write(tmp_path, "a")
    assert run.names() == ["a"]
    run.source = files_source(tmp_path, fileNameOnly=True)
    with pytest.raises(IncompatibleStateError, match="fileNameOnly"):
        run.names()


def test_files_that_exist_at_the_first_start_can_be_left_out(tmp_path: Path) -> None:
    write(tmp_path, "existing")
    rounds = rounds_on(tmp_path, includeExistingFiles=False)
    assert rounds.names() == []
    write(tmp_path, "new")
    assert rounds.names() == ["new"]
    write(tmp_path, "newer")
    restarted = rounds.restarted()
    assert restarted.names() == ["newer"]
    assert restarted.names() == []


@pytest.mark.parametrize("existing", [(), ("existing",)])
def test_a_start_after_existing_files_is_stored_once_before_anything_is_read(
    tmp_path: Path, existing: tuple[str, ...]
) -> None:
    """A file that arrives while the query is down, before it has read any file, is new after the restart."""
    write(tmp_path, *existing)
    rounds = rounds_on(tmp_path, includeExistingFiles=False)
    for _ in range(2):
        assert rounds.names() == []
        assert rounds.coordinator.last_checkpoint_id == 1
    write(tmp_path, "while it was down")
    assert rounds.restarted().names() == ["while it was down"]


def test_leaving_existing_files_out_of_a_run_that_ends_by_itself_is_refused(tmp_path: Path) -> None:
    """Such a run finds only existing files: every run would skip them all and read nothing."""
    with pytest.raises(OptionError, match="skip every file that exists and read nothing") as caught:
        names_on(tmp_path, includeExistingFiles=False)
    assert "run the query once with a processing-time trigger" in str(caught.value)


def test_several_paths_are_read_and_a_file_in_two_of_them_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, "a/1", "b/2", "c,d/3", "b/deep/4")
    paths = f"{tmp_path}/b, {tmp_path}/b/deep, {tmp_path}/b"
    assert names_on(tmp_path / "a", paths=paths, recursiveFileLookup=True) == ["1", "2", "4"]
    as_json = f'["{tmp_path}/a", "{tmp_path}/c,d"]'
    assert names_on(None, paths=as_json) == ["1", "3"]


@pytest.mark.parametrize("text", ["", "[", "[]", "[1]", "a,,b"])
def test_invalid_lists_of_paths_are_refused(text: str) -> None:
    with pytest.raises(OptionError):
        names_on(None, paths=text)


@pytest.mark.parametrize(
    ("glob", "recursive", "expected"),
    [
        ("2026-*", False, ["1", "2"]),
        ("2026-*", True, ["1", "2", "3"]),
        ("*/2", False, ["2"]),
        ("{2026-01,2027-01}", False, ["1", "5"]),
        ("{2026-01/1,2027-01/5}", False, ["1", "5"]),
        ("202[67]-*/[1-4]", False, ["1", "2"]),
        ("*", False, ["1", "2", "5", "top"]),
        ("*/*/*", False, ["3"]),
        ("nothing-*", False, []),
        ("_*", False, ["hidden"]),
        (r"2026[\-]01/[\1]", False, ["1"]),
        (r"{2026-0[\1]/1,2027-01/[5]}", False, ["1", "5"]),
    ],
)
@pytest.mark.parametrize("place", ["local", "s3"], indirect=True)
def test_a_path_may_be_a_glob(place: Place, glob: str, recursive: bool, expected: list[str]) -> None:
    for name in ("2026-01/1", "2026-02/2", "2026-02/deep/3", "2027-01/5", "2026-02/.4", "_x/hidden", "top"):
        place.put(name, b"x")
    path = f"{place.landing}/{glob}"
    assert names_on(path, recursiveFileLookup=recursive, **place.options) == expected


def test_directories_that_match_a_glob_later_are_read(tmp_path: Path) -> None:
    write(tmp_path, "2026-01/1")
    run = Run(files_source(tmp_path / "2026-*"))
    assert run.names() == ["1"]
    write(tmp_path, "2026-02/2", "2027-01/3")
    assert run.names() == ["2"]


def test_a_directory_whose_name_looks_like_a_glob_is_read_literally(tmp_path: Path) -> None:
    write(tmp_path, "a[1]/x", "a1/y", "a[/z", "b{/k=1/v")
    assert names_on(tmp_path / "a[1]") == ["x"]
    assert names_on(tmp_path / "a[") == ["z"]
    assert names_on(tmp_path / "b{") == ["v"]


@pytest.mark.parametrize("recursive", [False, True])
def test_the_output_of_sparks_file_sink_is_refused_unless_a_glob_matches_its_files(
    place: Place, *, recursive: bool
) -> None:
    options = {"recursiveFileLookup": recursive, "discoveryRetries": 0, **place.options}
    place.put("part-0", b"x")
    run = Run(files_source(place.landing, **options))
    assert run.names() == ["part-0"]
    place.put("_spark_metadata/0", b"v1")
    with pytest.raises(
        DiscoveryError, match=r"is the output of Spark's file sink(?s:.*)/\*, with the option"
    ):
        run.names()
    assert names_on(f"{place.landing}/*", **options) == ["part-0"]


def test_a_glob_that_is_not_closed_is_refused(place: Place) -> None:
    place.put("2026-01/1", b"x")
    for glob in ("2026-0[1", "{2026-01", "2026-01/{1"):
        with pytest.raises(
            OptionError, match=re.escape(f"the glob '{glob.rpartition('/')[2]}' has an unclosed")
        ):
            names_on(f"{place.landing}/{glob}", **place.options)


def test_the_folder_before_a_glob_must_exist(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="nothing does not exist"):
        names_on(tmp_path / "nothing" / "*")


def test_a_missing_path_has_no_files_if_missing_files_are_ignored(tmp_path: Path) -> None:
    run = Run(files_source(tmp_path / "later", ignoreMissingFiles=True))
    assert run.names() == []
    write(tmp_path, "later/a")
    assert run.names() == ["a"]
    os.unlink(tmp_path / "later" / "a")
    os.rmdir(tmp_path / "later")
    assert run.names() == []
