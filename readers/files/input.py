"""Opening files for reading: local or remote, plain or compressed, with errors that name the file.

All file readers use it to open a path as a stream of bytes. The errors of a file are types, which policies
such as ``ignoreMissingFiles`` check. What must not live here: the content.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, ClassVar, Self, cast

import pyarrow as pa

from flip27_source.access_errors import access_error
from flip27_source.enumerators.files.entries import (
    has_version_tag,
    modified_us,
    version_tag_of,
    was_modified_at,
)
from flip27_source.enumerators.files.globs import expand_paths, split_glob
from flip27_source.enumerators.files.options import PATHS
from flip27_source.enumerators.files.readers_by_name import COMPRESSED
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import AccessError, DataLossError, SplitReadError
from flip27_source.file_systems.paths import (
    answer_text,
    canonical_path,
    connected,
    disk_path,
    is_object_store,
    is_web_server,
    listed_name,
    local_path,
    open_listed,
    says_gone,
)
from flip27_source.file_systems.secrets_in_texts import Hidden
from flip27_source.options import Option, Options, ReadingOption, boolean
from flip27_source.readers.files.web_files import downloaded, gives_parts
from flip27_source.source_options import PATH

IGNORE_CORRUPT_FILES: Option[bool] = ReadingOption(
    name="ignoreCorruptFiles",
    parse=boolean,
    default=False,
    doc="A file that is truncated, damaged or has another format returns no rows, is counted "
    "(ignoredSplits) and listed in the state. By default it stops the query.",
)


class FileMissingError(DataLossError):
    """The file existed when it was discovered, but no longer exists."""

    ignored_by: ClassVar[str | None] = "ignoreMissingFiles"


class CorruptFileError(SplitReadError):
    """The content is invalid for the format: truncated, damaged, or in another format."""

    ignored_by: ClassVar[str | None] = IGNORE_CORRUPT_FILES.name


IGNORED_BY = ("ignoreMissingFiles", IGNORE_CORRUPT_FILES.name)
"""The options that ignore splits of files; the first belongs to the enumerator."""

_STORAGE = "storage."
_CHANGED_REMEDY = (
    "put the file back as it was; or restart the query with onSplitError=quarantine, which sets the file "
    "aside: with allowOverwrites, its new version is read by itself; otherwise drop and forget it (flip27 "
    "edit) to read it again. Write files elsewhere, and move them into the source's path when they are "
    "complete"
)
_NOT_OF_ARROW = "Not yet implemented"
"""What Arrow's errors say about an encoding that it cannot decode, such as arrow-rs's of a dictionary."""
WITHOUT_IT = "restart the query with onSplitError=quarantine to continue without the file"
"""A batch that was planned with a file accepts neither its absence nor another version of it."""
_NOT_DECOMPRESSED = (".deflate", ".snappy", ".lz4", ".lzo", ".xz", ".zip", ".7z")
"""Extensions of compressed files that are refused; Spark reads some of them as if they were text."""

_Info = os.stat_result | Mapping[str, Any]
"""What a file system says about a file."""

Fetched = Future[bytes]
"""The content of a file that is being fetched; its result raises the errors of ``read_whole``."""

MOST_BYTES = (1 << 31) - 1
"""The maximum for one value, in Arrow's string and binary types and in Java."""
_AHEAD_BYTES = 8 << 20

_file_systems: dict[tuple[int, str, str, str], Any] = {}


def is_compressed(path: str) -> bool:
    """True if ``open_file`` decompresses the file because of its extension."""
    return _compression(path) is not None


def _compression(path: str) -> str | None:
    return COMPRESSED.get(os.path.splitext(path.lower())[1])


def too_large(split: FileSplit) -> SplitReadError:
    return SplitReadError(
        f"{split.path} has more than {MOST_BYTES} bytes, the maximum for one value",
        remedy="exclude the file, or read its lines, or no column with its content",
    )


