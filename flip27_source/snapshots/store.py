"""Stores: five calls, on local disk, on any fsspec file system, in memory.

Names are relative, with ``/`` between parts. What a name holds is written once and whole: a
reader sees all of it or nothing. Nothing here knows what is stored.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import StateLocationError
from ..file_systems import is_object_store, local_path, open_file_system, redacted
from .linked_folders import LinkedFolderError, check_local_folders, check_remote_folders
from .regular_files import UnreadableFileError, no_state, read_regular_file, read_remote_file, within
from .store_errors import failed as _failed
from .store_errors import missing as _missing
from .store_errors import not_exclusive as _not_exclusive


class Store(ABC):
    """Where state lives."""

    location: str
    """For messages; holds no secret."""

    @abstractmethod
    def read(self, name: str, limit: int | None = None) -> bytes:
        """The whole content of ``name``; ``limit``: most bytes that it may have, None for any number.

        Raises:
            MissingStateError: there is no such name.
            CorruptStateError: it has more bytes than ``limit``, or is no file.
        """

    @abstractmethod
    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        """Create ``name`` if it is absent; durable on return. False when it exists already.

        Args:
            exclusive: of two that create a name at once with different data, one must be told
                False. Names that are digests of their data have no need of it.

        Raises:
            StateLocationError: the file system cannot do it, or cannot do it exclusively.
        """

    @abstractmethod
    def replace(self, name: str, data: bytes) -> None:
        """Write ``name``, whether it exists or not; durable on return."""

    @abstractmethod
    def list(self, folder: str) -> list[str]:
        """The names directly in ``folder``, without the folder, sorted; [] when absent."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete ``name``; no error when it is absent. LinkedFolderError: it lies behind a link."""

    def check_inside(self, name: str) -> None:  # noqa: B027 - object stores have no links
        """Raises LinkedFolderError where a folder on the way to ``name`` is a link: it lies elsewhere."""

    def remove_empty(self, folder: str) -> None:  # noqa: B027 - object stores have no folders
        """Remove a folder in which nothing but empty folders is. LinkedFolderError: it lies behind a link."""


class MemoryStore(Store):
    """A store in memory, for tests and for sources that need no durability."""

    def __init__(self) -> None:
        self.location = "memory"
        self.files: dict[str, bytes] = {}
        self._creating = threading.Lock()

    def read(self, name: str, limit: int | None = None) -> bytes:
        data = self.files.get(name)
        if data is None:
            raise _missing(self.location, name)
        return within(limit, data, name, self.location)

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        with self._creating:
            if name in self.files:
                return False
            self.files[name] = data
            return True

    def replace(self, name: str, data: bytes) -> None:
        self.files[name] = data

    def list(self, folder: str) -> list[str]:
        prefix = folder + "/"
        # A copy: other threads write meanwhile.
        rests = (name[len(prefix) :] for name in tuple(self.files) if name.startswith(prefix))
        return sorted({rest.partition("/")[0] for rest in rests})

    def delete(self, name: str) -> None:
        self.files.pop(name, None)


