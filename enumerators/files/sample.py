"""A deterministic sample of the files of a source, for schema inference."""

from __future__ import annotations

from collections.abc import Iterator

from flip27_source.enumerators.files.globs import any_name, name_test
from flip27_source.enumerators.files.listing.walk import open_listers
from flip27_source.enumerators.files.options import (
    IGNORE_MISSING_FILES,
    PATH_GLOB_FILTER,
    RECURSIVE_FILE_LOOKUP,
    modified_range_us,
    paths_of,
)
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Options
from flip27_source.schemas.inference import SplitSample


def sample_files(options: Options, count: int) -> SplitSample[FileSplit]:
    """Non-empty files, spread evenly over all paths in order, including the first and the last."""
    lister = open_listers(
        paths_of(options), options.with_prefix("storage."), ignore_missing=options[IGNORE_MISSING_FILES]
    )
    lister.check_root()
    glob = options[PATH_GLOB_FILTER]
    matches = any_name if glob is None else name_test(glob)
    found = {
        path: info
        for path, info in lister.files(recursive=options[RECURSIVE_FILE_LOOKUP])
        if matches(path.rpartition("/")[2])
    }
    paths = sorted(found)
    earliest, latest = modified_range_us(options) or (float("-inf"), float("inf"))
    chosen: list[FileSplit] = []
    for number in _spread(len(paths), count):
        if len(chosen) == count:
            break
        info = found[paths[number]]()
        if info is not None and info.length and earliest < info.modified_us < latest:
            chosen.append(FileSplit(path=paths[number], length=info.length, modified_us=info.modified_us))
    folders = {path.rpartition("/")[0] for path in paths}
    return SplitSample(
        splits=tuple(sorted(chosen, key=lambda split: split.path)), folders=tuple(sorted(folders))
    )


def _spread(total: int, count: int) -> Iterator[int]:
    """Evenly spread positions, followed by all others as replacements for unusable files."""
    first = dict.fromkeys(number * (total - 1) // max(count - 1, 1) for number in range(min(count, total)))
    yield from first
    yield from (number for number in range(total) if number not in first)