def refuse_unknown_compression(path: str) -> None:
    """Raise SplitReadError for a file whose extension means an unsupported compression."""
    if path.lower().endswith(_NOT_DECOMPRESSED):
        raise SplitReadError(
            f"{path} has a compression that flip27 does not support",
            remedy=f"compress files with gzip, bzip2 or zstd (.gz, .bz2, .zst), and {WITHOUT_IT}",
        )


def open_file(split: FileSplit, options: Options, fetched: Fetched | None = None) -> BinaryIO:
    """The content of a file as a stream, which decompresses while reading if the extension says so.

    ``fetched``: the stored bytes if they are already being fetched. Otherwise a store that supports
    concurrent requests fetches the next bytes while the current ones are processed.

    Raises:
        SplitReadError: the file cannot be opened, or has changed, as for ``open_raw``. Reading raises the
            errors of the file system: read inside ``reading(path, options)``, which converts them to
            SplitReadError.
    """
    path = split.path
    refuse_unknown_compression(path)
    raw = open_raw(split, options, fetched, reads_on=True)
    compression = _compression(path)
    if compression is None or split.length == 0:
        return raw
    stream: Any
    if compression == "gzip":
        stream = gzip.GzipFile(fileobj=raw)
    elif compression == "bz2":
        stream = bz2.BZ2File(raw)
    else:
        stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), compression)
    return _Owning(stream, raw, path)  # type: ignore[return-value]


def open_raw(
    split: FileSplit, options: Options, fetched: Fetched | None = None, *, reads_on: bool = False
) -> BinaryIO:
    """The stored bytes of a file as an unbuffered seekable stream.

    ``reads_on``: the caller will read from some position to the end, or nearly.

    Raises:
        SplitReadError: the file cannot be opened, or its length has changed since it was discovered. Ranges
            of one version must not be mixed with ranges of another: for a range, the modification time and
            the ETag are compared too, where no request is needed.
    """
    if fetched is not None:
        return io.BytesIO(fetched.result())
    with reading(split.path, options), ExitStack() as closing:
        stream, info = _opened(split.path, options, reads_on)
        closing.callback(stream.close)
        _check_opened(split, stream.seek(0, 2), info)
        stream.seek(0)
        closing.pop_all()
        return stream


def _opened(path: str, options: Options, reads_on: bool) -> tuple[BinaryIO, _Info | None]:
    """A file, and what is known about it without a request."""
    local = disk_path(path)
    if local is not None:
        file = io.FileIO(local)
        return cast(BinaryIO, file), os.fstat(file.fileno())
    fs, name = file_system(path, options)
    says_how = any(option.startswith("default_") for option in options.with_prefix(_STORAGE))
    # Files of sshfs do not use fsspec's caches, and it limits requests.
    has_caches = answers_many(fs) and (is_object_store(fs) or is_web_server(fs))
    how = _read_on() if reads_on and has_caches and not says_how else {}
    stream = fs.open(name, "rb", **how)
    if is_web_server(fs) and not gives_parts(stream):
        stream.close()
        return downloaded(fs, name, stream.size), None
    return cast(BinaryIO, stream), getattr(stream, "details", None) if is_object_store(fs) else None


def _check_opened(split: FileSplit, length: int, info: _Info | None) -> None:
    check_length(split, length)
    if info is not None and not split.is_whole and not split.moved:
        check_version(split, info)


def answers_many(fs: Any) -> bool:
    """True if a file system supports concurrent requests, as most network file systems do."""
    return bool(getattr(fs, "async_impl", False))


def _read_on() -> dict[str, Any]:
    """fsspec's arguments to fetch the next block in the background, if closing a file stops that."""
    from fsspec.caching import caches

    if hasattr(caches.get("background"), "close"):
        return {"cache_type": "background", "block_size": _AHEAD_BYTES, "cache_options": {"maxblocks": 4}}
    # Before fsspec 2026.7, the blocks and the thread of a closed file stay until garbage collection.
    return {"cache_type": "readahead", "block_size": _AHEAD_BYTES}


