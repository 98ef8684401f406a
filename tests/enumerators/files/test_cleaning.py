"""cleanSource: files are archived or deleted once their batch is complete, unless they have changed."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from flip27_source.coordination.batch_limits import Limits
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files import entries
from flip27_source.enumerators.files.archive import archive
from flip27_source.enumerators.files.cleaning import Cleaning, FinishedRanges, PartlyRead
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import OptionError
from flip27_source.options import Options
from tests.deadline import until
from tests.driver.batches import Batches
from tests.places import PLACES, WRITABLE, LocalPlace, Place
from tests.toy_sources import MIB

from .file_sources import Ranges, files_query, write


def cleaning_of(path: Path | str, clean: str = "archive", **options: str) -> Cleaning:
    """The cleaning of the files of a path."""
    given = {"cleanSource": clean, **options}
    return Cleaning(Options.parse(given, FilesEnumerator.options), [str(path)])


class Landing:
    """A query that cleans up the files of a place which it has read."""

    def __init__(self, place: Place, clean: str, **options: str) -> None:
        self.place = place
        given = {"path": place.landing, "cleanSource": clean, "discoveryInterval": "1ms", **place.options}
        if clean == "archive":
            given["sourceArchiveDir"] = place.archive
        self.query = Batches(FilesEnumerator, Ranges, {**given, **options}, boundedness=Boundedness.BOUNDED)

    def next_batch(self, limits: Limits | None = None) -> list[str]:
        """Run one batch in a new run; return the names of its files."""
        self.query.restart()
        return [row.rpartition("/")[2] for row in self.query.batch(limits) or []]

    def clean(self) -> None:
        """Restart the query, which is then notified that the last batch is complete."""
        self.query.restart()
        assert self.query.trigger() is False

    def read_and_clean(self) -> None:
        """Run one batch, and let the query be notified that it is complete."""
        self.query.batch()
        self.clean()

    def wait_for(self, *left: str, archived: Mapping[str, bytes] | None = None) -> None:
        """Wait until exactly these files are in the landing folder and in the archive."""
        expected = (set(left), dict(archived or {}))
        until(lambda: self.files() == expected, self.files)

    def files(self) -> tuple[set[str], dict[str, bytes]]:
        return self.place.names(), self.place.archived()


@pytest.fixture(params=WRITABLE)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with PLACES[request.param](request) as place:
        yield place


def test_files_are_deleted_only_when_their_batch_is_complete(place: Place) -> None:
    place.put("a")
    landing = Landing(place, "delete")
    assert landing.query.batch() == [f"{place.landing}/a"]
    assert place.names() == {"a"}
    landing.query.trigger()
    landing.wait_for()


def test_a_batch_whose_commit_was_lost_is_read_again_before_its_files_are_cleaned(place: Place) -> None:
    place.put("a")
    landing = Landing(place, "delete")
    query = landing.query
    query.trigger()
    planned = query.tasks()
    query.restart()
    assert [split for task in query.tasks() for split in query.attempt(task)] == [f"{place.landing}/a"]
    assert planned == query.tasks()
    assert place.names() == {"a"}
    query.commit()
    landing.clean()
    landing.wait_for()


def test_a_file_that_was_replaced_while_its_batch_ran_stays(place: Place) -> None:
    """It contains rows that were not read."""
    for name in ("a", "b"):
        place.put(name, b"old")
    landing = Landing(place, "archive")
    landing.query.batch()
    place.put("a", b"newer")
    landing.clean()
    landing.wait_for("a", archived={"b": b"old"})


def test_two_notifications_of_one_batch_lose_nothing(place: Place) -> None:
    place.put("a")
    landing = Landing(place, "archive")
    landing.query.batch()
    for _ in range(2):
        landing.clean()
        landing.wait_for(archived={"a": b"data"})


def test_a_file_in_ranges_is_cleaned_only_after_the_batch_of_its_last_range(place: Place) -> None:
    """There are three ranges in three batches; each batch is reported to two drivers."""
    place.put("large", b"x" * (3 * MIB))
    landing = Landing(place, "delete", maxPartitionBytes="1m")
    for start in (0, 1, 2):
        (row,) = landing.next_batch(Limits(bytes=1))
        assert row.startswith(f"large#{start * MIB}-")
        assert place.names() == {"large"}
        landing.query.restart()
        landing.query.enumerator()
    landing.clean()
    landing.wait_for()


@pytest.mark.parametrize("earlier", [b"older file", b"old"], ids=["another size", "the same size"])
def test_an_older_file_in_the_archive_is_not_overwritten(place: Place, earlier: bytes) -> None:
    place.put("a", earlier, folder=place.archived_folder)
    place.put("a", b"new")
    landing = Landing(place, "archive")
    landing.read_and_clean()
    until(lambda: not place.names(), landing.files)
    assert place.archived()["a"] == earlier
    assert sorted(place.archived().values()) == sorted([earlier, b"new"])


def test_every_version_of_a_file_stays_in_the_archive(place: Place) -> None:
    """Object stores tell times in whole seconds, so several versions have one time."""
    landing = Landing(place, "archive", allowOverwrites="true")
    for version in (b"v1", b"v2", b"v3", b"v4"):
        place.put("a", version)
        landing.next_batch()
        landing.clean()
        until(lambda: not place.names(), landing.files)
    assert sorted(place.archived().values()) == [b"v1", b"v2", b"v3", b"v4"]


def test_files_of_several_buckets_with_one_name_are_all_archived(request: pytest.FixtureRequest) -> None:
    with ExitStack() as stack:
        archive, *places = (stack.enter_context(PLACES["s3"](request)) for _ in range(9))
        cleaning = cleaning_of(archive.landing, sourceArchiveDir=archive.archive, **archive.options)
        actions = []
        for number, place in enumerate(places):
            place.put("a", b"%d" % number)
            entry = fsspec.filesystem("s3", **archive.storage_options).info(f"{place.landing}/a")
            split = FileSplit(path=f"{place.landing}/a", length=1, modified_us=entries.modified_us(entry))
            actions.append(cleaning.action_for(split))
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(cleaning.perform, actions))
        assert [place.names() for place in places] == [set()] * 8
        assert sorted(archive.archived().values()) == [b"%d" % number for number in range(8)]


def test_one_thread_at_a_time_archives_under_a_name() -> None:
    both = threading.Barrier(2)
    met: list[str] = []

    class Waiting:
        def move(self, target: str) -> bool:
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait(0.3)
                met.append(target)
            return True

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda name: archive(Waiting(), name, 1), ["archive/a"] * 2))
    assert met == []


def test_local_files_of_one_size_and_time_are_all_archived(tmp_path: Path) -> None:
    cleaning = cleaning_of(tmp_path / "landing", sourceArchiveDir=f"{tmp_path}/archive")
    split = FileSplit(path=f"{tmp_path}/landing/a", length=4, modified_us=100_000_000)
    for content in (b"new1", b"new2", b"new3", b"new2"):
        write(tmp_path / "landing", "a", data=content, modified_s=100)
        cleaning.perform(cleaning.action_for(split))
    found = {path.name: path.read_bytes() for path in (tmp_path / "archive").rglob("a*") if path.is_file()}
    assert found == {"a": b"new1", "a.100000000": b"new2", "a.100000000.2": b"new3"}


@pytest.mark.parametrize("place", ["s3", "azure", "gcs"], indirect=True)
def test_an_object_that_was_copied_before_a_crash_is_in_the_archive_once(place: Place) -> None:
    place.put("a", folder=place.archived_folder)
    place.put("a")
    landing = Landing(place, "archive")
    landing.read_and_clean()
    landing.wait_for(archived={"a": b"data"})


@pytest.mark.parametrize("place", ["sftp"], indirect=True)
def test_each_version_of_a_file_on_an_sftp_server_is_kept_in_the_archive(
    place: Place, tmp_path: Path
) -> None:
    landing = Landing(place, "archive", allowOverwrites="true")
    for text, modified_s in ((b"old\n", 1_700_000_000), (b"new\n", 1_700_000_060)):
        write(tmp_path, "new", data=text, modified_s=modified_s)
        (tmp_path / "landing").mkdir(exist_ok=True)
        os.replace(tmp_path / "new", tmp_path / "landing" / "a")
        landing.next_batch()
        landing.clean()
        until(lambda: not place.names(), landing.files)
    assert place.archived() == {"a": b"old\n", "a.1700000060000000": b"new\n"}


@pytest.mark.parametrize("place", ["sftp"], indirect=True)
def test_a_move_on_an_sftp_server_that_crashes_before_its_deletion_is_repeated(
    place: Place, tmp_path: Path
) -> None:
    cleaning = cleaning_of(place.landing, sourceArchiveDir=place.archive, **place.options)
    split = FileSplit(path=f"{place.landing}/a", length=4, modified_us=1_700_000_000_000_000)
    for _ in range(3):
        write(tmp_path / "landing", "a", modified_s=1_700_000_000)
        for _ in range(2):
            cleaning.perform(cleaning.action_for(split))
    assert place.archived() == {"a": b"data"}


def test_without_clean_source_files_stay_and_nothing_is_due(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    place.put("a")
    landing = Landing(place, "off")
    landing.query.batch()
    landing.query.trigger()
    place.put("b")
    landing.next_batch()
    assert landing.query.snapshot().actions == ()
    assert place.names() == {"a", "b"}


def test_a_local_file_that_was_rewritten_with_the_same_size_stays(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    place.put("a", b"old")
    landing = Landing(place, "delete")
    landing.query.batch()
    write(tmp_path / "landing", "a", data=b"new", modified_s=2_000_000_000)
    place.put("b")
    landing.next_batch()
    landing.clean()
    landing.wait_for("a")


@pytest.mark.parametrize(
    ("path", "archive"),
    [
        ("landing", "landing"),
        ("landing", "landing/done"),
        ("landing/*", "landing/done"),
        ("land{ing,ed}", "landed/done"),
        ("*", "anything/below"),
        ("landing/_*", "landing/_x/done"),
        ("landing/*", "landing"),
        ("a[1]", "a[1]/done"),
        ("landing", "link/done"),
        ("link", "landing/done"),
        ("link/*", "landing"),
    ],
)
def test_an_archive_in_a_directory_that_the_source_reads_is_refused(
    tmp_path: Path, path: str, archive: str
) -> None:
    for folder in ("landing", "a[1]"):
        (tmp_path / folder).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "landing")
    with pytest.raises(OptionError, match="which the source reads, because it is in"):
        cleaning_of(tmp_path / path, sourceArchiveDir=str(tmp_path / archive))


@pytest.mark.parametrize(
    ("path", "archive"),
    [("landing", "archive"), ("landing", "landing/_archive"), ("landing/2026-*", "landing/done")],
)
def test_an_archive_elsewhere_or_in_a_hidden_directory_is_accepted(
    tmp_path: Path, path: str, archive: str
) -> None:
    (tmp_path / "landing" / "2026-11").mkdir(parents=True)
    cleaning_of(tmp_path / path, sourceArchiveDir=str(tmp_path / archive))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "option sourceArchiveDir is not set: cleanSource=archive moves"),
        ({"clean": "remove"}, "one of off, archive, delete is expected"),
        ({"sourceArchiveDir": "s3://bucket/archive"}, "which is not on the file system of the path"),
    ],
    ids=str,
)
def test_the_error_for_an_invalid_option_says_what_is_expected(
    tmp_path: Path, options: dict[str, str], told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        cleaning_of(tmp_path, **options)


@pytest.mark.parametrize(
    "archive",
    [
        "sftp://tom:hunter2@host/archive",
        "sftp://tom:hunter2@elsewhere/archive",
        "s3://KEY:hunter2@bucket/archive",
        "abfs://archive@account/a?sv=2024&sig=hunter2",
    ],
)
def test_an_archive_url_with_credentials_is_refused_without_showing_them(archive: str) -> None:
    """The state contains the archive's path until the file has been moved there."""
    why = r"option sourceArchiveDir .*(user name or password|parameter sig)"
    with pytest.raises(OptionError, match=why) as caught:
        cleaning_of("sftp://host/landing", sourceArchiveDir=archive)
    assert "hunter2" not in str(caught.value)


