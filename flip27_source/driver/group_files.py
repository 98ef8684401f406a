"""The records of a group's members: one small file each, in a folder that only one Spark application has.

Spark gives each process that it starts the folders of its block manager (``SPARK_LOCAL_DIRS``), since Spark
4.0. Their names are random, they belong to one application, and Spark deletes them when it ends. So no other
application counts and no earlier one, whatever the name of the group.

A writer holds a lock (``flock``) on its file as long as it lives: the system releases it when the process
ends, however it ends. Where files cannot be locked, a record counts until it is too old.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from ..coordination.groups import Member
from ..errors import OptionError
from ..file_systems.durable_files import TEMPORARY_PREFIX
from ..source_options import ALIGNMENT_GROUP

_LOCAL_FOLDERS = "SPARK_LOCAL_DIRS"
_OF_APPLICATION = "blockmgr-"
_REPEATED_AFTER_MS = 1000
"""An idle query plans many times a second."""


def application_folder(environment: Mapping[str, str] = os.environ) -> str:
    """The folder of this Spark application on the driver's host.

    Raises:
        OptionError: Spark has named none.
    """
    named = environment.get(_LOCAL_FOLDERS, "")
    for folder in named.split(","):
        if os.path.basename(folder).startswith(_OF_APPLICATION) and os.path.isdir(folder):
            return folder
    raise OptionError(
        f"option {ALIGNMENT_GROUP.name} is set, and Spark has not told this process a folder of its "
        f"application: the environment variable {_LOCAL_FOLDERS} is {named!r}",
        remedy=f"leave {ALIGNMENT_GROUP.name} out, so that only the splits of each source are aligned",
    )


class GroupFiles:
    """The records of one group, and the file of one of its members. Used by several threads.

    Args:
        application: the folder of the Spark application.
        group: the name of the group.
        run: the random name of this member's run.
    """

    def __init__(self, application: str, group: str, run: str) -> None:
        name = hashlib.sha256(group.encode()).hexdigest()[:16]
        self._folder = os.path.join(application, f"flip27-group-{name}")
        self._path = os.path.join(self._folder, run)
        self._turn = threading.Lock()
        # The descriptor of this member's file, which holds its lock.
        self._held: int | None = None
        self._last: Member | None = None
        self._is_closed = False

    def write(self, record: Member) -> None:
        """Publish this member's record, if the one before is older than a second or differs.

        Raises:
            OSError: the one before is left; also if the folder belongs to another user.
        """
        with self._turn:
            last = self._last
            if last is not None and record.beat_ms - last.beat_ms < _REPEATED_AFTER_MS:
                record = record if replace(record, beat_ms=last.beat_ms) != last else last
            if record is not last:
                self._write(record)

    def beat(self, steady_ms: int) -> None:
        """Publish that this member is alive.

        Raises:
            OSError: as for :meth:`write`.
        """
        with self._turn:
            if self._last is not None:
                self._write(replace(self._last, beat_ms=steady_ms))

    def read(self) -> list[Member]:
        """The records of the other members that are alive; files of dead ones are deleted.

        Raises:
            OSError: the folder cannot be read.
        """
        names: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            names = sorted(os.listdir(self._folder))
        paths = [os.path.join(self._folder, name) for name in names if not name.startswith(TEMPORARY_PREFIX)]
        # Not its own: on a network mount a lock does not keep out the process that holds it.
        return [record for path in paths if path != self._path for record in self._record_in(path)]

    def close(self) -> None:
        """Leave the group."""
        with self._turn, contextlib.suppress(OSError):
            self._is_closed, self._last = True, None
            held, self._held = self._held, None
            if held is not None:
                os.close(held)
                os.unlink(self._path)

    def _record_in(self, path: str) -> Iterator[Member]:
        while True:
            try:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return
            with open(handle, "rb") as file:
                text = file.read()
                if not _lock(handle, exclusively=False):
                    with contextlib.suppress(msgspec.DecodeError):
                        yield msgspec.json.decode(text, type=Member)
                    return
                # It lets go of a file only after that was replaced, or at its end.
                if os.fstat(handle).st_nlink:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
                    return

    def _write(self, record: Member) -> None:
        if self._is_closed:
            return
        self._make_folder()
        temporary = os.path.join(self._folder, f"{TEMPORARY_PREFIX}{os.path.basename(self._path)}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        # Not made durable: a record has no use after its process.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, msgspec.json.encode(record))
            _lock(handle, exclusively=True)
            os.replace(temporary, self._path)
        except BaseException:
            os.close(handle)
            raise
        if self._held is not None:
            os.close(self._held)
        self._held, self._last = handle, record

    def _make_folder(self) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._folder, 0o700)
        found = os.lstat(self._folder)
        is_own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
        if not stat.S_ISDIR(found.st_mode) or not is_own:
            raise PermissionError(f"{self._folder} is not a folder of the user of this process")


def _lock(handle: int, *, exclusively: bool) -> bool:
    """Lock an open file until it is closed; False if another one has locked it, or if locks do not work."""
    try:
        import fcntl  # Windows has none

        fcntl.flock(handle, (fcntl.LOCK_EX if exclusively else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except (OSError, ImportError):
        return False
    return True