@contextmanager
def opened_by_arrow(split: FileSplit, options: Options, fetched: Fetched | None = None) -> Iterator[Any]:
    """The bytes of a file for Arrow's readers; Arrow opens local files itself, without Python."""
    local = disk_path(split.path)
    if fetched is not None:
        with pa.BufferReader(fetched.result()) as source:
            yield source
        return
    if local is not None:
        with pa.OSFile(os.fsencode(local), "rb") as source:
            _check_opened(split, source.size(), os.fstat(source.fileno()))
            yield source
        return
    with open_raw(split, options) as stream, pa.PythonFile(stream, mode="r") as source:
        yield source


def read_whole(split: FileSplit, options: Options) -> bytes:
    """The stored bytes of a file, in as few calls as the file system allows."""
    path = split.path
    local = disk_path(path)
    with reading(path, options):
        if local is None:
            fs, name = file_system(path, options)
            # Request a range, because for a whole object s3fs first requests the size. The range is one
            # byte longer than the file, to detect growth.
            byte_range = {"start": 0, "end": split.length + 1} if split.length > 0 else {}
            content = cast(bytes, fs.cat_file(name, **byte_range))
        else:
            content = _read_local(local, split.length)
    check_length(split, len(content))
    return content


def _read_local(path: str, expected_bytes: int) -> bytes:
    # For many small files the calls are the cost, so use only open, one read and close. A read that
    # returns less than requested has reached the end of a regular file.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = max(expected_bytes, 0) + 1
        content = os.read(descriptor, size)
        if len(content) == expected_bytes:
            return content
        pieces = [content]
        while piece := os.read(descriptor, max(size, 1 << 16)):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def check_length(split: FileSplit, length: int) -> None:
    """Refuse a file whose length has changed since it was discovered: rows would be lost or change."""
    if 0 <= split.length != length:
        raise SplitReadError(
            f"{split.path} had {split.length} bytes when it was discovered and has {length} now",
            remedy=_CHANGED_REMEDY,
        )


def check_version(split: FileSplit, info: _Info, *, has_times: bool = True) -> None:
    """Refuse a file whose ETag or modification time has changed since it was discovered.

    ``has_times``: the file system reports the same time in all its answers.
    """
    what, is_same = "modification time", True
    if isinstance(info, os.stat_result):
        is_same = info.st_mtime_ns // 1000 == split.modified_us
    elif version_tag_of(info) and split.known_etag:
        what, is_same = "ETag", has_version_tag(info, split.known_etag)
    elif modified_us(info) and split.modified_us and has_times:
        is_same = was_modified_at(info, split.modified_us)
    if not is_same:
        raise SplitReadError(
            f"{split.path} has changed since it was discovered: its {what} differs", remedy=_CHANGED_REMEDY
        )


def file_system(path: str, options: Options) -> tuple[Any, str]:
    """The fsspec file system of a remote path, and the path's name in that file system."""
    protocol, _, rest = path.partition("://")
    storage = options.with_prefix(_STORAGE)
    key = (os.getpid(), protocol, rest.partition("/")[0], json.dumps(storage, sort_keys=True, default=str))
    fs = _file_systems.get(key)
    fs = _file_systems[key] = open_listed(path, storage)[0] if fs is None else connected(fs)
    return fs, listed_name(path)


def forget_listings() -> None:
    """Forget what former tasks of this process have listed: it lacks files that came later."""
    for fs in list(_file_systems.values()):
        fs.invalidate_cache()


