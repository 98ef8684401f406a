"""cleanSource: files are archived or deleted once their batch is complete, unless they have changed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import fsspec
import pytest
from fsspec.core import strip_protocol

from flip27_source.coordination.packing import Limits
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files.cleaning import Cleaning, FinishedRanges
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import OptionError
from flip27_source.options import Options
from flip27_source.reader import ReadsRanges
from flip27_source.testing import MicroBatchEngine
from tests.azurite_server import AzureContainer
from tests.deadline import until
from tests.driver.batches import Batches
from tests.gcs_server import GcsBucket
from tests.other_file_systems import PASSWORD, USER, sftp_server
from tests.s3_server import S3Bucket
from tests.toy_sources import MIB, EchoReader

SFTP_OPTIONS = {"storage.username": USER, "storage.password": PASSWORD}


class Ranges(EchoReader, ReadsRanges):
    """Reads ranges of any file."""

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        return True


class Landing:
    """A landing folder and an archive in a file system, and a query that cleans up what it has read."""

    def __init__(self, file_system: Any, root: str, options: dict[str, str]) -> None:
        self.fs = file_system
        self.root = root
        self.storage = options
        self.path = f"{root}/landing"
        self.archive = f"{root}/archive"
        self.fs.makedirs(self.name("landing"), exist_ok=True)

    def name(self, path: str) -> str:
        """Return the file system's name for a path that is relative to the root."""
        return str(strip_protocol(f"{self.root}/{path}"))

    def put(self, name: str, data: bytes = b"data") -> None:
        self.fs.pipe_file(self.name(f"landing/{name}"), data)

    def put_in_archive(self, name: str, data: bytes) -> None:
        path = self.name(f"{self.archived}/{name}")
        self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.fs.pipe_file(path, data)

    def content(self, path: str) -> bytes:
        return bytes(self.fs.cat_file(self.name(path)))

    def files(self) -> list[str]:
        """Return all files, relative to the root."""
        self.fs.invalidate_cache()
        root = strip_protocol(self.root)
        return sorted(name[len(root) + 1 :] for name in self.fs.find(root))

    @property
    def archived(self) -> str:
        """The folder to which files of the landing folder are archived, relative to the root."""
        path = strip_protocol(self.path).lstrip("/")
        is_in_bucket = self.root.startswith(("s3:", "gs:", "abfs:"))
        return "archive/" + (path.partition("/")[2] if is_in_bucket else path)

    def query(self, clean: str, **options: str) -> Batches:
        given = {
            "path": self.path,
            "cleanSource": clean,
            "discoveryInterval": "1ms",
            **self.storage,
            **options,
        }
        if clean == "archive":
            given["sourceArchiveDir"] = self.archive
        return Batches(FilesEnumerator, Ranges, given, boundedness=Boundedness.BOUNDED)

    def next_batch(self, query: Batches, limits: Limits | None = None) -> list[str]:
        """Run one batch in a new run; return the names of its files."""
        query.restart()
        rows = query.batch(limits) or []
        return [row.rpartition("/")[2] for row in rows]

    def notify_completion(self, query: Batches) -> None:
        """Restart the query, which is then notified that the last batch is complete."""
        query.restart()
        assert query.trigger() is False

    def wait_until_gone(self, path: str) -> None:
        deadline = monotonic() + 20
        while path in (found := self.files()):
            assert monotonic() < deadline, found

    def wait_for_files(self, *expected: str) -> None:
        deadline = monotonic() + 20
        while (found := self.files()) != sorted(expected):
            assert monotonic() < deadline, found


def _s3(request: pytest.FixtureRequest) -> Iterator[Landing]:
    bucket: S3Bucket = request.getfixturevalue("s3_bucket")
    yield Landing(bucket.file_system, f"s3://{bucket.name}/data", bucket.options)


def _gcs(request: pytest.FixtureRequest) -> Iterator[Landing]:
    bucket: GcsBucket = request.getfixturevalue("gcs_bucket")
    yield Landing(bucket.file_system, f"gs://{bucket.name}/data", bucket.options)


def _azure(request: pytest.FixtureRequest) -> Iterator[Landing]:
    container: AzureContainer = request.getfixturevalue("azure_container")
    yield Landing(container.file_system, f"{container.url}/data", container.options)


