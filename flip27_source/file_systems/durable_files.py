"""Durable files on local disk: a name holds all bytes of its file, or does not exist.

Every local file that has to survive a crash is written here: state, reports, requests, savepoints and
archived files. This module does not know their content. The steps of one write:

1. make the folder, and sync every folder above it that may be new;
2. write all bytes under a temporary name, and sync them;
3. give the file its name: by a link if an existing file must stay, by a rename if it is replaced;
4. sync the folder. Only then is the file durable: a power cut may undo a link or rename before that.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator

from .regular_files import read_regular_file

TEMPORARY_PREFIX = ".tmp-"
"""The prefix of files that are being written; listings skip them."""

ABANDONED_AFTER_S = 3600.0
"""A temporary file of this age belongs to a dead process. A slower write fails without losing data."""

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
_CHUNK_BYTES = 1 << 20
_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
"""Some network mounts refuse to sync a folder: their names are durable without it."""


class NoExclusiveCreateError(OSError):
    """The file system has no hard links, so it cannot create a file only if it is absent."""


class Disk:
    """The disk of this machine. New files get the umask's permissions, like Spark's own files.

    Its calls raise OSError; ``read`` also raises UnreadableFileError. ``folder`` is an open directory to
    which the first path is relative.
    """

    write = staticmethod(os.write)
    sync = staticmethod(os.fsync)
    close = staticmethod(os.close)
    make_folder = staticmethod(os.mkdir)
    remove_folder = staticmethod(os.rmdir)
    exists = staticmethod(os.path.lexists)
    now_s = staticmethod(time.time)
    names = staticmethod(os.listdir)
    read = staticmethod(read_regular_file)

    def new_name(self) -> str:
        return os.urandom(16).hex()

    def open_new(self, path: str) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def rename(self, source: str, target: str, folder: int | None = None) -> None:
        os.replace(source, target, src_dir_fd=folder)

    def link(self, source: str, target: str, folder: int | None = None) -> None:
        os.link(source, target, src_dir_fd=folder, follow_symlinks=False)

    def is_same(self, source: str, target: str, folder: int | None = None) -> bool:
        return os.path.samestat(os.lstat(target), os.stat(source, dir_fd=folder, follow_symlinks=False))

    def remove(self, path: str, folder: int | None = None) -> None:
        os.unlink(path, dir_fd=folder)

    def sync_folder(self, path: str, folder: int | None = None) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in _NO_FOLDER_SYNC:
                raise
        finally:
            os.close(handle)

    def is_folder(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(path).st_mode)
        except OSError:
            return False

    def is_writable(self, path: str) -> bool:
        return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)

    def modified_s(self, path: str) -> float:
        return os.lstat(path).st_mtime


OS_DISK = Disk()


class DurableFiles:
    """Writes files below one folder.

    Args:
        root: the folder that holds the files of this object; folders above it may belong to other users.
    """

    def __init__(self, root: str, disk: Disk = OS_DISK) -> None:
        self._root = root
        self._disk = disk
        self._synced_folders: set[str] = set()

    def create(self, target: str, data: bytes, *, exclusive: bool = False) -> bool:
        """Write ``target`` if it is absent; False if it exists. Durable on return in both cases.

        Args:
            exclusive: if several callers create one name at the same time, all but one get False.

        Raises:
            NoExclusiveCreateError: ``exclusive`` is set, and the file system does not support it.
            OSError: either nothing was written, or all bytes, which may not survive a power cut.
        """
        folder = os.path.dirname(target)
        with self._written(folder, [data]) as temporary:
            try:
                self._disk.link(temporary, target)
                created = True
            except FileExistsError:
                created = False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                if exclusive:
                    raise NoExclusiveCreateError(*error.args) from error
                created = self._claim(temporary, target)
        self._disk.sync_folder(folder)
        return created

    def replace(self, target: str, data: bytes) -> None:
        """Write ``target``, replacing an existing file. Durable on return.

        Raises:
            OSError: the file holds its former content, or all of ``data``, which may not survive a power
                cut.
        """
        folder = os.path.dirname(target)
        with self._written(folder, [data]) as temporary:
            self._disk.rename(temporary, target)
        self._disk.sync_folder(folder)

    def copy_from(self, source: str, target: str, *, length: int, folder: int | None = None) -> None:
        """Write ``target`` with the content, times and permissions of ``source``. Durable on return.

        Args:
            folder: an open directory to which ``source`` is relative.

        Raises:
            FileExistsError: as :meth:`move`.
            OSError: ``target`` is absent or complete; also if ``source`` does not have ``length`` bytes.
        """
        into = os.path.dirname(target)
        # Every attempt uses the same name, so the next one overwrites what a crash has left.
        name = TEMPORARY_PREFIX + hashlib.sha256(os.fsencode(target)).hexdigest()[:32]
        handle = os.open(source, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        with open(handle, "rb", buffering=0) as file:
            info = os.fstat(file.fileno())
            chunks = iter(lambda: file.read(_CHUNK_BYTES), b"")
            with self._written(into, chunks, name) as temporary:
                copied = os.lstat(temporary).st_size
                if copied != length:
                    raise OSError(errno.EIO, f"{copied} bytes were copied, {length} were expected", source)
                os.utime(temporary, ns=(info.st_atime_ns, info.st_mtime_ns))
                os.chmod(temporary, stat.S_IMODE(info.st_mode))
                self._name(temporary, target)
        self._disk.sync_folder(into)

    def move(self, source: str, target: str, *, folder: int | None = None) -> None:
        """Give a file on the same file system another name, which must be free. Durable on return.

        Args:
            folder: an open directory to which ``source`` is relative.

        Raises:
            FileExistsError: ``target`` exists; without hard links another process may overwrite it.
            OSError: the file has its old name, its new name or both; a power cut may change which one.
        """
        into = os.path.dirname(target)
        self._make_folder(into)
        is_linked = self._name(source, target, folder)
        # The new name is synced first: a power cut between the two leaves both names, never none.
        self._disk.sync_folder(into)
        with contextlib.suppress(FileNotFoundError):
            # Meanwhile another file may have been given the old name.
            if is_linked and self._disk.is_same(source, target, folder):
                self._disk.remove(source, folder)
        self._disk.sync_folder(os.path.dirname(source) or ".", folder)

    def remove(self, path: str, *, folder: int | None = None) -> None:
        """Delete a file if it exists. Durable on return, also if another process had deleted it.

        Args:
            folder: an open directory to which ``path`` is relative.
        """
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(path, folder)
        with contextlib.suppress(FileNotFoundError):
            self._disk.sync_folder(os.path.dirname(path) or ".", folder)

    def make_durable(self, path: str) -> None:
        """Make an existing file survive a power cut; its writer may have died before its last sync."""
        folder = os.path.dirname(path)
        self._make_folder(folder)
        self._disk.sync_folder(folder)

    def remove_abandoned(self, folder: str, *, older_than_s: float = ABANDONED_AFTER_S) -> int:
        """Delete the temporary files that killed processes left in ``folder``; returns their number."""
        try:
            names = [name for name in self._disk.names(folder) if name.startswith(TEMPORARY_PREFIX)]
        except FileNotFoundError:
            return 0
        removed = 0
        for name in names:
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):
                if self._disk.now_s() - self._disk.modified_s(path) >= older_than_s:
                    self._disk.remove(path)
                    removed += 1
        return removed

    @contextlib.contextmanager
    def _written(self, folder: str, chunks: Iterable[bytes], name: str | None = None) -> Iterator[str]:
        """A synced temporary file in ``folder`` that holds all of ``chunks``; removed on exit."""
        self._make_folder(folder)
        temporary = os.path.join(folder, name or f"{TEMPORARY_PREFIX}{self._disk.new_name()}")
        if name is not None:
            with contextlib.suppress(FileNotFoundError):
                self._disk.remove(temporary)
        try:
            handle = self._disk.open_new(temporary)
            try:
                for chunk in chunks:
                    self._write_all(handle, chunk)
                self._disk.sync(handle)
            finally:
                self._disk.close(handle)
            yield temporary
        finally:
            with contextlib.suppress(OSError):
                self._disk.remove(temporary)

    def _write_all(self, handle: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            # A full disk, a limit or a signal makes a call write fewer bytes than it was given.
            written = self._disk.write(handle, view)
            if written <= 0:
                raise OSError(errno.EIO, "the file system accepted none of the bytes written")
            view = view[written:]

    def _make_folder(self, folder: str) -> None:
        """Make a folder durable, whether or not it already exists.

        The process that made an existing folder may have died before it synced the folder above, so
        each process syncs each folder once.
        """
        is_there = self._disk.exists(folder)
        if is_there and folder in self._synced_folders:
            return
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        self._make_folder(parent)
        if not is_there:
            with contextlib.suppress(FileExistsError):
                self._disk.make_folder(folder)
        try:
            self._disk.sync_folder(parent)
        except PermissionError:
            # Folders above the root may belong to other users. Where this user may write, the folder may have
            # been made by a process of this user that died before it synced it.
            if self._disk.is_writable(parent) or f"{folder}/".startswith(f"{self._root}/"):
                raise
            return
        self._synced_folders.add(folder)

    def _name(self, source: str, target: str, folder: int | None = None) -> bool:
        """Give a file a name that must be free; True if the file also keeps its old name."""
        try:
            self._disk.link(source, target, folder)
            return True
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if self._disk.exists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
        self._disk.rename(source, target, folder)
        return False

    def _claim(self, temporary: str, target: str) -> bool:
        """For file systems without hard links, such as some network mounts: claim the name, then rename.

        The process that first creates the empty claim next to the target moves its file to the target,
        which is complete from the start. A claim whose owner has died is taken over: names of documents and
        segments are digests of their content, so both would have moved the same bytes.
        """
        if self._disk.exists(target):
            return False
        folder, name = os.path.split(target)
        claim = os.path.join(folder, f"{TEMPORARY_PREFIX}claim-{name}")
        try:
            self._disk.close(self._disk.open_new(claim))
            first = True
        except FileExistsError:
            first = not self._disk.exists(target)
        if first:
            self._disk.rename(temporary, target)
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(claim)
        return first
