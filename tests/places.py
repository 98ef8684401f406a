"""The file systems on which the same scenarios are run: each on a server on this machine.

A place has a folder ``landing`` for the files of a source, and room next to it for state, savepoints and an
archive. Tests write to it through their own client, not through the product.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import fsspec
import pytest

from tests.azurite_server import Azurite
from tests.gcs_server import new_gcs_bucket
from tests.object_storage import ObjectStorage
from tests.other_file_systems import PASSWORD, USER, http_files, sftp_server
from tests.s3_server import new_bucket


class Place:
    """A folder of an fsspec file system, and the options with which a source reads it.

    Attributes:
        url: the URL of the folder, without a slash at its end.
        options: the options ``storage.*`` of a source.
        creates_exclusively: if several clients create a file at the same time, exactly one succeeds.
        keeps_folders: folders can exist without a file in them.

    Args:
        refused: a regular expression for names that files cannot have there.
    """

    def __init__(
        self,
        file_system: Any,
        root: str,
        url: str,
        options: dict[str, str],
        *,
        creates_exclusively: bool,
        keeps_folders: bool = False,
        refused: str | None = None,
    ) -> None:
        self._fs = file_system
        self._root = root
        self.url = url
        self.options = options
        self.creates_exclusively = creates_exclusively
        self.keeps_folders = keeps_folders
        self._refused = refused

    @classmethod
    def of(
        cls, store: ObjectStorage, *, refused: str | None = None, creates_exclusively: bool = True
    ) -> Self:
        """A bucket or container as a whole."""
        return cls(
            store.file_system,
            store.name,
            store.url,
            store.options,
            creates_exclusively=creates_exclusively,
            refused=refused,
        )

    @property
    def landing(self) -> str:
        """The option ``path``."""
        return f"{self.url}/landing"

    @property
    def archive(self) -> str:
        """The option ``sourceArchiveDir``."""
        return f"{self.url}/archive"

    @property
    def storage_options(self) -> dict[str, str]:
        """The options by the names that fsspec uses."""
        return {name.removeprefix("storage."): value for name, value in self.options.items()}

    @property
    def secrets(self) -> list[str]:
        """The values that must not be stored."""
        key = re.search("AccountKey=([^;]*)", self.options.get("storage.connection_string", ""))
        password = self.options.get("storage.password")
        return [secret for secret in (key and key[1], password) if secret]

    @property
    def own_client(self) -> dict[str, object]:
        """Options for a file system that is shared with nothing in this process, as in another process."""
        return {} if self.is_quick else {"skip_instance_cache": True}

    @property
    def is_quick(self) -> bool:
        """Whether the time of a request is negligible."""
        return not self.url.startswith(("s3:", "abfs:", "gs:"))

    def can_hold(self, name: str) -> bool:
        """Whether a file can have the name."""
        return self._refused is None or re.search(self._refused, name) is None

    def put(self, name: str, data: bytes = b"data", *, folder: str = "landing") -> None:
        """Write a file in the landing folder, or in another one."""
        path = f"{self._root}/{folder}/{name}"
        if self.keeps_folders:
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._fs.pipe_file(path, data)

    def remove(self, name: str) -> None:
        """Remove a file from the landing folder."""
        self._fs.rm_file(f"{self._root}/landing/{name}")

    def put_itself(self, name: str, data: bytes) -> None:
        """Write an object without fsspec, whose implementation would change its name."""
        if self.url.startswith("s3:"):
            self._fs.call_s3("put_object", Bucket=self._root, Key=f"landing/{name}", Body=data)
            return
        from azure.storage.blob import BlobClient

        connection = self.options["storage.connection_string"]
        with BlobClient.from_connection_string(connection, self._root, f"landing/{name}") as blob:
            blob.upload_blob(data)

    def files(self, folder: str) -> dict[str, bytes]:
        """The contents of a folder's files, by their names relative to it."""
        contents = {}
        for name in self.names(folder):
            with contextlib.suppress(FileNotFoundError):  # the source may be moving or deleting it
                contents[name] = self._content(f"{folder}/{name}")
        return contents

    def names(self, folder: str = "landing") -> set[str]:
        """The names of the files in a folder, relative to it."""
        path = f"{self._root}/{folder}"
        self._fs.invalidate_cache()
        found = self._fs.find(path) if self._fs.exists(path) else []
        return {name[len(path) + 1 :] for name in found}

    def _content(self, name: str) -> bytes:
        return bytes(self._fs.cat_file(f"{self._root}/{name}"))

    @property
    def archived_folder(self) -> str:
        """The folder in the archive to which files of the landing folder go."""
        # The name of the bucket or host is not part of the path below the archive.
        return f"archive/{self.landing.partition('://')[2].partition('/')[2]}"

    def archived(self) -> dict[str, bytes]:
        """The contents of the archived files, by their names in the landing folder."""
        return self.files(self.archived_folder)