def a_range(start: int, end: int | None) -> FileSplit:
    return FileSplit(path="/a", length=30, modified_us=1, start=start, end=end)


def test_ranges_may_end_in_any_order_and_be_reported_again() -> None:
    finished = FinishedRanges()
    assert not finished.completes(a_range(20, None))
    assert not finished.completes(a_range(0, 10))
    assert not finished.completes(a_range(0, 10))
    assert [item.ranges for item in finished.stored()] == [((0, 10), (20, 30))]
    restored = FinishedRanges(finished.stored())
    assert restored.completes(a_range(10, 20))
    assert restored.stored() == ()


@pytest.mark.parametrize("other", [{"modified_us": 2}, {"length": 31}, {"etag": "b"}], ids=str)
def test_ranges_of_another_version_of_a_file_do_not_count(other: dict[str, Any]) -> None:
    finished = FinishedRanges()
    finished.completes(a_range(0, 10))
    assert not finished.completes(replace(a_range(10, None), **other))
    assert finished.completes(a_range(10, None))


def test_the_ranges_of_an_old_state_count_unless_versions_are_told_apart() -> None:
    old = PartlyRead(path="/a", modified_us=1, ranges=((0, 10),))
    assert not FinishedRanges([old]).completes(replace(a_range(10, None), version="v"))
    assert FinishedRanges([old]).completes(a_range(10, None))