@contextmanager
def reading(path: str, options: Options) -> Iterator[None]:
    """Convert every error while ``path`` is read to one that names the path.

    Raises:
        SplitReadError: the file is gone, or its content is the reason. AccessError: it cannot be reached.
    """
    try:
        yield
    except SplitReadError:
        raise
    except Exception as error:
        # fsspec raises FileNotFoundError for any failed request over HTTP.
        is_of_system = isinstance(error, OSError | pa.ArrowException) and not isinstance(
            error, FileNotFoundError
        )
        reason = f"{type(error).__name__}: {error}" if is_of_system else answer_text(error)
        # The libraries of object stores have their own errors, and some contain credentials.
        reason = Hidden(options.with_prefix(_STORAGE)).in_text(reason)
        if says_gone(error, path):
            if (folder := _missing_folder(path, options)) is not None:
                raise AccessError(
                    f"{path} cannot be read: its folder {folder} is not there",
                    remedy="mount the volume again, or create the folder if it was deleted, and restart the "
                    "query; nothing was quarantined or lost",
                ) from None
            raise FileMissingError(
                f"{path} no longer exists",
                remedy="do not move or delete files before their batch is complete",
            ) from None
        if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
            raise damaged(path, str(error)) from None
        if is_of_system and _NOT_OF_ARROW in str(error):
            # The file is not damaged, so ignoreCorruptFiles must not skip it.
            raise SplitReadError(
                f"{path} cannot be read: {reason}",
                remedy=f"read the file by native reads, which know its encodings; or {WITHOUT_IT}",
            ) from None
        if is_of_system and _is_damage(path, error):
            raise damaged(path, reason) from None
        no_access = access_error(error, f"{path} cannot be read", said=reason)
        if no_access is not None:
            raise no_access from None
        if not is_of_system and local_path(path) is not None:
            raise
        remedy = (
            f"check the file; or {WITHOUT_IT}"
            if is_of_system
            else "check the path, the server and the storage.* options"
        )
        raise SplitReadError(f"{path} cannot be read: {reason}", remedy=remedy) from None


def _missing_folder(path: str, options: Options) -> str | None:
    """The directory of the source that has, or had, a missing file, if it is missing too.

    A file that vanished is lost, but a directory may be a volume that is not mounted.
    """
    given = (options.get(PATH.name), *(options.get(PATHS.name) or ()))
    choices = (choice for path_or_glob in given if path_or_glob for choice in expand_paths(path_or_glob))
    folders = {canonical_path(split_glob(choice)[0]) for choice in choices}
    above = [folder for folder in folders if path.startswith(f"{folder}/")]
    return above[0] if above and not any(_exists(folder, options) for folder in above) else None


def _exists(folder: str, options: Options) -> bool:
    local = disk_path(folder)
    if local is not None:
        return os.path.exists(local)
    fs, name = file_system(folder, options)
    return is_object_store(fs) or is_web_server(fs) or bool(fs.exists(name))


def damaged(path: str, how: str) -> CorruptFileError:
    """The error for a file whose content is invalid for its format."""
    return CorruptFileError(f"{path} is truncated or damaged: {how}", remedy=f"check the file; {WITHOUT_IT}")


def _is_damage(path: str, error: Exception) -> bool:
    # bz2 and pyarrow raise a plain OSError without an error number for broken data.
    if isinstance(error, OSError):
        by_itself = type(error) is OSError or (is_compressed(path) and not isinstance(error, TimeoutError))
        return error.errno is None and by_itself
    return isinstance(error, pa.ArrowInvalid)


class _Owning:
    """A decompressing stream that also closes the underlying file."""

    def __init__(self, stream: Any, raw: BinaryIO, path: str) -> None:
        self._stream = stream
        self._raw = raw
        self._path = path

    def read(self, size: int = -1) -> bytes:
        try:
            return cast(bytes, self._stream.read() if size < 0 else self._stream.read(size))
        except (EOFError, zlib.error, gzip.BadGzipFile, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            where = f"within its first {self._raw.tell()} stored bytes"
            raise damaged(self._path, f"{error} ({where})") from None

    def close(self) -> None:
        self._stream.close()
        self._raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
