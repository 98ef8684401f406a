"""Stores: five basic operations, on local disk, on any fsspec file system or in memory.

Names are relative, with ``/`` between parts. A file is written as a whole: a reader sees all of it or
nothing. Stores do not interpret the data.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from ..access_errors import DISK, PERMISSION, cause_of_failed_access
from ..errors import MissingStateError, StateError, StateLocationError
from ..file_systems.durable_files import (
    ABANDONED_AFTER_S,
    OS_DISK,
    TEMPORARY_PREFIX,
    Disk,
    DurableFiles,
    NoExclusiveCreateError,
)
from ..file_systems.file_moves import link_file, move_file, remove_empty_folders
from ..file_systems.paths import (
    answer_text,
    checked_location,
    disk_path,
    is_object_store,
    is_web,
    open_file_system,
    redacted,
    says_gone,
)
from ..file_systems.regular_files import UnreadableFileError, no_state, read_remote_file, within
from ..file_systems.secrets_in_texts import Hidden
from .linked_folders import check_local_folders, check_remote_folders


class Store(ABC):
    """A place where state is stored."""

    location: str
    """For messages; contains no secret."""
    _hidden = Hidden({})

    @abstractmethod
    def read(self, name: str, limit: int | None = None) -> bytes:
        """The whole content of ``name``; ``limit``: maximum size in bytes, None for no limit.

        Raises:
            MissingStateError: ``name`` does not exist.
            CorruptStateError: ``name`` has more bytes than ``limit``, or is not a file.
        """

    def read_surely(self, name: str, limit: int | None = None) -> bytes:
        """Like :meth:`read`, for a name that must exist: if it seems missing, it is looked for again (R19).

        A file system on a network may remember that a name was missing; listing its folder corrects that.
        """
        try:
            return self.read(name, limit)
        except MissingStateError:
            folder, _, last = name.rpartition("/")
            if last not in self.list(folder):
                raise
            return self.read(name, limit)

    @abstractmethod
    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        """Create ``name`` if it does not exist; durable on return. Return False if it already exists.

        Args:
            exclusive: if two processes create a name at once with different data, one of them must get
                False. Names that are digests of their data do not need this.

        Raises:
            StateLocationError: the file system cannot create the name, or not exclusively.
        """

    @abstractmethod
    def replace(self, name: str, data: bytes) -> None:
        """Write ``name``, whether it exists or not; durable on return."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether the location exists; in an object store, which has no directories, its bucket."""

    @abstractmethod
    def list(self, folder: str) -> list[str]:
        """The names directly in ``folder``, without the folder, sorted; [] if the folder does not exist."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete ``name`` durably, since a deleted request must not return; no error if it does not exist.

        Raises:
            LinkedFolderError: ``name`` is behind a link.
        """

    def check_exclusive(self, name: str, data: bytes) -> None:  # noqa: B027 - in other stores create() refuses
        """Raise StateLocationError if ``name``, which contains ``data``, can be created a second time.

        Servers that are compatible with an object store may ignore the condition of a request.
        """

    def check_inside(self, name: str) -> None:  # noqa: B027 - object stores have no links
        """Raise LinkedFolderError if a folder on the path to ``name`` is a link."""

    def remove_empty(self, folder: str) -> None:  # noqa: B027 - object stores have no folders
        """Remove a folder that contains only empty folders and abandoned files, if the store has folders.

        Raises:
            LinkedFolderError: the folder is behind a link.
        """

    def remove_abandoned(self, folder: str, *, older_than_s: float = ABANDONED_AFTER_S) -> int:
        """Delete the partly written files of killed processes; return their number."""
        return 0

    def make_durable(self, name: str) -> None:  # noqa: B027 - objects are durable as soon as they are seen
        """Make an existing name survive a power cut, even if the process that created it was killed."""

    def ensure(self, name: str, data: bytes) -> None:
        """Write ``data`` to ``name``, which is a digest of its content; durable on return.

        An existing file is not trusted (R13): a file with other content is damaged and is written again.
        """
        if self.create(name, data):
            return
        with contextlib.suppress(StateError):  # an unreadable file is treated like a damaged one
            if self.read(name) == data:
                return
        self.replace(name, data)

    @contextlib.contextmanager
    def _failing(self, verb: str, name: str) -> Iterator[None]:
        """Make an error of the file system an error about state; ``verb``: what is done to ``name``."""
        try:
            yield
        except StateError:
            raise
        except FileNotFoundError as error:
            if verb in ("write", "sync") or not says_gone(error, self.location):
                raise self._failed(verb, name, error) from error
            raise self._missing(name) from None
        except UnreadableFileError as error:
            raise no_state(name, self.location, error) from None
        except NoExclusiveCreateError as error:
            raise self._not_exclusive(name) from error
        except Exception as error:
            raise self._failed(verb, name, error) from error

    def _missing(self, name: str) -> MissingStateError:
        return MissingStateError(
            f"{name} is missing from the state location {self.location}",
            remedy="restore it from a backup (the state location belongs to the query's checkpoint: "
            "copy, move and restore both together), or start again with a new checkpoint location",
        )

    def _not_exclusive(self, name: str) -> StateLocationError:
        return StateLocationError(
            f"the file system of the state location {self.location} cannot create {name} only if it does not "
            "exist, which reports of subtasks, claims of savepoints and inferred schemas need",
            remedy="use a local disk with hard links, S3, GCS or Azure",
        )

    def _failed(self, verb: str, name: str, error: Exception) -> StateLocationError:
        what = f"cannot {verb} {name}".rstrip() + f" in {self.location}"
        if isinstance(error, NotADirectoryError):
            return StateLocationError(
                f"{what}: {self.location}, or a part of it, is a file", remedy="give the path of a directory"
            )
        cause = cause_of_failed_access(error)
        if cause is None or cause in (PERMISSION, DISK):
            remedy = (
                "check that the location exists, has free space, and that the driver's user may read and "
                "write there"
            )
        else:
            remedy = f"{cause.what}: {cause.remedy}"
        # The location may also be the target of a savepoint.
        why = self._hidden.in_text(answer_text(error) if is_web(self.location) else str(error))
        return StateLocationError(f"{what}: {why}", remedy=remedy)