def test_a_file_that_is_not_in_ranges_is_complete_at_once_even_if_empty() -> None:
    assert FinishedRanges().completes(a_range(0, None))
    assert FinishedRanges().completes(FileSplit(path="/e", length=0, modified_us=1))


def on_another_device(than: Path) -> str:
    """Return a writable folder on another device than ``than``; skip the test if there is none."""
    for folder in ("/dev/shm", "/var/tmp", str(Path.home())):
        if os.access(folder, os.W_OK) and os.stat(folder).st_dev != than.stat().st_dev:
            return folder
    pytest.skip("this machine has no second device")


def test_a_file_is_archived_on_another_device_with_its_time_and_never_half_copied(tmp_path: Path) -> None:
    landed = tmp_path / "landing" / "a.json"
    write(landed.parent, landed.name, data=b"0123456789")
    os.utime(landed, ns=(1_000_000, 2_000_000))
    with tempfile.TemporaryDirectory(dir=on_another_device(tmp_path)) as archive:
        cleaning = cleaning_of(landed.parent, sourceArchiveDir=archive)
        split = FileSplit(path=str(landed), length=10, modified_us=2_000)
        cleaning.perform(cleaning.action_for(split))
        archived = Path(f"{archive}{landed}")
        assert archived.read_bytes() == b"0123456789"
        assert archived.stat().st_mtime_ns == 2_000_000
        assert [path for path in Path(archive).rglob("*") if path.is_file()] == [archived]
    assert not landed.exists()


