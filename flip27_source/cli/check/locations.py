"""Checks of locations: the state location, who may write to it, the path, and the queues of its events."""

from __future__ import annotations

import contextlib
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from flip27_source.access_errors import BUSY, NETWORK, cause_of_failed_access
from flip27_source.enumerators.files.listing.choice import Listing
from flip27_source.enumerators.files.notifications.queues import checked_queues
from flip27_source.enumerators.files.options import CLEAN_SOURCE, DISCOVERY, PATHS, paths_of
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import AccessError, Flip27Error, MissingStateError, StateError, StateLocationError
from flip27_source.file_systems.paths import local_path, redacted
from flip27_source.notifications import NotificationQueue
from flip27_source.options import Options
from flip27_source.readers.files.input import open_raw
from flip27_source.snapshots.store import Store, open_store
from flip27_source.source_checks import Finding, failed, failure, finding_of, ok, skipped, warning
from flip27_source.source_options import PATH

from .time_limits import answered, asked

LISTING_S = 5.0
"""Maximum time for listing the path."""
_SLOW_FILES_PER_S = 500
_PROBE = "flip27-check-"
_NO_RECEIPT = "flip27 check"
_PERMISSIONS = "state location, permissions"
_FOLDERS_LOOKED_AT = 1000
"""Maximum number of directories below the state location that are checked."""


def state_location(location: str, storage: Mapping[str, Any]) -> Iterator[Finding]:
    """Create, read, list and delete a probe file, and create one twice; then delete all of them.

    A server gets its first request in this call, and the others when the findings are taken.
    """
    folder = f"{_PROBE}{uuid.uuid4().hex}"
    opened = asked(redacted(location), lambda: _answering(location, storage, f"{folder}/probe"))
    return _of_state(opened, location, folder)


def _of_state(opened: Callable[[], Store], location: str, folder: str) -> Iterator[Finding]:
    try:
        store = opened()
    except Exception as error:  # noqa: BLE001 - file systems raise any error
        yield failure("state location", error)
        return
    with _cleaned_up(store, location, folder):
        yield finding_of("state location", lambda: _probed(store, folder))
        local = local_path(location)
        if local is not None:
            yield _writers(Path(os.path.realpath(local)))
        yield _conditional_create(store, f"{folder}/twice")


def _answering(location: str, storage: Mapping[str, Any], missing: str) -> Store:
    """Raise an error if the server cannot be reached; each further request to it would take as long again."""
    store = open_store(location, storage)
    if local_path(location) is None:
        try:
            store.read(missing)
        except AccessError:
            raise
        except StateError as error:
            if cause_of_failed_access(error) in (NETWORK, BUSY):
                raise
    return store


@contextlib.contextmanager
def shared_probe(location: str, storage: Mapping[str, Any], token: bytes) -> Iterator[tuple[str, Store]]:
    """A folder in the state location that has a file ``driver`` until the end, and the store.

    Args:
        token: the content of the file.
    """
    store, folder = open_store(location, storage), f"{_PROBE}{uuid.uuid4().hex}"
    with _cleaned_up(store, location, folder):
        store.create(f"{folder}/driver", token)
        yield folder, store


def has_path(options: Options) -> bool:
    """Whether a files source has a path."""
    return options[PATH] is not None or bool(options[PATHS])


def path_of(options: Options) -> str:
    """The path of a source, for people."""
    return redacted(str(options[PATH] or options.get(PATHS.name) or "the path"))


def asked_root(options: Options) -> Callable[[], Listing]:
    """Ask the server of the path of a files source whether the path exists, and wait for it later."""

    def root() -> Listing:
        listing = Listing.of(options)
        listing.lister.check_root()
        return listing

    return asked(path_of(options), root)


def source_path(options: Options, root: Callable[[], Listing]) -> tuple[list[Finding], FileSplit | None]:
    """List and measure the path of a files source, read a byte of its first file, and return that file.

    Args:
        root: what ``asked_root`` has returned.
    """
    if not has_path(options):
        return [skipped("path", "not given", "give it with --path")], None
    try:
        first, rate = _listed(root())
    except Exception as error:  # noqa: BLE001 - file systems raise any error
        return [failure("path", error)], None
    if first is None:
        return [warning("path", "it can be listed, but contains no file", "check path and globs")], None
    findings = [finding_of("path", lambda: _read_a_byte(first, options)), rate]
    if options[CLEAN_SOURCE] != "off":
        findings += [
            finding_of("path, to clean", partial(_writable, path, options)) for path in paths_of(options)
        ]
    return findings, first


def queues(options: Options) -> Iterator[Finding]:
    """Check each queue of a files source; no message is removed."""
    if options[DISCOVERY] != "notifications":
        return
    try:
        checked = checked_queues(options)
    except Flip27Error as error:
        yield failure("queue", error)
        return
    for queue in checked.values():
        yield finding_of("queue", partial(_asked, queue))