class LocalStore(Store):
    """A directory of a local (or mounted POSIX) file system.

    A file is written under a temporary name, synced, and linked to its own name, which fails if
    that exists; then the directory is synced.
    """

    def __init__(self, root: str) -> None:
        self.location = root
        self._root = Path(root)
        self._known_folders: set[Path] = set()

    def read(self, name: str, limit: int | None = None) -> bytes:
        try:
            return read_regular_file(self._root / name, limit)
        except FileNotFoundError:
            raise _missing(self.location, name) from None
        except UnreadableFileError as error:
            raise no_state(name, self.location, error) from None
        except OSError as error:
            raise _failed("read", self.location, name, error) from error

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        with self._written(name, data) as (temporary, target):
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                    raise
                if exclusive:
                    raise _not_exclusive(self.location, name) from error
                return _claim(temporary, target)
        return True

    def replace(self, name: str, data: bytes) -> None:
        with self._written(name, data) as (temporary, target):
            temporary.replace(target)

    def list(self, folder: str) -> list[str]:
        try:
            names = os.listdir(self._root / folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed("list", self.location, folder, error) from error
        return sorted(name for name in names if not name.startswith(".tmp-"))

    def delete(self, name: str) -> None:
        try:
            check_local_folders(self.location, name)
            (self._root / name).unlink(missing_ok=True)
        except OSError as error:
            raise _failed("delete", self.location, name, error) from error

    def check_inside(self, name: str) -> None:
        try:
            check_local_folders(self.location, name)
        except OSError as error:
            raise _failed("delete", self.location, name, error) from error

    def remove_empty(self, folder: str) -> None:
        self.check_inside(f"{folder}/")
        self._known_folders.clear()
        for path, _, _ in os.walk(self._root / folder, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(path)

    @contextlib.contextmanager
    def _written(self, name: str, data: bytes) -> Iterator[tuple[Path, Path]]:
        target = self._root / name
        temporary = target.parent / f".tmp-{uuid.uuid4().hex}"
        try:
            self._make_folder(target.parent)
            with open(temporary, "xb", buffering=0) as file:
                file.write(data)
                os.fsync(file.fileno())
            yield temporary, target
            _sync_folder(target.parent)
        except OSError as error:
            raise _failed("write", self.location, name, error) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def _make_folder(self, folder: Path) -> None:
        if folder in self._known_folders:
            return
        missing = [p for p in (folder, *folder.parents) if not p.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync_folder(made.parent)
        self._known_folders.add(folder)


class FsspecStore(Store):
    """A directory of any fsspec file system.

    Objects appear whole in object stores, and a conditional put creates them. On other file systems, SFTP
    for one, files are written under a temporary name and moved, and nothing creates exclusively: what is
    asked to create may as well write over.
    """

    def __init__(self, file_system: Any, root: str, location: str) -> None:
        self.location = location
        self._fs = file_system
        self._root = root.rstrip("/")
        self._has_objects = is_object_store(file_system) or file_system.protocol == "memory"

    def read(self, name: str, limit: int | None = None) -> bytes:
        path = self._path(name)
        try:
            data = read_remote_file(self._fs, path, limit)
        except FileNotFoundError:
            raise _missing(self.location, name) from None
        except UnreadableFileError as error:
            raise no_state(name, self.location, error) from None
        except Exception as error:
            raise _failed("read", self.location, name, error) from error
        return within(limit, data, name, self.location)

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        path = self._path(name)
        if not self._has_objects:
            if exclusive:
                raise _not_exclusive(self.location, name)
            if self._exists(name):
                return False
            self.replace(name, data)
            return True
        try:
            self._make_folder(path)
            # s3fs, gcsfs and adlfs turn this into a conditional put.
            self._fs.pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
        except NotImplementedError as error:
            if exclusive:
                raise _not_exclusive(self.location, name) from error
            if self._fs.exists(path):
                return False
            self._pipe(name, data)
        except Exception as error:
            raise _failed("write", self.location, name, error) from error
        return True

    def replace(self, name: str, data: bytes) -> None:
        try:
            self._make_folder(self._path(name))
        except Exception as error:
            raise _failed("write", self.location, name, error) from error
        self._pipe(name, data)

    def list(self, folder: str) -> list[str]:
        try:
            self._fs.invalidate_cache(self._path(folder))
            found = self._fs.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise _failed("list", self.location, folder, error) from error
        names = (str(path).rstrip("/").rpartition("/")[2] for path in found)
        return sorted(name for name in names if name and not name.startswith(".tmp-"))

    def delete(self, name: str) -> None:
        self.check_inside(name)
        try:
            self._fs.rm_file(self._path(name))
        except FileNotFoundError:
            return
        except Exception as error:
            raise _failed("delete", self.location, name, error) from error

    def check_inside(self, name: str) -> None:
        if self._has_objects:
            return
        try:
            check_remote_folders(self._fs, self._root, name, self.location)
        except LinkedFolderError:
            raise
        except Exception as error:
            raise _failed("delete", self.location, name, error) from error

    def remove_empty(self, folder: str) -> None:
        if is_object_store(self._fs):
            return
        self.check_inside(f"{folder}/")
        try:
            if not self._fs.find(self._path(folder)):
                self._fs.rm(self._path(folder), recursive=True)
        except FileNotFoundError:
            return
        except Exception as error:
            raise _failed("delete", self.location, folder, error) from error

    def _make_folder(self, path: str) -> None:
        # Object stores have no folders; asked for one, some make a bucket of a misspelled name.
        if not is_object_store(self._fs):
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)

    def _exists(self, name: str) -> bool:
        try:
            self._fs.invalidate_cache(self._path(name))
            self._fs.info(self._path(name))
        except FileNotFoundError:
            return False
        except Exception as error:
            raise _failed("read", self.location, name, error) from error
        return True

    def _pipe(self, name: str, data: bytes) -> None:
        path = self._path(name)
        try:
            if self._has_objects:
                self._fs.pipe_file(path, data)
            else:
                folder, slash, _ = name.rpartition("/")
                temporary = f"{folder}{slash}.tmp-{uuid.uuid4().hex}"
                self._fs.pipe_file(self._path(temporary), data)
                self._move(temporary, name)
        except Exception as error:
            raise _failed("write", self.location, name, error) from error

    def _move(self, temporary: str, name: str) -> None:
        source, target = self._path(temporary), self._path(name)
        try:
            self._fs.mv(source, target)
        except Exception:
            if not self._exists(name):
                raise
        # HDFS moves nothing to where something is; WebHDFS does not even say so.
        if self._exists(temporary):
            self._fs.rm_file(target)
            self._fs.mv(source, target)
            if self._exists(temporary):
                raise OSError(f"{source} was not moved to {target}")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def open_store(location: str, storage_options: Mapping[str, Any]) -> Store:
    """The store at a path or fsspec URL.

    Raises:
        StateLocationError: the URL's file system is unknown or cannot be reached.
    """
    local = local_path(location)
    if local is not None:
        return LocalStore(os.path.abspath(local))
    file_system, root = open_file_system(
        location, storage_options, what="stateLocation", error_type=StateLocationError
    )
    return FsspecStore(file_system, root, redacted(location))


def _claim(temporary: Path, target: Path) -> bool:
    """For file systems without hard links, such as some network mounts: claim, then move over.

    Who makes the empty claim beside the target first moves its file to the target, which is
    whole from the start. A claim whose owner died is taken over: names of documents and
    segments are digests of their content, so both would have moved the same bytes.
    """
    if target.exists():
        return False
    claim = target.with_name(f".tmp-claim-{target.name}")
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL))
        first = True
    except FileExistsError:
        first = not target.exists()
    if first:
        temporary.replace(target)
    claim.unlink(missing_ok=True)
    return first


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