@pytest.mark.parametrize(("clean", "left"), [("off", ["in/a"]), ("archive", ["new{}/in/a"]), ("delete", [])])
def test_the_present_options_decide_about_a_file_already_due(
    tmp_path: Path, clean: str, left: list[str]
) -> None:
    write(tmp_path, "in/a", modified_s=100)
    split = FileSplit(path=f"{tmp_path}/in/a", length=4, modified_us=100_000_000)
    action = cleaning_of(tmp_path / "in", sourceArchiveDir=f"{tmp_path}/old").action_for(split)
    cleaning_of(tmp_path / "in", clean, sourceArchiveDir=f"{tmp_path}/new").perform(action)
    assert [*map(str, tmp_path.rglob("a"))] == [f"{tmp_path}/{at.format(tmp_path)}" for at in left]


def test_two_files_with_the_same_name_of_the_greatest_length_are_both_archived(tmp_path: Path) -> None:
    landed = tmp_path / "landing" / ("ä" * 127)
    landed.parent.mkdir()
    cleaning = cleaning_of(landed.parent, sourceArchiveDir=str(tmp_path / "archive"))
    for content, modified_us in (b"first", 1_000), (b"second", 2_000):
        landed.write_bytes(content)
        os.utime(landed, ns=(modified_us * 1000, modified_us * 1000))
        split = FileSplit(path=str(landed), length=len(content), modified_us=modified_us)
        cleaning.perform(cleaning.action_for(split))
    found = sorted(path.read_bytes() for path in (tmp_path / "archive").rglob("*") if path.is_file())
    assert found == [b"first", b"second"]


def test_if_the_path_is_a_file_only_that_file_is_cleaned(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path, name, data=name.encode())
    engine = files_query(tmp_path / "a", cleanSource="delete", stateLocation=str(tmp_path / "state"))
    engine.process_all_available()
    until(lambda: not (tmp_path / "a").exists())
    engine.stop()
    assert engine.rows == [("a",)]
    assert (tmp_path / "b").exists()
