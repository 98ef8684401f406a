"""The files enumerator: finds new files in directories, on local disk or any fsspec file system.

A file is identified by its path. Files are assigned oldest first. A new large file is cut into ranges if its
format can be read in parts.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec

from flip27_source.discovery import DiscoveringEnumerator, Discovery, Page
from flip27_source.enumerator import Backlog, SourceEnd
from flip27_source.enumerator_context import Boundedness, RetryPolicy, SplitEnumeratorContext
from flip27_source.enumerator_mixins import ForgetsSplits, PerformsActions, SplitRange
from flip27_source.enumerators.files import options as opts
from flip27_source.enumerators.files.before_start import check_paths, reader_of_files
from flip27_source.enumerators.files.cleaning import CleanFile, Cleaning, FinishedRanges, PartlyRead
from flip27_source.enumerators.files.event_times import EventTimes, in_buckets
from flip27_source.enumerators.files.forgotten_files import (
    NOT_KNOWN,
    after_notifications,
    forgotten,
    found_again,
)
from flip27_source.enumerators.files.notifications.state import DeleteMessages, RemovedFile
from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.enumerators.files.readers_by_name import check_reader
from flip27_source.enumerators.files.search import FileSearch, sample_files
from flip27_source.enumerators.files.seen_files.choice import check_listed, check_move
from flip27_source.enumerators.files.split import SPLIT_VERSION, FileSplit
from flip27_source.enumerators.files.time_pattern import TimePattern, ends_a_day
from flip27_source.errors import OptionError
from flip27_source.file_systems.file_ids import ALL_TIMES, FileSplitId
from flip27_source.file_systems.moved_paths import PathRewrite, RewritesPaths
from flip27_source.leftovers import LeavesThings, Leftover
from flip27_source.options import Option, Options
from flip27_source.reader import ReadsRanges
from flip27_source.schemas.inference import SamplesSplits
from flip27_source.source_checks import ChecksBeforeStart, ChoosesReader
from flip27_source.source_options import (
    DISCOVERY_RETRIES,
    EVENT_TIME_ORDER,
    MAX_PARTITION_BYTES,
    READER_BY_NAMES,
    TIME_ZONE,
)
from flip27_source.source_progress import ProgressTable
from flip27_source.time_zones import java_zone

if TYPE_CHECKING:
    from flip27_source.enumerators.files.notifications.deliveries import Deliveries
    from flip27_source.enumerators.files.notifications.rounds import NotifiedDiscovery

_SMALLEST_RANGE_BYTES = 1024 * 1024
_ORDERS: dict[str, Callable[[FileSplit], Any]] = {
    "modified": lambda file: (file.modified_us, file.path),
    "name": lambda file: file.path,
    "size": lambda file: (file.length, file.path),
}


class FilesEnumerator(
    PerformsActions[CleanFile | DeleteMessages],
    ForgetsSplits,
    RewritesPaths[FileSplit],
    SamplesSplits[FileSplit],
    LeavesThings,
    ChoosesReader,
    ChecksBeforeStart,
    DiscoveringEnumerator[FileSplit],
):
    """Finds the files of ``path`` that it has not seen before."""

    options: ClassVar[tuple[Option[Any], ...]] = opts.FILES_OPTIONS
    split_version: ClassVar[int] = SPLIT_VERSION
    sample_splits = staticmethod(sample_files)
    leaves: ClassVar[Sequence[str]] = ("queue",)

    @classmethod
    def leftovers(cls, options: Options, state: Any) -> Iterator[Leftover]:
        from flip27_source.enumerators.files.notifications.leftovers import leftovers_of

        return leftovers_of(options, state)

    choose_reader = staticmethod(reader_of_files)
    check_before_start = staticmethod(check_paths)

    def __init__(
        self, context: SplitEnumeratorContext[FileSplit], options: Options, state: Any = None
    ) -> None:
        super().__init__(context, options, state)
        self._cleaning = Cleaning(options, opts.paths_of(options))
        self.search = FileSearch(
            options,
            may_be_emptied=self._cleaning.is_on or state is not None,
            keeps_etag=self._cleaning.is_on or context.reader_type.reads_later,
            times=None if context.reads_once else EventTimes.of(options, context.reader_type),
        )
        self._order, self._latest_first = options[opts.FILE_ORDER], options[opts.LATEST_FIRST]
        position: FilesPosition | None = self._position
        # Files that were found without event times, or with others, are not assigned before they have them.
        self._waits_for_times = bool(self._pages) and not self._has_times(position)
        self._waits_to_be_cut = bool(self._pages)
        self._in_buckets = position is not None and bool(position.in_buckets)
        self._finished = FinishedRanges(() if position is None else position.partly_read)
        self._range_bytes = max(options[MAX_PARTITION_BYTES], _SMALLEST_RANGE_BYTES)
        self._notifications: Deliveries | None = None
        if options[opts.DISCOVERY] == "notifications" and not context.reads_once:
            # Imported late, because most sources do not need it, and each start would take 10 ms longer.
            from flip27_source.enumerators.files.notifications.deliveries import Deliveries

            self._notifications = Deliveries(
                context,
                options,
                self.search,
                state=(position.notified or None) if position is not None else None,
                may_wait=bool(self._pages),
            )
        # Saved at once: a restart must not skip files or overwrites that came since, and ends what a cursor
        # has fixed.
        strategy = options[opts.SEEN_FILES] if options[opts.INCLUDE_EXISTING_FILES] else ""
        self._saved_strategy = strategy, bool(options[opts.ALLOW_OVERWRITES])
        if position is not None:
            check_listed(position, options)
            self._saved_strategy = _strategy_of(position)

    def start(self) -> None:
        self.search.listing.lister.check_root()
        bounded = self.context.boundedness is Boundedness.BOUNDED
        if bounded and self._position is None and not self.options_given[opts.INCLUDE_EXISTING_FILES]:
            raise OptionError(
                "option includeExistingFiles is false, and the first run of the query ends by itself: it "
                "would skip every file that exists and read nothing",
                remedy="run the query once with a processing-time trigger, until its first batch is complete",
            )
        super().start()
        if self._waits_for_times and self.search.times is not None:
            work = functools.partial(self.search.times.timed, self._waiting_splits())
            retry = RetryPolicy(retries=self.options_given[DISCOVERY_RETRIES])
            self.context.call_async(work, self._timed, retry=retry)

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign the first file in the queue, once the event times of all files in it are known."""
        if not self._waits_for_times:
            self._cut_waiting()
            super().handle_split_request(subtask_id)

    def _waiting_in_order(self) -> Iterator[FileSplit]:
        if self._waits_for_times:
            return iter(())
        self._cut_waiting()
        return super()._waiting_in_order()

    def discover(self, position: FilesPosition | None) -> Discovery[FileSplit, FilesPosition]:
        """Find files that are not in ``position``: by listing, or by the messages of queues."""
        if self._notifications is None:
            position = after_notifications(position, name_only=self.options_given[opts.FILE_NAME_ONLY])
            discovery = Discovery(*self.search.everywhere(position))
        else:
            discovery = self._notifications.rounds.next(position)
        files = sorted(discovery.splits, key=_ORDERS[self._order], reverse=self._latest_first)
        return replace(discovery, splits=[split for file in files for split in self._parts(file)])

    def look(self, live: Sequence[Any]) -> Iterator[ProgressTable]:
        """What a listing finds; messages of a queue stay for the query."""
        self._notifications = None
        return super().look(live)

    def wants_checkpoint(self) -> bool:
        """True after the first listing with another strategy or without existing files; or for messages.

        Whether versions are kept (``allowOverwrites``) is a part of the strategy.
        """
        if self._notifications is not None and self._notifications.wants_checkpoint:
            return True
        return self._position is not None and _strategy_of(self._position) != self._saved_strategy

    def snapshot_state(self, checkpoint_id: int) -> Any:
        state = super().snapshot_state(checkpoint_id)
        if state.position is None:
            return state
        self._saved_strategy = _strategy_of(state.position)
        in_buckets: Any = self._in_buckets or msgspec.UNSET
        position = replace(state.position, partly_read=self._finished.stored(), in_buckets=in_buckets)
        if self._waits_for_times:
            position = replace(position, times_by=msgspec.UNSET)
        elif self.search.times is not None:
            # The position is that of an earlier run until files have been listed.
            position = replace(position, times_by=self.search.times.known_by)
        if self._notifications is not None:
            position = replace(position, notified=self._notifications.saved(checkpoint_id))
        return replace(state, position=position)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Delete the messages whose files are in the state of this checkpoint."""
        if self._notifications is not None:
            self._notifications.completed(checkpoint_id)

    def _has_times(self, position: FilesPosition | None) -> bool:
        """Whether the waiting files of a state have the event times that the options choose."""
        return (
            self.search.times is None or position is None or position.times_by == self.search.times.known_by
        )

    def _timed(self, files: list[FileSplit] | None, error: BaseException | None) -> None:
        """Files that waited at the start of the run have their event times."""
        if files is None:
            raise self._not_discovered(error)
        times = {file.split_id: file.event_time for file in files}
        self._waits_for_times = False
        self._sort_waiting(lambda file: replace(file, event_time=times.get(file.split_id, file.event_time)))

    @classmethod
    def left_at_end(cls, options: Options) -> tuple[str, str] | None:
        if options[opts.DISCOVERY] != "notifications":
            return None
        return "messages that come while it is read are left for a later run", "set its discovery to listing"

    @classmethod
    def starts_now(cls, start_options: Mapping[str, str]) -> bool:
        return start_options.get(opts.INCLUDE_EXISTING_FILES.name, "true").strip().lower() == "false"

    @classmethod
    def switch_kind(cls, options: Options) -> str | None:
        return "time" if options[EVENT_TIME_ORDER] else None

    def switch_position(self, end: SourceEnd[FileSplit]) -> dt.datetime | str | None:
        """The largest event time; of times in paths, the start of the last span, which may be incomplete.

        So may be the last date of a column of dates, which stands for all times of that day.
        """
        if end.last is None:
            return None
        zone = java_zone(self.options_given[TIME_ZONE] or "UTC")
        pattern = self.options_given[opts.EVENT_TIME_PATTERN]
        if pattern is None and ends_a_day(end.last, zone):
            pattern = TimePattern.parse("%Y-%m-%d")
        return end.last.latest if pattern is None else pattern.start_of(end.last, zone)

    def _cut_waiting(self) -> None:
        """Cut whole files that wait since an earlier run, which had wider buckets or none.

        Not before the first planning: only then is it certain that the run continues from its state.
        """
        waits, self._waits_to_be_cut = self._waits_to_be_cut, False
        if not waits or self.search.times is None or self.options_given[opts.EVENT_TIME_BUCKET] is None:
            return
        for page in self._pages:
            left = page.splits[page.taken :]
            parts = [in_buckets(one, self.options_given) if one.is_whole else [] for one in left]
            if any(parts):
                cut = (part for one, own in zip(left, parts, strict=True) for part in own or [one])
                page.replace(self._in_order(list(cut)))
                self._waiting_changes += 1
                self._in_buckets = True

    def close(self) -> None:
        if self._notifications is not None:
            self._notifications.close()

    @classmethod
    def _has_buckets(cls, state: Any) -> bool:
        return state.position is not None and bool(state.position.in_buckets)

    @staticmethod
    def _backlog_of(splits: Sequence[FileSplit]) -> Backlog:
        size = sum(split.known_end - split.start for split in splits)
        return Backlog(splits=len(splits), rows=None if splits else 0, bytes=size)

    @classmethod
    def rewrite_split(cls, split: FileSplit, rewrite: PathRewrite) -> FileSplit:
        path = rewrite.now(split.path)
        return split if path == split.path else replace(split, path=path, moved=True)

    @classmethod
    def rewrite_state(cls, state: Any, rewrite: PathRewrite, options: Options) -> Any:
        """The state with waiting files at their new paths; read files stay known by their old paths."""
        state = cls.with_splits_changed(state, lambda split: cls.rewrite_split(split, rewrite))
        position: FilesPosition | None = state.position
        if position is None:
            return state
        check_move(position, rewrite, opts.paths_of(options))
        return replace(state, position=position.moved(rewrite))

    @classmethod
    def found_again(cls, state: Any, splits: Sequence[FileSplit], *, options: Options) -> Mapping[str, str]:
        if state.position is None:
            return dict.fromkeys((split.split_id for split in splits), "")
        return found_again(state.position, splits, options)

    @classmethod
    def forget_splits(
        cls, state: Any, split_ids: Collection[str], *, busy: Sequence[FileSplit], options: Options
    ) -> tuple[Any, Mapping[str, str]]:
        """The state without these files; a range of a file means the whole file."""
        if state.position is None:
            return state, dict.fromkeys(split_ids, NOT_KNOWN)
        paths = {split.path for split in busy}
        name_only = options[opts.FILE_NAME_ONLY]
        position, refused = forgotten(state.position, split_ids, busy=paths, name_only=name_only)
        return replace(state, position=position), refused

    @classmethod
    def range_of(cls, split: FileSplit) -> SplitRange:
        part = split.file_id.part
        if split.bucket:
            return split.path, *part, "time"
        return split.path, *(ALL_TIMES if split.is_whole else part)

    @classmethod
    def concerned(
        cls, actions: Sequence[CleanFile | DeleteMessages], split_ids: Collection[str]
    ) -> Sequence[bool]:
        """For each action, True if its file is read again; messages are not read again."""
        ids = [FileSplitId.parse(split_id) for split_id in split_ids]
        # An id may be a path, and never means a version or range of a file that was read as a whole.
        whole = {*split_ids, *(item.path for item in ids if item == FileSplitId(path=item.path))}
        paths = {*whole, *(item.path for item in ids)}
        names = {path.rpartition("/")[2] for path in paths}

        def is_of(file: CleanFile) -> bool:
            if file.name_only:
                return file.path.rpartition("/")[2] in names
            return file.path in (whole if file.is_whole else paths)

        return [isinstance(action, CleanFile) and is_of(action) for action in actions]

    @classmethod
    def not_finished(
        cls, state: Any, split_ids: Collection[str], dropped: Sequence[CleanFile | DeleteMessages]
    ) -> Any:
        """The state without these ranges of large files: a file is cleaned after all were read again."""
        if state.position is None:
            return state
        again: dict[str, list[FileSplitId]] = {}
        for item in map(FileSplitId.parse, split_ids):
            again.setdefault(item.path, []).append(item)
        completed = (PartlyRead.of(file) for file in dropped if isinstance(file, CleanFile))
        read = (*state.position.partly_read, *(item for item in completed if item.path in again))
        left = tuple(kept for item in read if (kept := item.without(again.get(item.path, ()))).ranges)
        return replace(state, position=replace(state.position, partly_read=left))

    @classmethod
    def action_delay_s(cls, options: Options) -> float | None:
        """How long files stay after they were read; None if no files are cleaned."""
        return None if options[opts.CLEAN_SOURCE] == "off" else options[opts.CLEAN_SOURCE_RETENTION_DURATION]

    @classmethod
    def wants_finished_splits(cls, options: Options) -> bool:
        """True if files are cleaned; otherwise a restart need not read the last plan."""
        return options[opts.CLEAN_SOURCE] != "off"

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
        elif self._notifications is None or not self._notifications.delete(action):
            from flip27_source.enumerators.files.notifications.queues import delete_messages, open_queue

            delete_messages(open_queue(action.queue, self.options_given), action.receipts)

    def _discovered(
        self, found: Discovery[FileSplit, FilesPosition] | None, error: BaseException | None
    ) -> None:
        by_names = self.options_given[READER_BY_NAMES]
        if by_names is not None and found is not None:
            # Here, where an error ends the run: discovery would be repeated without the messages of queues.
            check_reader((split.path for split in found.splits), by_names)
        if found is not None and not self._in_buckets:
            self._in_buckets = any(split.bucket for split in found.splits)
        super()._discovered(found, error)
        if self._notifications is not None and found is not None:
            notified = cast("NotifiedDiscovery", found)
            self._notifications.delivered(notified, self._drop(notified.gone))
            self._publish()

    def _drop(self, gone: Collection[str]) -> list[RemovedFile]:
        """Remove waiting files of which nothing was read; returns their versions."""
        if not gone:
            return []
        dropped = {
            (split.path, split.version): RemovedFile(
                path=split.path, length=split.length, version=split.version
            )
            for page in self._pages
            for split in page.splits[page.taken :]
            if split.is_first and split.path in gone
        }
        if dropped:
            left = (
                [s for s in page.splits[page.taken :] if (s.path, s.version) not in dropped]
                for page in self._pages
            )
            self._pages = deque(Page(splits) for splits in left if splits)
            self._waiting_changes += 1
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

    def _parts(self, file: FileSplit) -> Sequence[FileSplit]:
        return in_buckets(file, self.options_given) or list(self._ranges(file))

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


def _strategy_of(position: FilesPosition) -> tuple[str, bool]:
    return position.strategy, position.versions is not None