def _memory(request: pytest.FixtureRequest) -> Iterator[Landing]:
    yield Landing(fsspec.filesystem("memory"), "memory:///cleaning", {})
    fsspec.filesystem("memory").rm("/cleaning", recursive=True)


def _local(request: pytest.FixtureRequest) -> Iterator[Landing]:
    yield local_landing(request.getfixturevalue("tmp_path"))


def local_landing(folder: Path) -> Landing:
    return Landing(fsspec.filesystem("file"), str(folder), {})


def _sftp(request: pytest.FixtureRequest) -> Iterator[Landing]:
    with sftp_landing(request.getfixturevalue("tmp_path")) as landing:
        yield landing


@contextmanager
def sftp_landing(folder: Path) -> Iterator[Landing]:
    with sftp_server(folder) as server:
        # An earlier server of this process may have had the same port, and fsspec caches connections.
        fs = fsspec.filesystem(
            "sftp",
            host="127.0.0.1",
            port=server.port,
            username=USER,
            password=PASSWORD,
            skip_instance_cache=True,
        )
        yield Landing(fs, f"{server.url}/data", SFTP_OPTIONS)


PLACES = {
    "local": _local, "memory": _memory, "s3": _s3, "azure": _azure, "gcs": _gcs, "sftp": _sftp,
}  # fmt: skip


@pytest.fixture(params=list(PLACES))
def landing(request: pytest.FixtureRequest) -> Iterator[Landing]:
    yield from PLACES[request.param](request)


def test_files_are_deleted_only_when_their_batch_is_complete(landing: Landing) -> None:
    landing.put("a")
    query = landing.query("delete")
    assert query.batch() == [f"{landing.path}/a"]
    assert landing.files() == ["landing/a"]
    query.trigger()
    landing.wait_for_files()


def test_files_are_archived_with_their_full_path_below_the_archive(landing: Landing) -> None:
    landing.put("a", b"first")
    query = landing.query("archive")
    query.batch()
    landing.notify_completion(query)
    landing.wait_for_files(f"{landing.archived}/a")
    assert landing.content(f"{landing.archived}/a") == b"first"


def test_a_batch_whose_commit_was_lost_is_read_again_before_its_files_are_cleaned(landing: Landing) -> None:
    landing.put("a")
    query = landing.query("delete")
    query.trigger()
    planned = query.tasks()
    query.restart()
    assert [split for task in query.tasks() for split in query.attempt(task)] == [f"{landing.path}/a"]
    assert planned == query.tasks()
    assert landing.files() == ["landing/a"]
    query.commit()
    landing.notify_completion(query)
    landing.wait_for_files()


def test_a_file_that_was_replaced_while_its_batch_ran_stays(landing: Landing) -> None:
    """It contains rows that were not read."""
    landing.put("a", b"old")
    landing.put("b", b"old")
    query = landing.query("archive")
    query.batch()
    landing.put("a", b"newer")
    landing.notify_completion(query)
    landing.wait_for_files("landing/a", f"{landing.archived}/b")


def test_two_notifications_of_one_batch_lose_nothing(landing: Landing) -> None:
    landing.put("a")
    query = landing.query("archive")
    query.batch()
    for _ in range(2):
        landing.notify_completion(query)
        landing.wait_for_files(f"{landing.archived}/a")


def test_a_file_in_ranges_is_cleaned_only_after_the_batch_of_its_last_range(landing: Landing) -> None:
    """There are three ranges in three batches; each batch is reported to two drivers."""
    landing.put("large", b"x" * (3 * MIB))
    query = landing.query("delete", maxPartitionBytes="1m")
    for start in (0, 1, 2):
        (row,) = landing.next_batch(query, Limits(bytes=1))
        assert row.startswith(f"large#{start * MIB}-")
        assert landing.files() == ["landing/large"]
        query.restart()
        query.enumerator()
    landing.notify_completion(query)
    landing.wait_for_files()


@pytest.mark.parametrize("earlier", [b"older file", b"old"], ids=["another size", "the same size"])
def test_an_older_file_in_the_archive_is_not_overwritten(landing: Landing, earlier: bytes) -> None:
    landing.put_in_archive("a", earlier)
    landing.put("a", b"new")
    query = landing.query("archive")
    query.batch()
    landing.notify_completion(query)
    landing.wait_until_gone("landing/a")
    assert len(landing.files()) == 2
    assert {landing.content(name) for name in landing.files()} == {earlier, b"new"}


