"""Checks that files are still as they were when they were discovered: length, modification time, ETag.

Only metadata is requested. What must not live here: the content of files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError
from flip27_source.file_systems.paths import disk_path, is_web_server
from flip27_source.options import Options
from flip27_source.readers.files.input import (
    FileMissingError,
    check_length,
    check_version,
    file_system,
    reading,
)

_AT_ONCE = 16
"""The number of concurrent requests to a file system on the network."""


def check_unchanged(split: FileSplit, options: Options) -> None:
    path = split.path
    local = disk_path(path)
    with reading(path, options):
        if local is None:
            _check_remote(split, options)
            return
        status = os.stat(local)
    check_length(split, status.st_size)
    check_version(split, status)


def changed_files(splits: Sequence[FileSplit], options: Options) -> list[tuple[FileSplit, SplitReadError]]:
    """The files that are gone or have changed, each with its error, in order."""
    if all(disk_path(split.path) is not None for split in splits):
        errors = [_error_of(split, options) for split in splits]
    else:
        with ThreadPoolExecutor(min(_AT_ONCE, len(splits))) as threads:
            errors = list(threads.map(lambda split: _error_of(split, options), splits))
    return [(split, error) for split, error in zip(splits, errors, strict=True) if error is not None]


def _error_of(split: FileSplit, options: Options) -> SplitReadError | None:
    try:
        check_unchanged(split, options)
    except SplitReadError as error:
        return error
    return None


def _check_remote(split: FileSplit, options: Options) -> None:
    fs, name = file_system(split.path, options)
    fs.invalidate_cache(name.rpartition("/")[0])
    info: Mapping[str, Any] = fs.info(name)
    if info.get("type") != "file":
        raise FileMissingError(f"{split.path} is no longer a file", remedy="do not move or delete files")
    size = info.get("size")
    if size is not None:
        check_length(split, int(size))
    # Some web servers report the time in only some of their answers.
    check_version(split, info, has_times=not is_web_server(fs))
