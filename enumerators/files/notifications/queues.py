"""Opens the queues of a source, and refuses options that notifications cannot work with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flip27_source.enumerators.files import options as opts
from flip27_source.errors import OptionError, said_of
from flip27_source.log import LOG
from flip27_source.notifications import NotificationQueue
from flip27_source.options import Options
from flip27_source.registry import find_notification_queue
from flip27_source.source_options import STATE_LOCATION

SCHEMES = {"sqs": ("s3", "s3a"), "azurequeue": ("abfs", "abfss", "az", "wasb", "wasbs")}
"""The schemes of the paths for which a built-in service has events."""


def service_of(options: Options) -> str:
    """The service that the options name, or the one that has events for the path."""
    given = options[opts.NOTIFICATION_SERVICE]
    if given is not None:
        return given
    scheme = opts.paths_of(options)[0].partition("://")[0]
    return next((name for name, schemes in SCHEMES.items() if scheme in schemes), "sqs")


def open_queue(url: str, options: Options) -> NotificationQueue:
    return find_notification_queue(service_of(options))(url, options)


def delete_messages(queue: NotificationQueue, receipts: Sequence[str]) -> None:
    """Delete messages. Messages that cannot be deleted are delivered again, and are recognised."""
    try:
        queue.delete(receipts)
    except Exception as error:  # noqa: BLE001 - of any service
        LOG.warning(
            "%d messages could not be deleted and will be delivered again: %s", len(receipts), said_of(error)
        )


def checked_queues(options: Options) -> Mapping[str, NotificationQueue]:
    """The queues of the source, by their URLs; refuses options that notifications cannot work with."""
    _check_options(options)
    urls = options.require(
        opts.NOTIFICATION_QUEUES, why="discovery=notifications reads the events of files there"
    )
    return {url: open_queue(url, options) for url in urls}


def _check_options(options: Options) -> None:
    options.require(
        STATE_LOCATION,
        why="discovery=notifications deletes messages once their files are in the state, which grows too "
        "large for Spark's offsets",
    )
    if options[opts.SEEN_FILES] != "exact":
        raise OptionError(
            f"option seenFiles is {options[opts.SEEN_FILES]}, but discovery is notifications: messages come "
            "out of order, so files would count as late",
            remedy="set seenFiles=exact; its state is 16 bytes for each file",
        )
    service = service_of(options).lower()
    schemes = SCHEMES.get(service, ())
    for path in opts.paths_of(options):
        if schemes and path.partition("://")[0] not in schemes:
            raise OptionError(
                f"path {path} has no events in {service}: its events are only about {schemes[0]}://",
                remedy="set discovery=listing, or notificationService to one that has events of this path",
            )