class MemoryStore(Store):
    """A store in memory, for tests and for sources that need no durability."""

    def __init__(self) -> None:
        self.location = "memory"
        self.files: dict[str, bytes] = {}
        self._creating = threading.Lock()

    def read(self, name: str, limit: int | None = None) -> bytes:
        data = self.files.get(name)
        if data is None:
            raise self._missing(name)
        return within(limit, data, name, self.location)

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        with self._creating:
            if name in self.files:
                return False
            self.files[name] = data
            return True

    def replace(self, name: str, data: bytes) -> None:
        self.files[name] = data

    def exists(self) -> bool:
        return True

    def list(self, folder: str) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        # A copy, because other threads may write at the same time.
        rests = (name[len(prefix) :] for name in tuple(self.files) if name.startswith(prefix))
        return sorted({rest.partition("/")[0] for rest in rests})

    def delete(self, name: str) -> None:
        self.files.pop(name, None)


class LocalStore(Store):
    """A directory of a local (or mounted POSIX) file system."""

    def __init__(self, root: str, disk: Disk = OS_DISK) -> None:
        self.location = root
        self._disk = disk
        self._files = DurableFiles(root, disk)

    def read(self, name: str, limit: int | None = None) -> bytes:
        with self._failing("read", name):
            return self._disk.read(self._path(name), limit)

    def has(self, name: str) -> bool:
        """Whether ``name`` exists on this host."""
        with self._failing("read", name):
            return self._disk.exists(self._path(name))

    def exists(self) -> bool:
        return self.has("")

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        with self._failing("write", name):
            return self._files.create(self._path(name), data, exclusive=exclusive)

    def replace(self, name: str, data: bytes) -> None:
        with self._failing("write", name):
            self._files.replace(self._path(name), data)

    def list(self, folder: str) -> list[str]:
        try:
            with self._failing("list", folder):
                names = self._disk.names(self._path(folder))
        except MissingStateError:
            return []
        return sorted(name for name in names if not name.startswith(TEMPORARY_PREFIX))

    def delete(self, name: str) -> None:
        with self._failing("delete", name):
            check_local_folders(self.location, name)
            self._files.remove(self._path(name))

    def check_inside(self, name: str) -> None:
        with self._failing("delete", name):
            check_local_folders(self.location, name)

    def remove_empty(self, folder: str) -> None:
        self.check_inside(f"{folder}/")
        self._remove_empty(self._path(folder))

    def remove_abandoned(self, folder: str, *, older_than_s: float = ABANDONED_AFTER_S) -> int:
        with self._failing("list", folder):
            return self._files.remove_abandoned(self._path(folder), older_than_s=older_than_s)

    def make_durable(self, name: str) -> None:
        with self._failing("sync", name):
            self._files.make_durable(self._path(name))

    def _remove_empty(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self._files.remove_abandoned(path)
            for name in self._disk.names(path):
                if self._disk.is_folder(os.path.join(path, name)):
                    self._remove_empty(os.path.join(path, name))
            self._disk.remove_folder(path)

    def _path(self, name: str) -> str:
        return os.path.join(self.location, name)


class FsspecStore(Store):
    """A directory of any fsspec file system.

    In object stores objects appear as a whole, and a conditional put creates them. On other file systems,
    such as SFTP, files are written under a temporary name and moved; exclusive creation needs hard links
    there, since a move may overwrite.

    Args:
        file_system: an instance that keeps no listings: another process may just have written (R19).
    """

    def __init__(self, file_system: Any, root: str, location: str) -> None:
        self.location = location
        self._fs = file_system
        self._hidden = Hidden(file_system.storage_options)
        self._root = root.rstrip("/")
        self._has_objects = is_object_store(file_system) or file_system.protocol == "memory"

    def read(self, name: str, limit: int | None = None) -> bytes:
        with self._failing("read", name):
            data = read_remote_file(self._fs, self._path(name), limit)
        return within(limit, data, name, self.location)

    def exists(self) -> bool:
        root = self._root.lstrip("/").partition("/")[0] if is_object_store(self._fs) else self._root
        try:
            # A role that may use only a folder of a bucket may not ask for the bucket.
            with self._failing("list", ""), contextlib.suppress(PermissionError):
                self._fs.info(root)
        except MissingStateError:
            return False
        return True

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        if not self._has_objects and exclusive:
            return self._create_linked(name, data)
        if not self._has_objects:
            if self._exists(name):
                return False
            self.replace(name, data)
            return True
        with self._failing("write", name):
            self._make_folder(name)
            try:
                # s3fs, gcsfs and adlfs turn this into a conditional put.
                self._fs.pipe_file(self._path(name), data, mode="create")
            except FileExistsError:
                return False
            except NotImplementedError as error:
                if exclusive:
                    raise NoExclusiveCreateError(name) from error
                if self._exists(name):
                    return False
                self.replace(name, data)
        return True

    def check_exclusive(self, name: str, data: bytes) -> None:
        if self.create(name, data, exclusive=True):
            raise self._not_exclusive(name)

    def replace(self, name: str, data: bytes) -> None:
        with self._failing("write", name):
            self._make_folder(name)
            if self._has_objects:
                self._fs.pipe_file(self._path(name), data)
            else:
                with self._written_beside(name, data) as temporary:
                    self._move(temporary, name)

    def list(self, folder: str) -> list[str]:
        try:
            with self._failing("list", folder):
                paths = self._fs.ls(self._path(folder), detail=False)
        except MissingStateError:
            return []
        names = (str(path).rstrip("/").rpartition("/")[2] for path in paths)
        return sorted(name for name in names if name and not name.startswith(TEMPORARY_PREFIX))

    def delete(self, name: str) -> None:
        self.check_inside(name)
        with contextlib.suppress(MissingStateError), self._failing("delete", name):
            self._fs.rm_file(self._path(name))

    def check_inside(self, name: str) -> None:
        if not self._has_objects:
            with self._failing("delete", name):
                check_remote_folders(self._fs, self._root, name, self.location)

    def remove_empty(self, folder: str) -> None:
        if is_object_store(self._fs):
            return
        self.check_inside(f"{folder}/")
        with self._failing("delete", folder):
            remove_empty_folders(self._fs, self._path(folder))

    def remove_abandoned(self, folder: str, *, older_than_s: float = ABANDONED_AFTER_S) -> int:
        if self._has_objects:
            return 0
        removed = 0
        with contextlib.suppress(MissingStateError), self._failing("list", folder):
            for path in self._fs.ls(self._path(folder), detail=False):
                is_temporary = str(path).rpartition("/")[2].startswith(TEMPORARY_PREFIX)
                with contextlib.suppress(NotImplementedError):
                    if is_temporary and time.time() - self._fs.modified(path).timestamp() >= older_than_s:
                        self._fs.rm_file(path)
                        removed += 1
        return removed

    def _make_folder(self, name: str) -> None:
        # Object stores have no folders; some would create a bucket for a misspelled name.
        if not is_object_store(self._fs):
            self._fs.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)

    def _exists(self, name: str) -> bool:
        try:
            with self._failing("read", name):
                self._fs.info(self._path(name))
        except MissingStateError:
            return False
        return True

    @contextlib.contextmanager
    def _written_beside(self, name: str, data: bytes) -> Iterator[str]:
        """A temporary name in the folder of ``name`` under which the data is stored."""
        folder, slash, _ = name.rpartition("/")
        temporary = f"{folder}{slash}{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        try:
            self._fs.pipe_file(self._path(temporary), data)
            stored_bytes = self._fs.info(self._path(temporary))["size"]
            if stored_bytes != len(data):
                raise OSError(f"the file system stored {stored_bytes} of {len(data)} bytes")
            yield temporary
        finally:
            # After a move there is nothing to remove; after an error nothing else may hide it.
            with contextlib.suppress(Exception):
                self._fs.rm_file(self._path(temporary))

    def _create_linked(self, name: str, data: bytes) -> bool:
        """Create a name by a hard link to a complete file, which fails if the name exists."""
        with self._failing("write", name):
            if self._exists(name):
                return False
            self._make_folder(name)
            with self._written_beside(name, data) as temporary:
                try:
                    link_file(self._fs, self._path(temporary), self._path(name))
                except NotImplementedError as error:
                    raise NoExclusiveCreateError(name) from error
                except Exception:
                    # SFTP has one error for everything, so whether the name exists tells what has happened.
                    if not self._exists(name):
                        raise
                    return False
        return True

    def _move(self, temporary: str, name: str) -> None:
        source, target = self._path(temporary), self._path(name)
        try:
            move_file(self._fs, source, target)
        except Exception:
            if not self._exists(name):
                raise
        # HDFS does not move a file to a path that exists; WebHDFS does not even report that.
        if self._exists(temporary):
            self._fs.rm_file(target)
            move_file(self._fs, source, target)
            if self._exists(temporary):
                raise OSError(f"{source} was not moved to {target}")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")


def open_store(location: str, storage_options: Mapping[str, Any]) -> Store:
    """The store at a path or fsspec URL.

    Raises:
        StateLocationError: the URL's file system is unknown or cannot be reached.
    """
    location = checked_location(location, what="the location", error_type=StateLocationError)
    local = disk_path(location)
    if local is not None:
        return LocalStore(os.path.abspath(local))
    file_system, root = open_file_system(
        location, storage_options, what="stateLocation", error_type=StateLocationError, caches_listings=False
    )
    return FsspecStore(file_system, root, redacted(location))
