"""Real streams from fsspec's file systems that are neither local nor an object store."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem

from flip27_source.enumerators.files.listing.choice import open_listers
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.file_systems.paths import canonical_path
from flip27_source.reader import SplitReader
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from flip27_source.readers.text import TextReader
from flip27_source.snapshots.store import FsspecStore, open_store
from flip27_source.testing import MicroBatchEngine, Step, check_store
from tests.other_file_systems import PASSWORD, USER, http_files, sftp_server
from tests.readers.spark_reading import read_batches

from .file_sources import files_query, lines_of, write

SFTP_OPTIONS = {"username": USER, "password": PASSWORD}


def read(engine: MicroBatchEngine) -> list[str]:
    """Read all files in a query that is killed twice; return the rows of the sink, sorted."""
    for step in (Step.STATE_WRITTEN, Step.SINK_WRITTEN):
        engine.crash_at(step)
    engine.process_all_available(through_crashes=True)
    return lines_of(engine)


def test_files_of_a_web_server_that_lists_directories_are_read(tmp_path: Path) -> None:
    landing, state = tmp_path / "landing", tmp_path / "state"
    files = {"a b.txt": b"a\n", "b.txt.gz": gzip.compress(b"b\n"), "day=1/c.txt": b"c\n", "_ignored": b"x\n"}
    for name, data in files.items():
        write(landing, name, data=data)
    with http_files(tmp_path) as url:
        engine = files_query(f"{url}/landing", stateLocation=str(state), maxFilesPerTrigger="1")
        assert read(engine) == ["a", "b", "c"]
        (landing / "d.txt").write_text("d\n")
        (landing / "e.txt").touch()
        engine.restart()
        assert read(engine) == ["a", "b", "c", "d"]
        with pytest.raises(OptionError, match="does not exist"):
            files_query(f"{url}/elsewhere").trigger()


@pytest.mark.parametrize("spelling", ["//landing", "/./landing", "/landing//", "/landing/.", "//landing//*"])
def test_files_on_a_server_have_one_name_in_every_spelling_of_their_path(
    tmp_path: Path, spelling: str
) -> None:
    write(tmp_path, "landing/a")
    with sftp_server(tmp_path) as server:
        lister = open_listers([f"{server.url}{spelling}"], SFTP_OPTIONS)
        assert [path for path, _ in lister.files(recursive=False)] == [f"{server.url}/landing/a"]
        state = open_store(f"{server.url}//landing/./state", SFTP_OPTIONS)
        state.create("x", b"1")
        assert (tmp_path / "landing" / "state" / "x").read_bytes() == b"1"
    assert canonical_path(f"{server.url}//landing/./x") == f"{server.url}/landing/x"
    assert canonical_path("https://host//landing/./x") == "https://host//landing/./x"


def test_paths_on_a_server_name_its_host_and_never_its_user(tmp_path: Path) -> None:
    write(tmp_path, "landing/a")
    with sftp_server(tmp_path) as server:
        lister = open_listers([f"{server.url}/landing"], SFTP_OPTIONS)
        assert [path for path, _ in lister.files(recursive=False)] == [f"{server.url}/landing/a"]
        assert canonical_path(f"{server.url}/landing/") == f"{server.url}/landing"
        with_user = server.url.replace("//", f"//{USER}:{PASSWORD}@")
        with pytest.raises(OptionError, match=r"storage\.username") as caught:
            open_listers([f"{with_user}/landing"], {})
    assert PASSWORD not in str(caught.value)


def test_an_archive_on_another_host_is_refused() -> None:
    with pytest.raises(OptionError, match="which is not on the file system of the path sftp://one/landing"):
        files_query(
            "sftp://one/landing", cleanSource="archive", sourceArchiveDir="sftp://two/archive"
        ).trigger()


class MovesToNewNamesOnly(LocalFileSystem):
    """Like HDFS, refuses to move a file to a name that exists."""

    protocol = "new-names-only"

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        if self.exists(path2):
            raise FileExistsError(path2)
        super().mv(path1, path2, **options)


class MovesToNewNamesOnlyAndSaysNothing(LocalFileSystem):
    """Like WebHDFS through fsspec, ignores such a move without an error: fsspec does not check the answer."""

    protocol = "new-names-only-silently"

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        if not self.exists(path2):
            super().mv(path1, path2, **options)


@pytest.mark.parametrize("kind", [MovesToNewNamesOnly, MovesToNewNamesOnlyAndSaysNothing])
def test_a_store_keeps_the_laws_on_file_systems_that_never_move_a_file_over_another(
    tmp_path: Path, kind: type[LocalFileSystem]
) -> None:
    numbers = iter(range(1000))
    file_system = kind()
    check_store(lambda: FsspecStore(file_system, f"{tmp_path}/{next(numbers)}", str(tmp_path)), shared=False)
    assert not list(tmp_path.rglob(".tmp-*"))


def test_a_crash_in_the_middle_of_a_write_leaves_no_file_under_its_name(tmp_path: Path) -> None:
    with sftp_server(tmp_path) as server:
        store = open_store(f"{server.url}/state", SFTP_OPTIONS)
        store.create("segments/a", b"whole")
        (tmp_path / "state" / "segments" / ".tmp-of-a-killed-driver").write_bytes(b"ha")
        assert store.list("segments") == ["a"]
        assert store.create("segments/b", b"whole")
        assert store.read("segments/b") == b"whole"


class AsksItsListings(LocalFileSystem):
    """Like fsspec's FTP, takes what it says about a file from a listing of the folder, which it keeps."""

    protocol = "asks-its-listings"

    def info(self, path: str, **options: Any) -> Any:
        folder = self._parent(path)
        if folder not in self.dircache:
            names = [str(one) for one in Path(folder).iterdir()]
            self.dircache[folder] = {one: LocalFileSystem.info(self, one) for one in names}
        if path not in self.dircache[folder]:
            raise FileNotFoundError(path)
        return self.dircache[folder][path]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        self.info(path)
        return bytes(super().cat_file(path, start, end, **options))

    def invalidate_cache(self, path: str | None = None) -> None:
        self.dircache.clear()


