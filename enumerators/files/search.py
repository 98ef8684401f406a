"""FileSearch: finds the files that a position does not know, by a listing or among files with given paths."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import msgspec

from flip27_source.enumerators.files import options as opts
from flip27_source.enumerators.files.event_times import EventTimes, check_order
from flip27_source.enumerators.files.listing.choice import Listing
from flip27_source.enumerators.files.listing.lister import FileFound, FileInfo, Lister
from flip27_source.enumerators.files.listing.skipped_paths import SkippedPaths
from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.enumerators.files.seen_files.by_hash import ExactFiles
from flip27_source.enumerators.files.seen_files.choice import chosen_strategy, listed_by, strategy_named
from flip27_source.enumerators.files.seen_files.strategy import DiscoveryRound, switched
from flip27_source.enumerators.files.split import FileSplit, version_of
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.log import LOG
from flip27_source.options import Options
from flip27_source.schemas.inference import SplitSample
from flip27_source.source_options import MAX_BYTES_PER_TRIGGER, MAX_FILES_PER_TRIGGER

_THREADS = 16

Found = tuple[list[FileSplit], FilesPosition]
"""New files, and the position after them."""


class FileSearch:
    """Finds new files by the options of a source. Used only on the discovery thread.

    Args:
        may_be_emptied: all files of an object store may have been read and removed.
        keeps_etag: files are checked again by their ETags after they were found.
        times: tells the event times of the files; None: they do not count.
    """

    def __init__(
        self, options: Options, *, may_be_emptied: bool, keeps_etag: bool, times: EventTimes | None = None
    ) -> None:
        if options[opts.LATEST_FIRST] and options[opts.FILE_ORDER] != "modified":
            raise OptionError(
                "option latestFirst is true, which orders files by modification time, but fileOrder is "
                f"{options[opts.FILE_ORDER]}",
                remedy="remove one of the two options",
            )
        check_order(options)
        self.times = times
        self.listing = Listing.of(options, may_be_emptied=may_be_emptied)
        self._options = options
        self._keeps_etag = keeps_etag
        self._modified_range = opts.modified_range_us(options)
        self._max_age_us = _max_age_us(options)
        self._strategy = chosen_strategy(options, opts.paths_of(options))
        on_late, is_exact = options[opts.ON_LATE_FILE], self._strategy.name == ExactFiles.name
        # A file that is late for the cursor of an earlier run is new.
        self._on_late = "read" if is_exact and on_late == "fail" else on_late
        self._listed = msgspec.UNSET if is_exact else listed_by(options)
        self._too_old = SkippedPaths()

    def must_list(self, position: FilesPosition | None) -> bool:
        """Whether only a listing of all files can continue from this position."""
        return self._strategy.must_list(position)

    def everywhere(self, position: FilesPosition | None) -> Found:
        """The new files of a listing."""
        self._too_old.begin()
        current = self._round(position)
        strategy, lister = self._strategy, self.listing.lister
        if position is None or position.strategy == strategy.name:
            files, after = strategy.find(current, position)
        else:
            lister.forget()
            old = strategy_named(position.strategy, self._options)
            files, after = switched(old, strategy, current, position)
        if position is None and not self._options[opts.INCLUDE_EXISTING_FILES]:
            LOG.info("%d files existed before the first start of the query and are not read", len(files))
            files = []
        self._too_old.end()
        files = self._timed(files)
        if strategy.goes_by_names:
            lister.remember(current.unsettled)
        return files, self._counted(after)

    def among(self, requests: Mapping[str, Callable[[], FileInfo | None]], position: FilesPosition) -> Found:
        """The new files among some files, for each of which its information can be requested."""
        current = self._round(position)
        unknown = self._strategy.unknown(current, list(requests), position)
        lister = _RequestedFiles(requested({path: requests[path] for path in unknown}))
        current = replace(current, listing=replace(self.listing, lister=lister))
        files, after = self._strategy.find(current, position)
        return self._timed(files), self._counted(after)

    def _timed(self, files: list[FileSplit]) -> list[FileSplit]:
        return files if self.times is None else self.times.timed(files)

    def _round(self, position: FilesPosition | None) -> DiscoveryRound:
        return DiscoveryRound(
            listing=self.listing,
            name_only=self._options[opts.FILE_NAME_ONLY],
            moves=() if position is None else position.moves,
            choose=self._chooser(position),
            on_late=self._on_late,
            now_ms=time.time_ns() // 1_000_000,
        )

    def _counted(self, position: FilesPosition) -> FilesPosition:
        count, listed = self._too_old.count, self._listed
        times_by = msgspec.UNSET if self.times is None else self.times.known_by
        is_same = (position.too_old, position.listed, position.times_by) == (count, listed, times_by)
        return position if is_same else replace(position, too_old=count, listed=listed, times_by=times_by)

    def _chooser(self, position: FilesPosition | None) -> Callable[[str, FileInfo], FileSplit | None]:
        """A function that returns the split of a file, or None if its modification time excludes it."""
        oldest_us = float("-inf")
        if self._max_age_us is not None and position is not None:
            oldest_us = position.newest_us - self._max_age_us
        keeps_etag, limits = self._keeps_etag, self._modified_range
        keeps_versions = self._options[opts.ALLOW_OVERWRITES]

        def choose(path: str, info: FileInfo) -> FileSplit | None:
            modified_us = info.modified_us
            if limits is not None and modified_us == 0:
                raise DiscoveryError(
                    f"the file system does not report the modification time of {path}",
                    remedy="remove the options modifiedAfter and modifiedBefore",
                )
            if limits is not None and not limits[0] < modified_us < limits[1]:
                return None
            if modified_us < oldest_us:
                self._too_old.skip(path, "%s is older than maxFileAge and is not read")
                return None
            etag = (info.etag or None) if keeps_etag else None
            version = version_of(info.etag, modified_us, info.length) if keeps_versions else None
            return FileSplit(
                path=path, length=info.length, modified_us=modified_us, version=version, etag=etag
            )

        return choose


class _RequestedFiles(Lister):
    """Files with what the file system says about them."""

    def __init__(self, files: Mapping[str, FileInfo | None]) -> None:
        self._files = files

    def check_root(self) -> None:
        """There is nothing to check."""

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        return ((path, partial(self._files.get, path)) for path in self._files)


def requested(requests: Mapping[str, Callable[[], FileInfo | None]]) -> dict[str, FileInfo | None]:
    """What the file system says about these files, several at once."""
    if not requests:
        return {}
    with ThreadPoolExecutor(min(_THREADS, len(requests)), thread_name_prefix="flip27-notified") as threads:
        infos = threads.map(lambda request: request(), requests.values())
        return dict(zip(requests, infos, strict=True))


def sample_files(options: Options, count: int) -> SplitSample[FileSplit]:
    """Non-empty files, spread evenly over all paths in order, including the first and the last."""
    listing = Listing.of(options)
    listing.lister.check_root()
    requests = dict(listing.files())
    paths = sorted(requests)
    earliest, latest = opts.modified_range_us(options) or (float("-inf"), float("inf"))
    sample: list[FileSplit] = []
    for path in _spread(paths, count):
        if len(sample) == count:
            break
        info = requests[path]()
        if info is not None and info.length and earliest < info.modified_us < latest:
            sample.append(FileSplit(path=path, length=info.length, modified_us=info.modified_us))
    folders = {path.rpartition("/")[0] for path in paths}
    return SplitSample(
        splits=tuple(sorted(sample, key=lambda split: split.path)), folders=tuple(sorted(folders))
    )


def _spread(paths: list[str], count: int) -> Collection[str]:
    """Evenly spread paths, followed by all others as replacements for unusable files."""
    numbers = range(min(count, len(paths)))
    first = [paths[number * (len(paths) - 1) // max(count - 1, 1)] for number in numbers]
    return dict.fromkeys((*first, *paths))


def _max_age_us(options: Options) -> float | None:
    age_s = options[opts.MAX_FILE_AGE]
    is_limited = options[MAX_FILES_PER_TRIGGER] is not None or options[MAX_BYTES_PER_TRIGGER] is not None
    if age_s is None or (options[opts.LATEST_FIRST] and is_limited):
        return None
    return age_s * 1_000_000
