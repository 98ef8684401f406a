"""The options of the files enumerator and the parsers of their texts."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from flip27_source.enumerators.files.time_pattern import TimePattern
from flip27_source.errors import OptionError
from flip27_source.event_time import microseconds_of
from flip27_source.file_systems.paths import location, with_lower_scheme
from flip27_source.options import (
    FirstStartOption,
    NextBatchOption,
    Option,
    Options,
    ReadingOption,
    boolean,
    duration_s,
    moment,
    one_of,
    optional,
    texts,
)
from flip27_source.source_options import PATH, TIME_ZONE
from flip27_source.time_zones import java_zone
from flip27_source.values.times import in_utc


def _paths(value: str) -> tuple[str, ...]:
    paths = texts(value)
    if not all(paths) or not paths:
        raise ValueError('paths are expected: /landing/a, /landing/b or ["/landing/a", "/landing/b"]')
    return paths


def _queues(value: str) -> tuple[str, ...]:
    urls = tuple(dict.fromkeys(texts(value)))
    if not urls:
        raise ValueError("URLs of queues are expected, separated by commas")
    for url in urls:
        server = urlsplit(url)
        if not (server.scheme in ("http", "https") and server.netloc and server.path.strip("/")):
            raise ValueError(
                "a URL such as https://sqs.eu-west-1.amazonaws.com/123456789012/files is expected"
            )
        if server.query or server.fragment or "@" in server.netloc:
            raise ValueError("a URL without credentials is expected: give them as storage.* options")
    return urls


def _bucket_width_s(value: str) -> float:
    seconds = duration_s(value)
    if seconds < 0.001:
        raise ValueError("a duration of at least a millisecond is expected, such as 1h")
    return seconds


def _visibility_timeout_s(value: str) -> float:
    seconds = duration_s(value)
    if not 1 <= seconds <= 43_200:
        raise ValueError("a duration from 1 second to 12 hours is expected")
    return seconds


PATHS: Option[tuple[str, ...] | None] = ReadingOption(
    name="paths",
    parse=optional(_paths),
    doc="Several paths or globs, in addition to path or instead of it: separated by commas, or as a JSON "
    "list if one contains a comma. A file that matches several paths is read once.",
    change_note="its splits stay, partition columns are counted from the new path; refused after a cursor",
    names_data=True,
)
PATH_GLOB_FILTER: Option[str | None] = NextBatchOption(
    name="pathGlobFilter",
    doc="Read only files whose name matches this glob (*, ?, [a-z], {a,b}).",
    names_data=True,
    change_note="refused after a cursor",
)
RECURSIVE_FILE_LOOKUP: Option[bool] = ReadingOption(
    name="recursiveFileLookup",
    parse=boolean,
    doc="Also read the files of all directories below the path.",
    change_note="true: its files have no partition columns; refused after a cursor",
)
MODIFIED_AFTER: Option[datetime | None] = NextBatchOption(
    name="modifiedAfter",
    parse=optional(moment),
    doc="Read only files modified after this time: 2026-01-31T00:00:00Z, or without an offset in timeZone.",
)
MODIFIED_BEFORE: Option[datetime | None] = NextBatchOption(
    name="modifiedBefore",
    parse=optional(moment),
    doc="Read only files modified before this time: 2026-01-31T00:00:00Z, or without an offset in timeZone.",
)
MAX_FILE_AGE: Option[float | None] = NextBatchOption(
    name="maxFileAge",
    parse=optional(duration_s),
    default_text="not set: no limit",
    doc="A file that is found after the first listing is skipped if it is older than the newest known file "
    "by more than this. Skipped files are counted (filesTooOld) and named in the log. As in Spark, "
    "ignored with latestFirst and maxFilesPerTrigger or maxBytesPerTrigger.",
)
FILE_ORDER: Option[str] = NextBatchOption(
    name="fileOrder",
    parse=one_of("modified", "name", "size"),
    doc="Order in which the files of one listing are read: oldest first, by path, or smallest first. Files "
    "that tie are read in the order of their paths.",
)
EVENT_TIME_PATTERN: Option[TimePattern | None] = NextBatchOption(
    name="eventTimePattern",
    parse=optional(TimePattern.parse),
    doc="eventTimeOrder: the date in the path of each file, which tells the event times of its rows: "
    "dt=%Y-%m-%d/hour=%H. %Y %m %d %H %M %S, from the year to the smallest unit; * is any text without a "
    "slash. Times are in timeZone, or in UTC. A file without such a date, or with several, stops the query.",
    change_note="the times of files that wait are found again",
)
EVENT_TIME_BUCKET: Option[float | None] = NextBatchOption(
    name="eventTimeBucket",
    parse=optional(_bucket_width_s),
    doc="eventTimeOrder: a file whose times are in several buckets of this width, such as 1h, is read once "
    "for each of them, so that the smallest watermark delay is about a bucket. eventTimeColumn tells which "
    "rows are in a bucket. Needs the reader parquet or orc.",
    change_note="buckets that wait stay",
)
LATEST_FIRST: Option[bool] = NextBatchOption(
    name="latestFirst",
    parse=boolean,
    doc="Read the newest files first: files that are found later are read before older files that still "
    "wait.",
)
FILE_NAME_ONLY: Option[bool] = FirstStartOption(
    name="fileNameOnly",
    parse=boolean,
    doc="Identify a file only by its name: a file with the same name in another directory counts as the "
    "same file and is not read.",
)
INCLUDE_EXISTING_FILES: Option[bool] = FirstStartOption(
    name="includeExistingFiles",
    parse=boolean,
    default=True,
    doc="false: files that exist when the query is first started are not read. The first batch records "
    "which files these are. The first run cannot be one that ends by itself (availableNow).",
)
IGNORE_MISSING_FILES: Option[bool] = ReadingOption(
    name="ignoreMissingFiles",
    parse=boolean,
    doc="A path that does not exist has no files. A planned file that no longer exists, in a path that does, "
    "has no rows, is counted (ignoredSplits) and listed in the state. By default, both cases stop the query.",
)
SEEN_FILES: Option[str] = NextBatchOption(
    name="seenFiles",
    parse=one_of("exact", "nameCursor", "modifiedCursor"),
    doc="Which files are new. exact: every unknown file is new; 16 bytes of state for each file. nameCursor: "
    "files that sort after the last known path are new; each new file's path has to sort after all earlier "
    "paths. modifiedCursor: modification times increase, within allowedLateness. You may change the option "
    "at a restart: no file is read again. path, paths, recursiveFileLookup and pathGlobFilter can be changed "
    "only after a batch with exact.",
)
ALLOWED_LATENESS: Option[float] = NextBatchOption(
    name="allowedLateness",
    parse=duration_s,
    default_text="1 hour",
    doc="seenFiles=modifiedCursor: how much older than the newest file a file may be before it counts as "
    "late.",
)
BACKFILL_INTERVAL: Option[float | None] = NextBatchOption(
    name="backfillInterval",
    parse=lambda value: None if value.strip().lower() == "off" else duration_s(value),
    default_text="1 day",
    doc="seenFiles=nameCursor: how often all files are listed to find late files; off: never. "
    "discovery=notifications: how often all files are listed to find files that no message has "
    "named; off: only when the query is started.",
)
DISCOVERY: Option[str] = NextBatchOption(
    name="discovery",
    parse=one_of("listing", "notifications"),
    doc="How new files are found. listing: the path is listed in every round. notifications: by the messages "
    "of notificationQueues, and by a listing at each start and every backfillInterval. You may change the "
    "option at a restart. A batch read always lists.",
)
NOTIFICATION_QUEUES: Option[tuple[str, ...] | None] = NextBatchOption(
    name="notificationQueues",
    parse=optional(_queues),
    doc="discovery=notifications: the URLs of the queues that get the events of the files, separated by "
    "commas. Set the credentials with the storage.* options.",
)
NOTIFICATION_SERVICE: Option[str | None] = NextBatchOption(
    name="notificationService",
    default_text="by the path: sqs for s3://, azureQueue for abfs://",
    doc="discovery=notifications: the service of the queues: sqs, azureQueue, or package.module:Class of "
    "your own NotificationQueue.",
)
NOTIFICATION_VISIBILITY_TIMEOUT: Option[float] = NextBatchOption(
    name="notificationVisibilityTimeout",
    parse=_visibility_timeout_s,
    default_text="5 minutes",
    doc="discovery=notifications: how long a received message stays hidden from other readers of its queue "
    "after the driver has died. While the driver lives, the time is extended.",
)
ON_LATE_FILE: Option[str] = NextBatchOption(
    name="onLateFile",
    parse=one_of("fail", "report", "read"),
    doc="What to do with a file that appears behind a cursor: fail the query, report the file (filesLate, "
    "its name in the state and the log) and skip it, or report and read it.",
)
ALLOW_OVERWRITES: Option[bool] = NextBatchOption(
    name="allowOverwrites",
    parse=boolean,
    doc="Read a file again when its size, modification time or ETag has changed, count it "
    "(filesOverwritten) and name it in the log. By default a path is read once.",
)
CLEAN_SOURCE: Option[str] = ReadingOption(
    name="cleanSource",
    parse=one_of("off", "archive", "delete"),
    doc="What to do with a file after the batch that read its last part is complete: keep it, move it below "
    "sourceArchiveDir, or delete it. A file that has changed since it was found stays, and so does a file of "
    "which any part was read while the option was off.",
    change_note="its files are cleaned by the new value",
)
CLEAN_SOURCE_RETENTION_DURATION: Option[float] = ReadingOption(
    name="cleanSource.retentionDuration",
    parse=duration_s,
    default=0.0,
    default_text="0: at once",
    doc="cleanSource=archive, delete: how long a file stays after the batch that read its last part is "
    "complete, such as 30 days. You may change the option at a restart; it then applies to all waiting "
    "files.",
    change_note="for its files and those that wait",
)
SOURCE_ARCHIVE_DIR: Option[str | None] = ReadingOption(
    name="sourceArchiveDir",
    parse=optional(location),
    doc="The directory below which cleanSource=archive moves files; they keep their whole path. It must be "
    "on the same kind of file system as the path, and not in a directory that the source reads.",
    change_note="for its files and those that wait",
)


def paths_of(options: Options) -> tuple[str, ...]:
    """The paths of ``path`` and ``paths``; at least one."""
    more = options[PATHS] or ()
    if options[PATH] is not None or not more:
        more = (options.require(PATH, why="the files enumerator reads a directory"), *more)
    return tuple(dict.fromkeys(map(with_lower_scheme, more)))


def modified_range_us(options: Options) -> tuple[float, float] | None:
    """The range of modification times to read, in microseconds since the epoch; None for no limit."""
    if options[MODIFIED_AFTER] is None and options[MODIFIED_BEFORE] is None:
        return None
    return _epoch_us(options, MODIFIED_AFTER, float("-inf")), _epoch_us(
        options, MODIFIED_BEFORE, float("inf")
    )


def _epoch_us(options: Options, option: Option[datetime | None], default: float) -> float:
    time, zone = options[option], options[TIME_ZONE]
    if time is None:
        return default
    if time.tzinfo is None and zone is None:
        raise OptionError(
            f"option {option.name} is {time.isoformat()}, without a time zone, and Spark does not tell a "
            "source in Python the zone of the session",
            remedy=f"write {time.isoformat()}Z, or another offset such as +01:00, or set timeZone",
        )
    return microseconds_of(in_utc(time, None if zone is None else java_zone(zone)))


FILES_OPTIONS: tuple[Option[Any], ...] = (
    PATHS, PATH_GLOB_FILTER, RECURSIVE_FILE_LOOKUP, MODIFIED_AFTER, MODIFIED_BEFORE, MAX_FILE_AGE, FILE_ORDER,
    EVENT_TIME_PATTERN, EVENT_TIME_BUCKET, LATEST_FIRST, FILE_NAME_ONLY, INCLUDE_EXISTING_FILES,
    IGNORE_MISSING_FILES, SEEN_FILES, ALLOWED_LATENESS, BACKFILL_INTERVAL, DISCOVERY, NOTIFICATION_QUEUES,
    NOTIFICATION_SERVICE, NOTIFICATION_VISIBILITY_TIMEOUT, ON_LATE_FILE, ALLOW_OVERWRITES, CLEAN_SOURCE,
    CLEAN_SOURCE_RETENTION_DURATION, SOURCE_ARCHIVE_DIR,
)  # fmt: skip