def test_a_worker_reads_a_file_that_came_after_it_has_listed_the_folder(tmp_path: Path) -> None:
    fsspec.register_implementation(AsksItsListings.protocol, AsksItsListings, clobber=True)
    schema, read_lines = pa.schema([("value", pa.string())]), []
    for name in ("a", "b"):
        write(tmp_path, name, data=b"x\n")
        split = FileSplit(path=f"{AsksItsListings.protocol}://{tmp_path}/{name}", length=2, modified_us=0)
        read_lines += [batch.num_rows for batch in read_batches(TextReader(), [split], schema)]
    assert read_lines == [1, 1]


class WithAClosedRoom(LocalFileSystem):
    """A file system with a directory that cannot be listed while it is closed."""

    protocol = "with-a-closed-room"
    is_closed = True

    def ls(self, path: str, detail: bool = False, **options: Any) -> Any:
        if self.is_closed and path.endswith("/room"):
            raise ConnectionResetError("the connection was reset")
        return super().ls(path, detail=detail, **options)


@pytest.mark.parametrize("known", ["exact", "nameCursor"])
def test_a_subdirectory_that_cannot_be_listed_stops_the_query_and_loses_nothing(
    tmp_path: Path, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec.register_implementation("with-a-closed-room", WithAClosedRoom, clobber=True)
    for name in ("b.txt", "room/a.txt", "x/y/c.txt"):
        write(tmp_path / "landing", name, data=f"{name}\n".encode())
    state = str(tmp_path / "state")
    url = f"with-a-closed-room://{tmp_path}/landing"
    how = {"recursiveFileLookup": "true", "seenFiles": known, "discoveryRetries": "0"}
    engine = files_query(url, stateLocation=state, **how)
    with pytest.raises(DiscoveryError, match="the connection was reset"):
        engine.run_batch()
    monkeypatch.setattr(WithAClosedRoom, "is_closed", False)
    engine.restart()
    engine.run_batch()
    assert lines_of(engine) == ["b.txt", "room/a.txt", "x/y/c.txt"]


OPTIONS = {"storage.username": USER, "storage.password": PASSWORD}


@pytest.mark.parametrize("reader", [TextReader, CsvLinesReader])
def test_a_file_of_20_megabytes_is_read(reader: type[SplitReader[FileSplit]], tmp_path: Path) -> None:
    lines = [f"{number:0999d}" for number in range(20_000)]
    (tmp_path / "large").write_text("\n".join(lines) + "\n")
    with sftp_server(tmp_path) as server:
        split = FileSplit(path=f"{server.url}/large", length=20_000_000, modified_us=0)
        batches = read_batches(reader(), [split], pa.schema([("line", pa.string())]), OPTIONS)
    assert pa.Table.from_batches(batches).column("line").to_pylist() == lines