class LocalPlace(Place):
    """A local folder; tests write to it with Python's own functions for files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(None, str(folder), str(folder), {}, creates_exclusively=True, keeps_folders=True)

    def put(self, name: str, data: bytes = b"data", *, folder: str = "landing") -> None:
        path = os.path.join(self._root, folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    def remove(self, name: str) -> None:
        os.unlink(os.path.join(self._root, "landing", name))

    def names(self, folder: str = "landing") -> set[str]:
        root = os.path.join(self._root, folder)
        return {os.path.relpath(os.path.join(at, n), root) for at, _, names in os.walk(root) for n in names}

    def _content(self, name: str) -> bytes:
        return Path(self._root, name).read_bytes()

    @property
    def archived_folder(self) -> str:
        return f"archive/{self._root.lstrip('/')}/landing"


class WebPlace(LocalPlace):
    """A web server, which can be read but not written to: tests write to the folder that it serves."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url


@contextmanager
def on_local_disk(request: pytest.FixtureRequest) -> Iterator[Place]:
    yield LocalPlace(request.getfixturevalue("tmp_path"))


@contextmanager
def on_s3(request: pytest.FixtureRequest) -> Iterator[Place]:
    bucket = new_bucket(request.getfixturevalue("_s3_endpoint"))
    # moto does not support keys with a line feed.
    yield Place.of(bucket, refused=r"\n")


@contextmanager
def on_azure(request: pytest.FixtureRequest) -> Iterator[Place]:
    server: Azurite = request.getfixturevalue("azurite")
    container = server.container()
    # Azure refuses control characters in names, and treats a backslash as a slash. A blob whose name ends
    # with # or ? cannot be read: adlfs would read another blob.
    yield Place.of(container, refused=r"[\x00-\x1f\x7f\\]|[#?]$")


@contextmanager
def on_gcs(request: pytest.FixtureRequest) -> Iterator[Place]:
    bucket = new_gcs_bucket(request.getfixturevalue("gcs"))
    # The emulator cuts a name off at a semicolon.
    yield Place.of(bucket, refused=";")


@contextmanager
def on_sftp(request: pytest.FixtureRequest) -> Iterator[Place]:
    with sftp_server(request.getfixturevalue("tmp_path")) as server:
        # An earlier server of this process may have had the port; fsspec would reuse the connection to it.
        fs = fsspec.filesystem(
            "sftp",
            host="127.0.0.1",
            port=server.port,
            username=USER,
            password=PASSWORD,
            skip_instance_cache=True,
        )
        options = {"storage.username": USER, "storage.password": PASSWORD}
        yield Place(fs, "", server.url, options, creates_exclusively=True, keeps_folders=True)


@contextmanager
def on_web(request: pytest.FixtureRequest) -> Iterator[Place]:
    folder: Path = request.getfixturevalue("tmp_path")
    with http_files(folder) as url:
        yield WebPlace(folder, url)


_roots = itertools.count()


@contextmanager
def in_memory(request: pytest.FixtureRequest) -> Iterator[Place]:
    fs = fsspec.filesystem("memory")
    root = f"/place-{next(_roots)}"
    try:
        # It checks whether the file exists and writes it afterwards, so that two creators can both succeed.
        yield Place(fs, root, f"memory://{root}", {}, creates_exclusively=False, keeps_folders=True)
    finally:
        for name in fs.find(root):
            fs.rm_file(name)


PLACES: dict[str, Callable[[pytest.FixtureRequest], Any]] = {
    "local": on_local_disk, "s3": on_s3, "azure": on_azure, "gcs": on_gcs, "sftp": on_sftp,
    "memory": in_memory, "web": on_web,
}  # fmt: skip

WRITABLE = [name for name in PLACES if name != "web"]


def each(names: Iterable[str]) -> list[Any]:
    """Parameters for tests that run one scenario on many file systems.

    ``make test`` runs it on the three that differ most, and ``make test-slow`` on the others.
    """
    usual = {"local", "s3", "memory"}
    return [name if name in usual else pytest.param(name, marks=pytest.mark.slow) for name in names]