@pytest.mark.parametrize("landing", ["s3", "azure", "gcs"], indirect=True)
def test_an_object_that_was_copied_before_a_crash_is_in_the_archive_once(landing: Landing) -> None:
    landing.put_in_archive("a", b"data")
    landing.put("a", b"data")
    query = landing.query("archive")
    query.batch()
    landing.notify_completion(query)
    landing.wait_for_files(f"{landing.archived}/a")


def test_each_version_of_a_file_on_an_sftp_server_is_kept_in_the_archive(tmp_path: Path) -> None:
    with sftp_landing(tmp_path) as landing:
        query = landing.query("archive", allowOverwrites="true")
        for text, modified_s in ((b"old\n", 1_700_000_000), (b"new\n", 1_700_000_060)):
            (tmp_path / "new").write_bytes(text)
            os.utime(tmp_path / "new", (modified_s, modified_s))
            os.replace(tmp_path / "new", tmp_path / "data" / "landing" / "a")
            landing.next_batch(query)
            landing.notify_completion(query)
            landing.wait_until_gone("landing/a")
        assert {path.rpartition("/")[2]: landing.content(path) for path in landing.files()} == {
            "a": b"old\n",
            "a.1700000060000000": b"new\n",
        }


def test_a_move_on_an_sftp_server_that_crashes_before_its_deletion_is_repeated(tmp_path: Path) -> None:
    with sftp_landing(tmp_path) as landing:
        given = {"cleanSource": "archive", "sourceArchiveDir": landing.archive, **SFTP_OPTIONS}
        cleaning = Cleaning(Options.parse(given, FilesEnumerator.options), [landing.path])
        split = FileSplit(path=f"{landing.path}/a", length=4, modified_us=1_700_000_000_000_000)
        for _ in range(3):
            landing.put("a")
            os.utime(tmp_path / "data" / "landing" / "a", (1_700_000_000, 1_700_000_000))
            cleaning.perform(cleaning.action_for(split))
            cleaning.perform(cleaning.action_for(split))
        assert {path.rpartition("/")[2]: landing.content(path) for path in landing.files()} == {
            "a": b"data",
            "a.1700000000000000": b"data",
        }


def test_without_clean_source_files_stay_and_nothing_is_due(tmp_path: Path) -> None:
    landing = local_landing(tmp_path)
    landing.put("a")
    query = landing.query("off")
    query.batch()
    query.trigger()
    landing.put("b")
    landing.next_batch(query)
    assert query.snapshot().actions == ()
    assert landing.files() == ["landing/a", "landing/b"]


def test_a_local_file_that_was_rewritten_with_the_same_size_stays(tmp_path: Path) -> None:
    landing = local_landing(tmp_path)
    landing.put("a", b"old")
    query = landing.query("delete")
    query.batch()
    landing.put("a", b"new")
    os.utime(tmp_path / "landing" / "a", (2_000_000_000, 2_000_000_000))
    landing.put("b")
    query.restart()
    query.batch()
    landing.notify_completion(query)
    landing.wait_for_files("landing/a")


@pytest.mark.parametrize(
    ("path", "archive", "recursive"),
    [
        ("landing", "landing", False),
        ("landing", "landing/done", True),
        ("landing/*", "landing/done", False),
        ("land{ing,ed}", "landed/done", False),
        ("*", "anything/below", False),
    ],
)
def test_an_archive_in_a_directory_that_the_source_reads_is_refused(
    tmp_path: Path, path: str, archive: str, recursive: bool
) -> None:
    (tmp_path / "landing").mkdir()
    options = {
        "path": str(tmp_path / path),
        "cleanSource": "archive",
        "sourceArchiveDir": str(tmp_path / archive),
        "recursiveFileLookup": str(recursive),
    }
    with pytest.raises(OptionError, match="which the source reads, because it is in"):
        Batches(FilesEnumerator, EchoReader, options).trigger()


