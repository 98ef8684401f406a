"""Commits the offsets of a consumer group that follows the query, so that tools show the query's lag."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flip27_source.enumerators.kafka.client import Consumer, failed, imported, new_consumer
from flip27_source.enumerators.kafka.client_properties import ClientProperties, given_property
from flip27_source.enumerators.kafka.cluster import is_unknown
from flip27_source.enumerators.kafka.options import COMMIT_OFFSETS
from flip27_source.enumerators.kafka.split import KafkaSplit, partition_of
from flip27_source.errors import OptionError
from flip27_source.log import LOG
from flip27_source.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """The action that commits the offsets of a batch.

    Attributes:
        group: the consumer group.
        offsets: the next offset to read, by split.
        restarted: the splits that continued at a lower offset after a loss, as in a recreated topic, or that
            are gone.
    """

    group: str
    offsets: Mapping[str, int]
    restarted: tuple[str, ...] = ()


def _group_of(options: Options) -> str | None:
    """The consumer group that offsets are committed to; None if they are not."""
    if not options[COMMIT_OFFSETS]:
        return None
    group = (given_property(options, "group.id") or "").strip()
    if not group:
        raise OptionError(
            "option commitOffsets is true, and kafka.group.id is not set",
            remedy="name the group whose offsets are to follow the query, which no other consumer uses",
        )
    return group


class GroupOffsets:
    """Commits offsets with one client, if the options name a group; any thread may call ``commit``."""

    def __init__(self, options: Options) -> None:
        self._group = _group_of(options)
        # What was planned since the last checkpoint.
        self._moved: dict[str, int] = {}
        self._restarted: set[str] = set()
        self._lock = threading.Lock()
        self._consumer: Consumer | None = None
        self._committed: dict[str, int] = {}
        # Those of a commit that has failed, which is repeated: their partitions may have no records again.
        self._failed: dict[str, int] = {}

    def planned(self, ranges: Iterable[KafkaSplit]) -> None:
        """A batch has these ranges."""
        self._moved |= {cut.split_id: cut.end for cut in ranges if cut.end and not cut.is_quarantined}

    def restarted(self, split_id: str) -> None:
        """The partition continues at a lower offset, or is gone."""
        self._restarted.add(split_id)

    def take(self) -> CommitOffsets | None:
        """What to commit once the present checkpoint is complete; None: nothing."""
        if self._group is None or not self._moved:
            return None
        restarted = tuple(sorted(self._restarted))
        action = CommitOffsets(group=self._group, offsets=self._moved, restarted=restarted)
        self._moved, self._restarted = {}, set()
        return action

    def commit(self, properties: ClientProperties, action: CommitOffsets) -> bool:
        """Commit offsets that are ahead of those that this object has committed.

        A failure is logged and not raised: the next commit of this run includes these offsets, and the query
        does not need them.

        Returns:
            Whether the group has these offsets or later ones.
        """
        kafka = imported()
        with self._lock:
            for split_id in action.restarted:
                self._committed.pop(split_id, None)
                self._failed.pop(split_id, None)
            ahead = dict(self._failed)
            for split_id, offset in action.offsets.items():
                if offset > max(self._committed.get(split_id, -1), ahead.get(split_id, -1)):
                    ahead[split_id] = offset
            if not ahead:
                return True
            try:
                if self._consumer is None:
                    self._consumer = new_consumer(properties)
                answers: Any = self._consumer.commit(
                    offsets=[
                        kafka.TopicPartition(*partition_of(split_id), offset)
                        for split_id, offset in ahead.items()
                    ],
                    asynchronous=False,
                )
                errors = [answer.error for answer in answers if answer.error is not None]
            except kafka.KafkaException as error:
                errors = [error.args[0]]
            # A commit with a topic that is gone has only failed for this topic, and would always fail.
            self._failed = {} if not errors or any(map(is_unknown, errors)) else ahead
            if not errors:
                self._committed |= ahead
                return True
        said = failed(properties, f"committing offsets of group {action.group}", errors[0])
        LOG.warning("%s", said)
        return False

    def close(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None
