"""Objects on S3 with lost, duplicate and reordered events, and a query that is killed at random steps."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import unquote_plus

from flip27_source.enumerators.files.notifications.sqs import SqsQueue
from flip27_source.errors import Flip27Error
from flip27_source.notifications import Message
from flip27_source.options import Options
from flip27_source.testing import Crashed
from flip27_source.testing.spark_side import as_value
from tests.deadline import until
from tests.file_queues import FileQueue, connect, new_queue
from tests.s3_server import S3Bucket

from .objects import Landing, Query

LOST, DOUBLED, LATE = 0.3, 0.2, 0.1
ROUND_OBJECTS = 200
BATCHES = 2
MOST_ROUNDS = 25
ALWAYS_KILLED = 50_000
"""The number of objects above which only a share of the batches is killed."""

QUEUES = 2
HIDDEN_S = 2.0
"""The time after a kill at which the dead driver's messages reappear, whatever their timeout is."""


class MortalQueue(SqsQueue):
    """A queue that refuses all calls once its driver was killed, because the driver's threads live on."""

    lives: ClassVar[int] = 0

    def __init__(self, url: str, options: Options) -> None:
        super().__init__(url, options)
        self._life = self.lives

    def receive(self, *, count: int, wait_s: float, hidden_s: float) -> Sequence[Message]:
        """Receive messages. They are hidden even if the driver was killed during the call."""
        self._check_alive()
        found = super().receive(count=count, wait_s=wait_s, hidden_s=hidden_s)
        self._check_alive()
        return found

    def extend(self, receipts: Sequence[str], hidden_s: float) -> Mapping[str, str]:
        self._check_alive()
        return super().extend(receipts, hidden_s)

    def delete(self, receipts: Sequence[str]) -> None:
        self._check_alive()
        super().delete(receipts)

    def _check_alive(self) -> None:
        if self._life != self.lives:
            raise ConnectionError("the driver was killed")


class Deaths:
    """Lets the messages of killed drivers reappear, at once or some time later."""

    def __init__(self, queues: Sequence[FileQueue], chance: random.Random) -> None:
        self._queues = queues
        self._chance = chance
        self._died_s: float | None = None

    def die(self) -> None:
        """Record that a driver was killed."""
        MortalQueue.lives += 1
        self._died_s = time.monotonic()
        if self._chance.random() < 0.5:
            self._show()

    def show_hidden(self) -> None:
        """Let a dead driver's messages reappear after HIDDEN_S. Called when nothing is new."""
        if self._died_s is not None and time.monotonic() - self._died_s > HIDDEN_S:
            self._died_s = None
            self._show()

    def _show(self) -> None:
        for queue in self._queues:
            queue.show_hidden()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiedOutcome:
    """The result of :func:`notified`.

    Attributes:
        lost, doubled: numbers of rows, of which each object has one.
        events_lost, events_doubled: numbers of events.
        by_listing: the gauge ``filesFoundByListing``.
        kills: the number of kills by process and step.
        left: the number of messages that are still in the queues.
    """

    objects: int
    lost: int
    doubled: int
    events_lost: int
    events_doubled: int
    by_listing: int
    batches: int
    kills: Counter[str]
    errors: int
    left: int

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.doubled or self.left)

    def __str__(self) -> str:
        kills = ", ".join(f"{where} {count}" for where, count in sorted(self.kills.items()))
        return (
            f"objects {self.objects}  lost {self.lost}  doubled {self.doubled}  events lost "
            f"{self.events_lost}  events doubled {self.events_doubled}  found by listing {self.by_listing}  "
            f"batches {self.batches}  errors {self.errors}  messages left {self.left}  "
            f"kills {self.kills.total()}: {kills}"
        )