@pytest.mark.parametrize(
    ("path", "archive"),
    [("landing", "archive"), ("landing", "landing/_archive"), ("landing/2026-*", "landing/done")],
)
def test_an_archive_elsewhere_or_in_a_hidden_directory_is_accepted(
    tmp_path: Path, path: str, archive: str
) -> None:
    (tmp_path / "landing" / "2026-11").mkdir(parents=True)
    options = {
        "path": str(tmp_path / path),
        "cleanSource": "archive",
        "sourceArchiveDir": str(tmp_path / archive),
    }
    query = Batches(FilesEnumerator, EchoReader, options, boundedness=Boundedness.BOUNDED)
    assert query.trigger() is False


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"cleanSource": "archive"}, "option sourceArchiveDir is not set: cleanSource=archive moves"),
        ({"cleanSource": "remove"}, "one of off, archive, delete is expected"),
        (
            {"cleanSource": "archive", "sourceArchiveDir": "s3://bucket/archive"},
            "which is not on the file system of the path",
        ),
    ],
    ids=str,
)
def test_the_error_for_an_invalid_option_says_what_is_expected(
    tmp_path: Path, options: dict[str, str], told: str
) -> None:
    with pytest.raises(OptionError) as caught:
        Batches(FilesEnumerator, EchoReader, {"path": str(tmp_path), **options}).trigger()
    assert told in str(caught.value)


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
    options = {"path": "sftp://host/landing", "cleanSource": "archive", "sourceArchiveDir": archive}
    with pytest.raises(
        OptionError, match=r"option sourceArchiveDir .*(user name or password|parameter sig)"
    ) as caught:
        Batches(FilesEnumerator, EchoReader, options).trigger()
    assert "hunter2" not in str(caught.value)


def a_range(start: int, end: int | None, *, modified_us: int = 1) -> FileSplit:
    return FileSplit(path="/a", length=30, modified_us=modified_us, start=start, end=end)


def test_ranges_may_end_in_any_order_and_be_reported_again() -> None:
    finished = FinishedRanges()
    assert not finished.completes(a_range(20, None))
    assert not finished.completes(a_range(0, 10))
    assert not finished.completes(a_range(0, 10))
    assert [item.ranges for item in finished.stored()] == [((0, 10), (20, 30))]
    restored = FinishedRanges(finished.stored())
    assert restored.completes(a_range(10, 20))
    assert restored.stored() == ()


def test_ranges_of_another_version_of_a_file_do_not_count() -> None:
    finished = FinishedRanges()
    finished.completes(a_range(0, 10))
    assert not finished.completes(a_range(10, None, modified_us=2))
    assert finished.completes(a_range(10, None))


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
    landed.parent.mkdir()
    landed.write_bytes(b"0123456789")
    os.utime(landed, ns=(1_000_000, 2_000_000))
    with tempfile.TemporaryDirectory(dir=on_another_device(tmp_path)) as archive:
        given = {"cleanSource": "archive", "sourceArchiveDir": archive}
        cleaning = Cleaning(Options.parse(given, FilesEnumerator.options), [str(landed.parent)])
        split = FileSplit(path=str(landed), length=10, modified_us=2_000)
        cleaning.perform(cleaning.action_for(split))
        archived = Path(f"{archive}{landed}")
        assert archived.read_bytes() == b"0123456789"
        assert archived.stat().st_mtime_ns == 2_000_000
        assert [path for path in Path(archive).rglob("*") if path.is_file()] == [archived]
    assert not landed.exists()


def test_two_files_with_the_same_name_of_the_greatest_length_are_both_archived(tmp_path: Path) -> None:
    landed = tmp_path / "landing" / ("ä" * 127)
    landed.parent.mkdir()
    given = {"cleanSource": "archive", "sourceArchiveDir": str(tmp_path / "archive")}
    cleaning = Cleaning(Options.parse(given, FilesEnumerator.options), [str(landed.parent)])
    for content, modified_us in (b"first", 1_000), (b"second", 2_000):
        landed.write_bytes(content)
        os.utime(landed, ns=(modified_us * 1000, modified_us * 1000))
        split = FileSplit(path=str(landed), length=len(content), modified_us=modified_us)
        cleaning.perform(cleaning.action_for(split))
    found = sorted(path.read_bytes() for path in (tmp_path / "archive").rglob("*") if path.is_file())
    assert found == [b"first", b"second"]


def test_if_the_path_is_a_file_only_that_file_is_cleaned(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    engine = MicroBatchEngine(
        {
            "enumerator": "files",
            "reader": "text",
            "path": str(tmp_path / "a"),
            "cleanSource": "delete",
            "stateLocation": str(tmp_path / "state"),
        }
    )
    engine.process_all_available()
    until(lambda: not (tmp_path / "a").exists())
    engine.stop()
    assert engine.rows == [("a",)]
    assert (tmp_path / "b").exists()
