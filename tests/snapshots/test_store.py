"""The same rules for every store: in memory, on local disk, in fsspec's memory, in object stores."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flip27_source.errors import CorruptStateError, MissingStateError, StateLocationError
from flip27_source.snapshots.store import LocalStore, MemoryStore, Store, open_store
from tests.other_file_systems import PASSWORD, USER, sftp_server
from tests.places import PLACES, WRITABLE, each
from tests.s3_server import S3Bucket
from tests.toy_sources import within


@pytest.fixture(params=["in memory", *each(WRITABLE)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "in memory":
        yield MemoryStore()
        return
    with PLACES[request.param](request) as place:
        yield open_store(f"{place.url}/state", place.storage_options)


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 1000], ids=["empty", "one byte", "as much as allowed"])
def test_a_bounded_read_returns_a_complete_file_within_the_limit(store: Store, data: bytes) -> None:
    store.create("a/b", data)
    assert store.read("a/b", 1000) == data


def test_a_bounded_read_refuses_a_longer_file_by_name(store: Store) -> None:
    store.create("a/b", b"x" * 1001)
    with pytest.raises(CorruptStateError, match=r"a/b in the state location .* has more than 1000 bytes"):
        store.read("a/b", 1000)


def test_a_bounded_read_takes_no_more_into_memory_than_the_bound(tmp_path: Path) -> None:
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CorruptStateError, match="has more than 1000 bytes"):
        LocalStore(str(tmp_path)).read("huge", 1000)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


NO_FILES: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
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
    with sftp_server(tmp_path) as server:
        store = open_store(f"{server.url}/state", {"username": USER, "password": PASSWORD})
        with pytest.raises(CorruptStateError, match=r"odd in the state location .*, not a file"):
            store.read("odd", 1000)


@pytest.mark.parametrize("limit", [None, 1000])
def test_the_error_for_a_missing_name_says_where_it_was_looked_for(store: Store, limit: int | None) -> None:
    with pytest.raises(MissingStateError, match=r"lineage/segments/x\.bin is missing") as caught:
        store.read("lineage/segments/x.bin", limit)
    assert store.location in str(caught.value)
    assert "What to do: restore it from a backup" in str(caught.value)


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
    open_store(f"{prefix}{tmp_path}/state", {}).create("f/a", b"1")
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
        with pytest.raises(StateLocationError, match=r"cannot write f/a in .*file: .* is a file"):
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
    assert "cannot write f/a in " in done.stdout, done.stderr
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


def test_errors_of_a_remote_store_show_no_secret(s3_bucket: S3Bucket) -> None:
    options = {**s3_bucket.storage_options, "secret": "hunter2", "endpoint_url": "http://127.0.0.1:9"}
    fast = {"config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1}}
    store = open_store(f"s3://{s3_bucket.name}/state", {**options, **fast, "skip_instance_cache": True})
    with pytest.raises(StateLocationError) as caught:
        store.read("f/a")
    assert "hunter2" not in str(caught.value)
    assert "cannot read f/a" in str(caught.value)
