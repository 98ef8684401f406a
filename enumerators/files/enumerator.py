"""The files enumerator: finds new files in directories, on local disk or any fsspec file system.

A file is identified by its path. Files are assigned oldest first. A new large file is cut into ranges if its
format can be read in parts.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from flip27_source.discovery import DiscoveringEnumerator, Discovery, Page
from flip27_source.enumerator import Backlog
from flip27_source.enumerator_context import Boundedness, SplitEnumeratorContext
from flip27_source.enumerator_mixins import PerformsActions
from flip27_source.enumerators.files.cleaning import CleanFile, Cleaning, FinishedRanges
from flip27_source.enumerators.files.forgotten_files import NOT_KNOWN, forgotten
from flip27_source.enumerators.files.globs import any_name, name_test
from flip27_source.enumerators.files.known.choice import check_move, chosen_strategy, strategy_named
from flip27_source.enumerators.files.known.strategy import DiscoveryRound, FilesPosition, switched
from flip27_source.enumerators.files.left_out import FilesLeftOut
from flip27_source.enumerators.files.listing.walk import FileInfo, Lister, open_listers
from flip27_source.enumerators.files.notifications.state import DeleteMessages
from flip27_source.enumerators.files.options import (
    CLEAN_SOURCE,
    CLEAN_SOURCE_RETENTION_DURATION,
    DISCOVERY,
    FILE_NAME_ONLY,
    FILE_ORDER,
    FILES_OPTIONS,
    IGNORE_MISSING_FILES,
    INCLUDE_EXISTING_FILES,
    LATEST_FIRST,
    MAX_FILE_AGE,
    ON_LATE_FILE,
    PATH_GLOB_FILTER,
    RECURSIVE_FILE_LOOKUP,
    modified_range_us,
    paths_of,
)
from flip27_source.enumerators.files.order import put_in_order
from flip27_source.enumerators.files.sample import sample_files
from flip27_source.enumerators.files.split import SPLIT_VERSION, FileSplit
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.file_systems.file_ids import FileSplitId
from flip27_source.file_systems.moved_paths import PathRewrite, RewritesPaths
from flip27_source.options import Option, Options
from flip27_source.reader import ReadsRanges
from flip27_source.schemas.inference import SamplesSplits, SplitSample
from flip27_source.source_options import MAX_BYTES_PER_TRIGGER, MAX_FILES_PER_TRIGGER, MAX_PARTITION_BYTES

if TYPE_CHECKING:
    from flip27_source.enumerators.files.notifications.deliveries import Deliveries
    from flip27_source.enumerators.files.notifications.rounds import NotifiedDiscovery, Searches

_log = logging.getLogger("flip27_source")

_SMALLEST_RANGE_BYTES = 1024 * 1024


class FilesEnumerator(
    PerformsActions[CleanFile | DeleteMessages],
    RewritesPaths[FileSplit],
    SamplesSplits[FileSplit],
    DiscoveringEnumerator[FileSplit],
):
    """Finds the files of ``path`` that it has not seen before."""

    options: ClassVar[tuple[Option[Any], ...]] = FILES_OPTIONS
    split_version: ClassVar[int] = SPLIT_VERSION

    def __init__(
        self, context: SplitEnumeratorContext[FileSplit], options: Options, state: Any = None
    ) -> None:
        super().__init__(context, options, state)
        paths = paths_of(options)
        self._cleaning = Cleaning(options, paths)
        self.lister = open_listers(
            paths,
            options.with_prefix("storage."),
            ignore_missing=options[IGNORE_MISSING_FILES],
            may_be_emptied=self._cleaning.wanted or state is not None,
        )
        self._recursive = options[RECURSIVE_FILE_LOOKUP]
        glob = options[PATH_GLOB_FILTER]
        self._name_matches = any_name if glob is None else name_test(glob)
        self._modified_range = modified_range_us(options)
        self._max_age_us = _max_age_us(options)
        self._order, self._latest_first = options[FILE_ORDER], options[LATEST_FIRST]
        if self._latest_first and self._order != "modified":
            raise OptionError(
                "option latestFirst is true, which orders files by modification time, but fileOrder is "
                f"{self._order}",
                remedy="remove one of the two options",
            )
        self._name_only = options[FILE_NAME_ONLY]
        known: FilesPosition | None = self._position
        self._finished = FinishedRanges(() if known is None else known.partly_read)
        self._range_bytes = max(options[MAX_PARTITION_BYTES], _SMALLEST_RANGE_BYTES)
        self._strategy = chosen_strategy(options, paths)
        self._too_old = FilesLeftOut()
        self._notifications: Deliveries | None = None
        if options[DISCOVERY] == "notifications" and not context.reads_once:
            # Imported late, because most sources do not need it, and each start would take 10 ms longer.
            from flip27_source.enumerators.files.notifications.deliveries import Deliveries
            from flip27_source.enumerators.files.notifications.queues import check_options

            check_options(options, paths)
            self._notifications = Deliveries(
                context,
                options,
                self.lister,
                state=(known.notified or None) if known is not None else None,
                may_wait=bool(self._pages),
            )
        # If the query skips existing files, a restart must not also skip files that came since.
        self._start_is_unsaved = self._position is None and not options[INCLUDE_EXISTING_FILES]

    def start(self) -> None:
        """Check the path, then start to list it."""
        self.lister.check_root()
        bounded = self.context.boundedness is Boundedness.BOUNDED
        if bounded and self._position is None and not self.options_given[INCLUDE_EXISTING_FILES]:
            raise OptionError(
                "option includeExistingFiles is false, and the first run of the query ends by itself: it "
                "would skip every file that exists and read nothing",
                remedy="run the query once with a processing-time trigger, until its first batch is complete",
            )
        super().start()

    def discover(self, position: FilesPosition | None) -> Discovery[FileSplit, FilesPosition]:
        """Find files that are not in ``position``: by listing, or by the messages of queues."""
        if self._notifications is not None:
            found = self._notifications.rounds.next(position, self._searches())
            return replace(found, splits=self._split_up(list(found.splits)))
        files, after = self._listed(position)
        return Discovery(self._split_up(files), after)

    def _listed(self, position: FilesPosition | None) -> tuple[list[FileSplit], FilesPosition]:
        """The new files of a listing, and the position after it."""
        self._too_old.begin()
        current = self._round(self.lister, position)
        strategy = self._strategy
        if position is None or position.strategy == strategy.name:
            files, after = strategy.find(current, position)
        else:
            self.lister.forget()
            old = strategy_named(position.strategy, self.options_given)
            files, after = switched(old, strategy, current, position)
        if position is None and not self.options_given[INCLUDE_EXISTING_FILES]:
            _log.info("%d files existed before the first start of the query and are not read", len(files))
            files = []
        self._too_old.end()
        if strategy.goes_by_names:
            self.lister.remember(current.unsettled)
        return files, self._with_too_old(after)

    def _among(self, lister: Lister, position: FilesPosition) -> tuple[list[FileSplit], FilesPosition]:
        """The new files among those of another lister, and the position after them."""
        files, after = self._strategy.find(self._round(lister, position), position)
        return files, self._with_too_old(after)

    def _searches(self) -> Searches:
        from flip27_source.enumerators.files.notifications.rounds import Searches

        return Searches(
            unknown=lambda paths, position: self._strategy.unknown(
                self._round(self.lister, position), paths, position
            ),
            among=self._among,
            everywhere=self._listed,
            must_list=self._strategy.must_list,
        )

    def _round(self, lister: Lister, position: FilesPosition | None) -> DiscoveryRound:
        return DiscoveryRound(
            lister=lister,
            recursive=self._recursive,
            name_matches=self._name_matches,
            name_only=self._name_only,
            moves=() if position is None else position.moves,
            choose=self._chooser(position),
            on_late=self.options_given[ON_LATE_FILE],
            now_ms=time.time_ns() // 1_000_000,
        )

    def _with_too_old(self, position: FilesPosition) -> FilesPosition:
        count = self._too_old.count
        return position if position.too_old == count else replace(position, too_old=count)

    def _split_up(self, files: list[FileSplit]) -> list[FileSplit]:
        """The splits of these files, in the order in which they are read."""
        put_in_order(files, self._order, latest_first=self._latest_first)
        return [split for file in files for split in self._ranges(file)]

    def wants_checkpoint(self) -> bool:
        """True once, after the first listing, if existing files are skipped; or if messages wait for it."""
        if self._notifications is not None and self._notifications.wants_checkpoint:
            return True
        return self._start_is_unsaved and self._position is not None

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """The position with partly read files, and the pages of waiting files."""
        state = super().snapshot_state(checkpoint_id)
        if state.position is None:
            return state
        self._start_is_unsaved = False
        position = replace(state.position, partly_read=self._finished.stored())
        if self._notifications is not None:
            position = replace(position, notified=self._notifications.saved(checkpoint_id))
        return replace(state, position=position)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Delete the messages whose files are in the state of this checkpoint."""
        if self._notifications is not None:
            self._notifications.completed(checkpoint_id)

    def close(self) -> None:
        """Stop receiving messages."""
        if self._notifications is not None:
            self._notifications.close()

    @staticmethod
    def _backlog_of(splits: Sequence[FileSplit]) -> Backlog:
        ends = (split.length if split.end is None else split.end for split in splits)
        size = sum(ends) - sum(split.start for split in splits)
        return Backlog(splits=len(splits), rows=None if splits else 0, bytes=size)

    @classmethod
    def sample_splits(cls, options: Options, count: int) -> SplitSample[FileSplit]:
        """A sample of the files that exist now."""
        return sample_files(options, count)

    @classmethod
    def rewrite_split(cls, split: FileSplit, rewrite: PathRewrite) -> FileSplit:
        """The file at its new path."""
        return replace(split, path=rewrite.now(split.path))

    @classmethod
    def rewrite_state(cls, state: Any, rewrite: PathRewrite, options: Options) -> Any:
        """The state with waiting files at their new paths; read files stay known by their old paths."""
        state = cls.with_splits_changed(state, lambda split: cls.rewrite_split(split, rewrite))
        position: FilesPosition | None = state.position
        if position is None:
            return state
        check_move(position, rewrite, paths_of(options))
        return replace(state, position=position.moved(rewrite))

    @classmethod
    def forget_splits(
        cls, state: Any, split_ids: Collection[str], *, busy: Sequence[FileSplit], options: Options
    ) -> tuple[Any, Mapping[str, str]]:
        """The state without these files; a range of a file means the whole file."""
        if state.position is None:
            return state, dict.fromkeys(split_ids, NOT_KNOWN)
        paths = {split.path for split in busy}
        position, kept = forgotten(state.position, split_ids, busy=paths, name_only=options[FILE_NAME_ONLY])
        return replace(state, position=position), kept

    @classmethod
    def concerned(
        cls, actions: Sequence[CleanFile | DeleteMessages], split_ids: Collection[str]
    ) -> Sequence[bool]:
        """For each action, True if its file is read again; messages are not read again."""
        paths = {FileSplitId.parse(split_id).path for split_id in split_ids}
        return [isinstance(action, CleanFile) and action.path in paths for action in actions]

    @classmethod
    def action_delay_s(cls, options: Options) -> float | None:
        """How long files stay after they were read; None if no files are cleaned."""
        return None if options[CLEAN_SOURCE] == "off" else options[CLEAN_SOURCE_RETENTION_DURATION]

    @classmethod
    def wants_finished_splits(cls, options: Options) -> bool:
        """True if files are cleaned; otherwise a restart need not read the last plan."""
        return options[CLEAN_SOURCE] != "off"

    def notify_splits_finished(self, checkpoint_id: int, splits: Sequence[FileSplit]) -> None:
        """Schedule the cleaning of files that were read to their end."""
        for split in splits:
            if self._finished.completes(split):
                action = self._cleaning.action_for(split)
                self.context.perform_after_completion(action, delayed=self._cleaning.waits)

    def perform(self, action: CleanFile | DeleteMessages) -> None:
        """Archive or delete a file if it has not changed since it was read; or delete messages."""
        if isinstance(action, CleanFile):
            self._cleaning.perform(action)
        elif self._notifications is not None and self._notifications.has_queue(action.queue):
            self._notifications.delete(action)
        else:
            from flip27_source.enumerators.files.notifications.deliveries import delete_messages

            delete_messages(action, self.options_given)

    def _discovered(
        self, found: Discovery[FileSplit, FilesPosition] | None, error: BaseException | None
    ) -> None:
        super()._discovered(found, error)
        if self._notifications is not None and found is not None:
            notified = cast("NotifiedDiscovery", found)
            self._notifications.delivered(notified, self._drop(notified.gone))
            self._publish()

    def _drop(self, gone: Collection[str]) -> list[FileSplit]:
        """Remove waiting files of which nothing was read; returns their first ranges."""
        if not gone:
            return []
        dropped = {
            split.path: split
            for page in self._pages
            for split in page.splits[page.taken :]
            if split.start == 0 and split.path in gone
        }
        if dropped:
            left = (
                [split for split in page.splits[page.taken :] if split.path not in dropped]
                for page in self._pages
            )
            self._pages = deque(Page(splits) for splits in left if splits)
        return list(dropped.values())

    def _publish(self) -> None:
        super()._publish()
        position: FilesPosition | None = self._position
        if position is None:
            return
        for name, number in (
            ("filesTooOld", position.too_old),
            ("filesLate", position.late),
            ("filesOverwritten", position.overwritten),
        ):
            if number:
                self.context.metrics.gauge(name, number)
        if self._notifications is not None:
            self._notifications.rounds.may_wait = any(page.left for page in self._pages)
            for name, number in self._notifications.state.gauges.items():
                self.context.metrics.gauge(name, number)

    def _chooser(self, position: FilesPosition | None) -> Callable[[str, FileInfo], FileSplit | None]:
        """A function that returns the split of a file, or None if its modification time excludes it."""
        oldest_us = float("-inf")
        if self._max_age_us is not None and position is not None:
            oldest_us = position.newest_us - self._max_age_us
        # The ETag is kept only where a file is checked again after it was discovered.
        keeps_etag = self._cleaning.wanted or self.context.reader_type.reads_later
        checks_time = self._modified_range is not None

        def choose(path: str, found: FileInfo) -> FileSplit | None:
            modified_us = found.modified_us
            if checks_time and not self._is_in_time(path, modified_us):
                return None
            if modified_us < oldest_us:
                self._leave_out(path)
                return None
            etag = (found.etag or None) if keeps_etag else None
            return FileSplit(path=path, length=found.length, modified_us=modified_us, etag=etag)

        return choose

    def _leave_out(self, path: str) -> None:
        if self._too_old.is_new(path):
            _log.warning("%s is older than maxFileAge and is not read", path)

    def _is_in_time(self, path: str, modified_us: int) -> bool:
        if self._modified_range is None:
            return True
        if modified_us == 0:
            raise DiscoveryError(
                f"the file system does not report the modification time of {path}",
                remedy="remove the options modifiedAfter and modifiedBefore",
            )
        return self._modified_range[0] < modified_us < self._modified_range[1]

    def _ranges(self, file: FileSplit) -> Iterator[FileSplit]:
        reader = self.context.reader_type
        if (
            file.length <= self._range_bytes
            or not issubclass(reader, ReadsRanges)
            or not reader.can_read_ranges(file.path, self.options_given)
        ):
            yield file
            return
        count = -(-file.length // self._range_bytes)
        bounds = [file.length * i // count for i in range(count)]
        for start, end in zip(bounds, [*bounds[1:], None], strict=True):
            yield replace(file, start=start, end=end)


def _max_age_us(options: Options) -> float | None:
    age_s = options[MAX_FILE_AGE]
    limited = options[MAX_FILES_PER_TRIGGER] is not None or options[MAX_BYTES_PER_TRIGGER] is not None
    if age_s is None or (options[LATEST_FIRST] and limited):
        return None
    return age_s * 1_000_000