def notified(
    bucket: S3Bucket,
    *,
    objects: int,
    seed: int,
    round_objects: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> NotifiedOutcome:
    """Check that every object is read once, whatever happens to its events, the queues and the driver.

    The bucket sends its events to a queue of the soak, which forwards them to the queues of the query.
    """
    chance = random.Random(seed)
    round_objects = round_objects or max(ROUND_OBJECTS, objects // MOST_ROUNDS)
    landing, sent = Landing(bucket, "landing"), new_queue(bucket)
    connect(bucket, sent, "landing/")
    queues = [new_queue(bucket) for _ in range(QUEUES)]
    query = Query.on(
        landing, bucket, chance, discovery="notifications",
        maxFilesPerTrigger=str(-(-round_objects // BATCHES)),
        notificationQueues=",".join(queue.url for queue in queues), notificationVisibilityTimeout="20s",
        notificationService=f"{__name__}:{MortalQueue.__name__}", discoveryRetries="0",
    )  # fmt: skip
    deaths = Deaths(queues, chance)
    query.on_death = deaths.die
    # Each restart lists all objects, so with many objects only some batches are killed.
    query.kill_share = min(1.0, ALWAYS_KILLED / objects)
    names = [f"{number:06d}" for number in range(objects)]
    chance.shuffle(names)
    late: list[_Event] = []
    events_lost = events_doubled = 0
    rounds = [names[first : first + round_objects] for first in range(0, objects, round_objects)]
    landing.put(names[:1])
    query.batch()
    for number, part in enumerate(rounds):
        landing.put(name for name in part if name not in landing.versions)
        arriving = [event for event in _events(part, sent) if chance.random() >= LOST]
        events_lost += len(part) - len(arriving)
        again = [event for event in arriving if chance.random() < DOUBLED]
        events_doubled += len(again)
        arriving += again + late
        chance.shuffle(arriving)
        late = [arriving.pop() for _ in range(int(len(arriving) * LATE))]
        for event in arriving:
            chance.choice(queues).send(event.body)
        if number == len(rounds) // 2:
            _without_queue(query, queues)
        _read_what_is_named(query, deaths, {event.name for event in arriving})
        say(f"{len(query.files_read)} objects were read, {query.kills.total()} kills")
    for event in late:
        queues[0].send(event.body)
    _drained(query, queues)
    expected = Counter(f"{name} version 0 row 0" for name in names)
    gauges = query.engine.holder.coordinator_at(_last(query)).gauges
    return NotifiedOutcome(
        objects=objects,
        lost=(expected - query.read).total(),
        doubled=(query.read - expected).total(),
        events_lost=events_lost,
        events_doubled=events_doubled,
        by_listing=int(gauges["filesFoundByListing"]),
        batches=len(query.engine.batches),
        kills=query.kills,
        errors=len(query.errors),
        left=sum(queue.left for queue in queues),
    )


@dataclass(frozen=True, slots=True)
class _Event:
    """The message that the bucket has sent about an object."""

    name: str
    body: str


def _events(names: Sequence[str], sent: FileQueue) -> list[_Event]:
    """Take the events of these objects from the bucket's queue."""
    bodies = {}
    for body in sent.taken():
        for record in json.loads(body).get("Records", ()):
            bodies[unquote_plus(record["s3"]["object"]["key"]).rpartition("/")[2]] = body
    return [_Event(name, bodies[name]) for name in names]


def _read_what_is_named(query: Query, deaths: Deaths, names: set[str]) -> None:
    """Run batches until all objects with these names are read."""

    def is_read() -> bool:
        if not query.batch():
            deaths.show_hidden()
        return names <= query.files_read

    until(is_read, lambda: len(names - query.files_read), 600)


def _without_queue(query: Query, queues: list[FileQueue]) -> None:
    """Remove a queue, wait until the query fails because of it, and restore the queue without messages."""
    queues[0].remove()
    query.plan_no_crashes()

    def has_failed() -> bool:
        try:
            query.engine.run_batch()
        except (Flip27Error, Crashed) as error:
            if isinstance(error, Flip27Error) and queues[0].url in str(error):
                query.errors.append(error)
                return True
            query.on_death()
            query.engine.restart()
        return False

    until(has_failed, lambda: query.errors[-1:])
    queues[0].restore()
    query.on_death()
    query.engine.restart()


def _drained(query: Query, queues: list[FileQueue]) -> None:
    """Run the query with availableNow until the queues are empty."""

    def is_empty() -> bool:
        for queue in queues:
            queue.show_hidden()
        query.plan_no_crashes()
        query.on_death()
        query.engine.restart(available_now=True)
        query.engine.process_all_available()
        return all(queue.left == 0 for queue in queues)

    until(is_empty, lambda: [queue.left for queue in queues], 600)


def _last(query: Query) -> dict[str, object]:
    return as_value(query.engine.logs.offsets[-1])
