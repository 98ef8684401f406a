"""The same rules for every store: in memory, on local disk, in fsspec's memory, in object stores."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from flip27_source.errors import CorruptStateError, MissingStateError, StateLocationError
from flip27_source.snapshots.store import LocalStore, MemoryStore, Store, open_store, redacted
from tests.azurite_server import AzureContainer
from tests.gcs_server import GcsBucket
from tests.other_file_systems import PASSWORD, USER, sftp_server
from tests.s3_server import S3Bucket
from tests.toy_sources import within

Request = pytest.FixtureRequest


def _in_fsspec_memory(request: Request) -> Iterator[Store]:
    root = f"memory://{request.node.name.partition('[')[0]}"
    store = open_store(f"{root}/state", {})
    yield store
    fsspec.filesystem("memory").rm(root, recursive=True) if fsspec.filesystem("memory").exists(root) else None


def _in_memory(request: Request) -> Iterator[Store]:
    yield MemoryStore()


def _on_disk(request: Request) -> Iterator[Store]:
    yield open_store(str(request.getfixturevalue("tmp_path") / "state"), {})


def _on_azure(request: Request) -> Iterator[Store]:
    container: AzureContainer = request.getfixturevalue("azure_container")
    yield open_store(f"{container.url}/state", container.storage_options)


def _on_gcs(request: Request) -> Iterator[Store]:
    bucket: GcsBucket = request.getfixturevalue("gcs_bucket")
    yield open_store(f"gs://{bucket.name}/state", bucket.storage_options)


def _on_s3(request: Request) -> Iterator[Store]:
    bucket: S3Bucket = request.getfixturevalue("s3_bucket")
    yield open_store(f"s3://{bucket.name}/state", bucket.storage_options)


STORES = {
    "memory": _in_memory, "local": _on_disk, "fsspec-memory": _in_fsspec_memory, "s3": _on_s3,
    "azure": _on_azure, "gcs": _on_gcs,
}  # fmt: skip


@pytest.fixture(params=list(STORES))
def store(request: Request) -> Iterator[Store]:
    yield from STORES[request.param](request)


def test_a_created_file_is_read_back(store: Store) -> None:
    assert store.create("lineage/checkpoints/1.json", b"one")
    assert store.read("lineage/checkpoints/1.json") == b"one"


@pytest.mark.parametrize("data", [b"", b"\x00\xff\r\n", b"x" * 300_000], ids=["empty", "binary", "large"])
def test_bytes_pass_through_unchanged_S2(store: Store, data: bytes) -> None:
    assert store.create("a/b", data)
    assert store.read("a/b") == data


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 1000], ids=["empty", "one byte", "as much as allowed"])
def test_a_bounded_read_returns_a_complete_file_within_the_limit(store: Store, data: bytes) -> None:
    store.create("a/b", data)
    assert store.read("a/b", 1000) == data


def test_a_bounded_read_refuses_a_longer_file_by_name(store: Store) -> None:
    store.create("a/b", b"x" * 1001)
    with pytest.raises(CorruptStateError, match=r"a/b in the state location .* has more than 1000 bytes"):
        store.read("a/b", 1000)


def test_a_bounded_read_of_a_missing_name_says_that_it_is_missing(store: Store) -> None:
    with pytest.raises(MissingStateError, match="a/b is missing"):
        store.read("a/b", 1000)


def test_a_bounded_read_takes_no_more_into_memory_than_the_bound(tmp_path: Path) -> None:
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CorruptStateError, match="has more than 1000 bytes"):
        LocalStore(str(tmp_path)).read("huge", 1000)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


NO_FILES: dict[str, Callable[[Path], None]] = {
    "a FIFO": _fifo,
    "a directory": Path.mkdir,
    "a device": _link_to_a_device,
    "a socket": _socket,
}


@pytest.mark.parametrize("limit", [None, 1000])
@pytest.mark.parametrize("kind", NO_FILES)
def test_a_path_that_is_not_a_file_is_refused_without_blocking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, limit: int | None
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    NO_FILES[kind](Path("odd"))
    refused: list[Exception] = []

    def read() -> None:
        try:
            LocalStore(str(tmp_path)).read("odd", limit)
        except CorruptStateError as error:
            refused.append(error)

    assert within(30, read)
    (error,) = refused
    assert f"is {kind}, not a file" in str(error)


def test_a_path_that_is_not_a_file_is_refused_on_another_file_system_too(tmp_path: Path) -> None:
    pytest.importorskip("sshfs")
    (tmp_path / "state").mkdir()
    os.mkfifo(tmp_path / "state" / "odd")
    (tmp_path / "state" / "long").write_bytes(b"x" * 1001)
    (tmp_path / "state" / "short").write_bytes(b"x" * 1000)
    with sftp_server(tmp_path) as server:
        store = open_store(f"{server.url}/state", {"username": USER, "password": PASSWORD})
        with pytest.raises(CorruptStateError, match=r"odd in the state location .*, not a file"):
            store.read("odd", 1000)
        with pytest.raises(CorruptStateError, match=r"long in the state location .* more than 1000 bytes"):
            store.read("long", 1000)
        assert store.read("short", 1000) == b"x" * 1000


def test_only_the_first_of_two_creates_wins_R5_R9(store: Store) -> None:
    assert store.create("a/b", b"first")
    assert not store.create("a/b", b"second")
    assert store.read("a/b") == b"first"


def test_creating_the_same_bytes_again_reports_that_they_exist(store: Store) -> None:
    data = b"the same object"
    assert store.create("a/b", data)
    assert not store.create("a/b", data)


def test_exactly_one_of_many_simultaneous_creators_wins(store: Store) -> None:
    if store.location.startswith("memory://"):
        pytest.skip("fsspec's memory checks first and writes afterwards; it is for tests only")
    start = threading.Barrier(6)
    won: list[int] = []

    def create(number: int) -> None:
        start.wait()
        if store.create("reports/1/0.json", f"attempt {number}".encode()):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.read("reports/1/0.json") in {f"attempt {number}".encode() for number in won}


def test_replace_writes_whether_or_not_the_name_exists(store: Store) -> None:
    store.replace("drivers/run.json", b"1")
    store.replace("drivers/run.json", b"22")
    assert store.read("drivers/run.json") == b"22"


def test_the_error_for_a_missing_name_says_where_it_was_looked_for(store: Store) -> None:
    with pytest.raises(MissingStateError, match=r"lineage/segments/x\.bin is missing") as caught:
        store.read("lineage/segments/x.bin")
    assert store.location in str(caught.value)
    assert "What to do: restore it from a backup" in str(caught.value)


def test_a_list_has_the_direct_children_of_a_folder_in_order(store: Store) -> None:
    for name in ("f/b", "f/a", "f/c/deep", "g/other", "fx/other"):
        assert store.create(name, b"")
    assert store.list("f") == ["a", "b", "c"]


def test_a_list_of_a_missing_folder_is_empty(store: Store) -> None:
    assert store.list("nothing/here") == []


def test_a_list_sees_what_was_created_and_deleted_since_the_last_one(store: Store) -> None:
    store.create("f/a", b"")
    assert store.list("f") == ["a"]
    store.create("f/b", b"")
    store.delete("f/a")
    assert store.list("f") == ["b"]


def test_a_deleted_name_is_missing_and_can_be_created_again(store: Store) -> None:
    store.create("f/a", b"old")
    store.delete("f/a")
    with pytest.raises(MissingStateError):
        store.read("f/a")
    assert store.create("f/a", b"new")
    assert store.read("f/a") == b"new"


def test_deleting_a_missing_file_is_no_error(store: Store) -> None:
    store.delete("nothing/here")
    store.create("f/a", b"")
    store.delete("f/a")
    store.delete("f/a")


def test_two_stores_on_one_location_see_the_same_files(store: Store, tmp_path: Path) -> None:
    if not isinstance(store, LocalStore):
        pytest.skip("only for a location that can be opened by its path")
    store.create("f/a", b"1")
    other = open_store(str(tmp_path / "state"), {})
    assert other.read("f/a") == b"1"
    assert not other.create("f/a", b"2")


def test_s3_itself_refuses_the_second_create(s3_bucket: S3Bucket) -> None:
    """Two clients have separate caches and do not know of each other, so only a conditional put helps."""
    location = f"s3://{s3_bucket.name}/state"
    first = open_store(location, {**s3_bucket.storage_options, "skip_instance_cache": True})
    second = open_store(location, {**s3_bucket.storage_options, "skip_instance_cache": True})
    assert second.list("f") == []
    assert first.create("f/a", b"first")
    assert not second.create("f/a", b"second")
    assert first.read("f/a") == b"first"


def test_a_list_sees_what_another_process_created(s3_bucket: S3Bucket) -> None:
    """s3fs caches listings, but a driver that took over may have written since."""
    location = f"s3://{s3_bucket.name}/state"
    mine = open_store(location, {**s3_bucket.storage_options, "skip_instance_cache": True})
    other = open_store(location, {**s3_bucket.storage_options, "skip_instance_cache": True})
    mine.create("f/a", b"")
    assert mine.list("f") == ["a"]
    other.create("f/b", b"")
    assert mine.list("f") == ["a", "b"]


def test_a_missing_bucket_is_an_error_and_is_not_created(s3_bucket: S3Bucket) -> None:
    """Users create buckets deliberately: a misspelt name must not create a new one."""
    store = open_store("s3://no-such-bucket-here/state", s3_bucket.storage_options)
    with pytest.raises(StateLocationError, match="no-such-bucket-here"):
        store.create("f/a", b"")
    assert not s3_bucket.file_system.exists("no-such-bucket-here")


def test_a_local_create_leaves_no_other_files(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.create("f/a", b"1")
    store.create("f/a", b"2")
    store.replace("f/a", b"3")
    assert [path.name for path in (tmp_path / "f").iterdir()] == ["a"]


def test_a_temporary_file_of_a_killed_driver_is_not_listed(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.create("f/a", b"1")
    (tmp_path / "f" / ".tmp-0123").write_bytes(b"half")
    assert store.list("f") == ["a"]


@pytest.mark.parametrize("prefix", ["", "file://", "file:"])
def test_a_local_directory_is_found_in_every_spelling_that_spark_uses(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(f"{prefix}{tmp_path}/state", {})
    store.create("f/a", b"1")
    assert (tmp_path / "state" / "f" / "a").read_bytes() == b"1"


def test_a_relative_path_does_not_follow_a_change_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("state", {})
    monkeypatch.chdir("/")
    store.create("f/a", b"1")
    assert (tmp_path / "state" / "f" / "a").exists()


def test_a_location_under_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = open_store(str(tmp_path / "file"), {})
    for call in (lambda: store.create("f/a", b""), lambda: store.replace("f/a", b"")):
        with pytest.raises(StateLocationError, match=r"cannot write f/a in the state location .*file"):
            call()
    with pytest.raises(StateLocationError, match="cannot list f"):
        store.list("f")
    with pytest.raises(StateLocationError, match="cannot read f/a"):
        store.read("f/a")


def test_the_error_for_an_unwritable_location_says_what_to_check(tmp_path: Path) -> None:
    """The test runs as another user, because root may write anywhere."""
    program = (
        "import os, sys\n"
        "from flip27_source.snapshots.store import open_store\n"
        "from flip27_source.errors import StateLocationError\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: open_store(sys.argv[1], {}).create('f/a', b'')\n"
        "except StateLocationError as error: print(error)\n"
    )
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        os.chmod(folder, 0o755)  # noqa: S103 - the other user must be able to enter
    done = subprocess.run(
        [sys.executable, "-c", program, str(locked)], capture_output=True, text=True, check=False
    )
    assert "cannot write f/a in the state location" in done.stdout, done.stderr
    assert "Permission denied" in done.stdout
    assert "the driver's user may read" in done.stdout


def test_the_error_for_an_unknown_protocol_says_what_to_install() -> None:
    with pytest.raises(StateLocationError, match="nosuch://bucket/state cannot be opened") as caught:
        open_store("nosuch://bucket/state", {})
    assert "pip install" in str(caught.value)


def test_a_file_system_that_cannot_be_reached_is_an_error_without_its_password() -> None:
    """Port 9 of this machine refuses connections, and fsspec connects as soon as the file system is made."""
    with pytest.raises(StateLocationError) as caught:
        open_store("ftp://me:hunter2@127.0.0.1:9/state", {})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("/plain/path", "/plain/path"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("ftp://me:hunter2@host/x", "ftp://host/x"),
        ("ftp://me:hun@ter2@host/x", "ftp://host/x"),
        ("ftp://me:hunter2@host", "ftp://host"),
    ],
)
def test_passwords_in_urls_are_not_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown


def test_errors_of_a_remote_store_show_no_secret(s3_bucket: S3Bucket) -> None:
    options = {**s3_bucket.storage_options, "secret": "hunter2", "endpoint_url": "http://127.0.0.1:9"}
    fast = {"config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1}}
    store = open_store(f"s3://{s3_bucket.name}/state", {**options, **fast, "skip_instance_cache": True})
    with pytest.raises(StateLocationError) as caught:
        store.read("f/a")
    assert "hunter2" not in str(caught.value)
    assert "cannot read f/a" in str(caught.value)
