"""Objects on S3 whose events are lost, doubled and out of order, while a query is killed at random steps."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from flip27_source.errors import Flip27Error
from flip27_source.testing import Crashed
from tests.deadline import until
from tests.file_queues import FileQueue, message, new_queue
from tests.s3_server import S3Bucket

from .objects import Landing, Query

LOST, DOUBLED, LATE = 0.3, 0.2, 0.1
ROUND_OBJECTS = 200
QUEUES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiedOutcome:
    """What came of it.

    Attributes:
        lost, doubled: objects. events_lost: objects without an event.
        by_listing: what ``filesFoundByListing`` says.
        left: messages that are still in the queues.
    """

    objects: int
    lost: int
    doubled: int
    events_lost: int
    by_listing: int
    kills: int
    errors: int
    left: int

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.doubled or self.left)


def notified(
    bucket: S3Bucket, *, objects: int, seed: int, round_objects: int = ROUND_OBJECTS
) -> NotifiedOutcome:
    """Every object is read once, whatever happens to its events, to the queues and to the driver."""
    chance = random.Random(seed)
    landing = Landing(bucket, "landing")
    queues = [new_queue(bucket) for _ in range(QUEUES)]
    query = Query.on(
        landing, bucket, chance, discovery="notifications", maxFilesPerTrigger=str(round_objects),
        notificationQueues=",".join(queue.url for queue in queues), notificationVisibilityTimeout="1s",
        discoveryRetries="0",
    )  # fmt: skip
    names = [f"{number:06d}" for number in range(objects)]
    chance.shuffle(names)
    late: list[str] = []
    events_lost = 0
    rounds = [names[first : first + round_objects] for first in range(0, objects, round_objects)]
    landing.put(names[:1])
    query.batch()
    for number, part in enumerate(rounds):
        landing.put(name for name in part if name not in landing.versions)
        events = [name for name in part if chance.random() >= LOST]
        events_lost += len(part) - len(events)
        events += [name for name in events if chance.random() < DOUBLED] + late
        chance.shuffle(events)
        late = [events.pop() for _ in range(int(len(events) * LATE))]
        for name in events:
            chance.choice(queues).send(message(bucket.name, f"landing/{name}"))
        if number == len(rounds) // 2:
            _without_queue(query, queues)
        _read_what_is_named(query, set(events))
    for name in late:
        queues[0].send(message(bucket.name, f"landing/{name}"))
    _drained(query, queues)
    expected = Counter(f"{name} version 0 row 0" for name in names)
    gauges = query.engine.holder.coordinator_at(_last(query)).gauges
    return NotifiedOutcome(
        objects=objects,
        lost=(expected - query.read).total(),
        doubled=(query.read - expected).total(),
        events_lost=events_lost,
        by_listing=int(gauges["filesFoundByListing"]),
        kills=query.kills,
        errors=len(query.errors),
        left=sum(queue.left for queue in queues),
    )


def _read_what_is_named(query: Query, names: set[str]) -> None:
    """Batches until the objects of the messages were read; after a kill, messages come again later."""

    def is_read() -> bool:
        query.batch()
        return names <= query.files_read

    until(is_read, lambda: len(names - query.files_read), 600)


def _without_queue(query: Query, queues: list[FileQueue]) -> None:
    """A queue is gone until the query has failed for it, and comes back without its messages."""
    queues[0].remove()
    query.engine.itinerary.crash_points.clear()

    def has_failed() -> bool:
        try:
            query.engine.run_batch()
        except (Flip27Error, Crashed) as error:
            if isinstance(error, Flip27Error) and queues[0].url in str(error):
                query.errors.append(error)
                return True
            query.engine.restart()
        return False

    until(has_failed, lambda: query.errors[-1:])
    queues[0].restore()
    query.engine.restart()


def _drained(query: Query, queues: list[FileQueue]) -> None:
    """Runs that end by themselves, until nothing is left in the queues."""

    def is_empty() -> bool:
        for queue in queues:
            queue.show_hidden()
        query.engine.itinerary.crash_points.clear()
        query.engine.restart(available_now=True)
        query.engine.process_all_available()
        return all(queue.left == 0 for queue in queues)

    until(is_empty, lambda: [queue.left for queue in queues], 600)


def _last(query: Query) -> dict[str, object]:
    from flip27_source.testing.spark_side import as_value

    return as_value(query.engine.logs.offsets[-1])
