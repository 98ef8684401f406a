"""Checks of queues: their messages can be received, kept hidden and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from flip27_source.enumerators.files.notifications.queues import check_options, checked_queues, is_notified
from flip27_source.enumerators.files.options import paths_of
from flip27_source.errors import Flip27Error
from flip27_source.notifications import NotificationQueue
from flip27_source.options import Options
from flip27_source.source_checks import Finding, ok

from .findings import failure, finding_of

CHECK = "queue"
_NO_RECEIPT = "flip27 check"


def queues(options: Options) -> Iterator[Finding]:
    """Check each queue of a files source; no message is removed."""
    if not is_notified(options):
        return
    try:
        check_options(options, paths_of(options))
        found = checked_queues(options)
    except Flip27Error as error:
        yield failure(CHECK, error)
        return
    for queue in found.values():
        yield finding_of(CHECK, partial(_asked, queue))


def _asked(queue: NotificationQueue) -> Finding:
    """Call each method of the queue: received messages stay visible, and the given receipt is made up."""
    found = queue.receive(count=1, wait_s=0.0, hidden_s=0.0)
    queue.extend([_NO_RECEIPT], 0.0)
    queue.delete([_NO_RECEIPT])
    strange = next((message for message in found if message.problem is not None), None)
    said = f"messages of {queue.url} can be received, kept hidden and deleted"
    if strange is not None:
        said += f"; message {strange.message_id} would be set aside, because {strange.problem}"
    return ok(CHECK, said)