def _asked(queue: NotificationQueue) -> Finding:
    """Call each method of the queue: received messages stay visible, and the given receipt is made up."""
    messages = answered(queue.url, lambda: queue.receive(count=1, wait_s=0.0, hidden_s=0.0))
    queue.extend([_NO_RECEIPT], 0.0)
    queue.delete([_NO_RECEIPT])
    strange = next((message for message in messages if message.problem is not None), None)
    said = f"messages of {queue.url} can be received, kept hidden and deleted"
    if strange is not None:
        said += f"; message {strange.message_id} would be ignored, because {strange.problem}"
    return ok("queue", said)


def _writers(location: Path) -> Finding:
    """Whether everybody on the machine may write to the location, or replace it with another directory."""
    for folder in (location, *islice(_below(location), _FOLDERS_LOOKED_AT)):
        mode = _mode(folder)
        if mode & stat.S_IWOTH:
            return _open_to_all(folder, mode, "they can add files and so edit the state of the source")
    for parent in location.parents:
        mode = _mode(parent)
        # In a directory with the sticky bit, such as /tmp, a directory can only be renamed by its owner.
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return _open_to_all(parent, mode, "they can replace the state location with another directory")
    return ok(_PERMISSIONS, "the state location is not world-writable")


def _below(location: Path) -> Iterator[Path]:
    """The directories of lineages, and those in them."""
    for folder in _folders(location):
        yield folder
        yield from _folders(folder)


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # it does not exist, or the other checks report the error


def _mode(folder: Path) -> int:
    try:
        return folder.stat().st_mode
    except OSError:
        return 0


def _open_to_all(folder: Path, mode: int, what: str) -> Finding:
    return warning(
        _PERMISSIONS,
        f"everybody may write to {folder} (mode {stat.S_IMODE(mode):04o}): {what}",
        f"chmod o-w {folder}, and start Spark with a umask such as 027; if executors run as another user, "
        "use 007 and a group that the driver and the executors share",
    )


def _probed(store: Store, folder: str) -> Finding:
    name, data = f"{folder}/probe", b"flip27 check"
    store.create(name, data)
    if store.read(name) != data or "probe" not in store.list(folder):
        return failed("state location", "a file that was just written is missing", "use another file system")
    store.delete(name)
    with contextlib.suppress(MissingStateError):
        store.read(name)
        return failed("state location", "a deleted file still exists", "use another file system")
    return ok("state location", "a file can be created, read, listed and deleted")


def _conditional_create(store: Store, name: str) -> Finding:
    check = "conditional create"
    try:
        first = store.create(name, b"first", exclusive=True)
        second = store.create(name, b"second", exclusive=True)
        kept = store.read(name)
    except StateLocationError as error:
        return warning(check, error.what, f"sources whose tasks report need this: {error.remedy}")
    if first and not second and kept == b"first":
        return ok(check, "an existing file cannot be created again")
    return failed(
        check,
        "an existing file can be created again",
        "use a file system with exclusive creation: local disk, S3, GCS, Azure",
    )


@contextlib.contextmanager
def _cleaned_up(store: Store, location: str, folder: str) -> Iterator[None]:
    """Delete the probes at the end, and directories that were created for them."""
    local = local_path(location)
    made: list[Path] = []
    if local is not None:
        root = Path(os.path.abspath(local))
        made = [root / folder, *(path for path in (root, *root.parents) if not os.path.exists(path))]
    try:
        yield
    finally:
        with contextlib.suppress(Flip27Error):
            for name in store.list(folder):
                store.delete(f"{folder}/{name}")
        for directory in made:
            with contextlib.suppress(OSError):
                directory.rmdir()


def _listed(listing: Listing) -> tuple[FileSplit | None, Finding]:
    """The first file of a listing, and how fast the listing is."""
    began = time.monotonic()
    files, first, more = 0, None, ""
    for path, info in listing.lister.files(recursive=listing.recursive):
        files += 1
        if first is None and listing.takes(path.rpartition("/")[2]) and (known := info()) is not None:
            first = FileSplit(path=path, length=known.length, modified_us=known.modified_us)
        if time.monotonic() - began > LISTING_S:
            more = " of a longer listing"
            break
    seconds = time.monotonic() - began
    rate = files / max(seconds, 1e-6)
    said = f"{files:,} files in {seconds:.2f} s{more}: {rate:,.0f} files per second"
    if not more or rate >= _SLOW_FILES_PER_S:
        return first, ok("listing", said)
    remedy = (
        "discovery runs in the background, but finds new files late: list fewer directories, or use "
        "seenFiles=nameCursor if file names increase"
    )
    return first, warning("listing", said, remedy)


def _read_a_byte(split: FileSplit, options: Options) -> Finding:
    with open_raw(split, options) as stream:
        stream.read(1)
    return ok("path", f"it can be listed, and {split.path} can be read")


def _writable(path: str, options: Options) -> Finding:
    """Whether files can be created and deleted; the probe's name starts with ``_``, so sources ignore it."""
    store, name = open_store(path, options.with_prefix("storage.")), f"_{_PROBE}{uuid.uuid4().hex}"
    store.create(name, b"")
    store.delete(name)
    return ok("path, to clean", f"files can be created and deleted in {store.location}")
