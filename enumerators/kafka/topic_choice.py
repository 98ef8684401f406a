"""TopicChoice: the topics and partitions that subscribe, subscribePattern or assign choose. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flip27_source.enumerators.kafka import options as opts
from flip27_source.enumerators.kafka.cluster import Topic
from flip27_source.enumerators.kafka.split import TopicPartition
from flip27_source.errors import OptionError
from flip27_source.options import Option, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice:
    """The chosen topics, by exactly one of the three options.

    Attributes:
        names: topics of ``subscribe``, or of ``assign``.
        pattern: ``subscribePattern``.
        assigned: the partitions of ``assign``.
    """

    names: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    assigned: frozenset[TopicPartition] | None = None

    @classmethod
    def of(cls, options: Options) -> TopicChoice:
        """What the options choose."""
        choices: tuple[Option[Any], ...] = (opts.SUBSCRIBE, opts.SUBSCRIBE_PATTERN, opts.ASSIGN)
        given = [option.name for option in choices if options[option] is not None]
        if len(given) != 1:
            both = "both" if len(given) == 2 else "all"
            what = f"options {' and '.join(given)} are {both} set" if given else "no topic is chosen"
            raise OptionError(what, remedy='set one of them: .option("subscribe", "orders,customers")')
        assigned = options[opts.ASSIGN]
        if assigned is not None:
            names = tuple(dict.fromkeys(topic for topic, _ in assigned))
            return cls(names=names, assigned=frozenset(assigned))
        topics = options[opts.SUBSCRIBE]
        return cls(names=topics or (), pattern=options[opts.SUBSCRIBE_PATTERN])

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"option subscribePattern {self.pattern.pattern!r}"
        if self.assigned is not None:
            return "option assign"
        return f"option subscribe {','.join(self.names)!r}"

    def partitions(self, topics: Mapping[str, Topic]) -> list[TopicPartition]:
        """The chosen partitions of these topics."""
        keys = [(name, number) for name, topic in topics.items() for number in topic.partitions]
        return keys if self.assigned is None else [key for key in keys if key in self.assigned]

    def missing(self, topics: Mapping[str, Topic]) -> list[str]:
        """The topics, or with ``assign`` the partitions, that are chosen by name and do not exist."""
        if self.assigned is not None:
            present = set(self.partitions(topics))
            return sorted(f"{topic}/{number}" for topic, number in self.assigned - present)
        return [name for name in self.names if name not in topics]

    def lacks(
        self, topics: Mapping[str, Topic], known: Mapping[str, tuple[str | None, frozenset[int]]]
    ) -> bool:
        """Whether a partition that was known, and is still chosen, is not among these topics."""
        return any(
            self.has((name, number)) and (name not in topics or number not in topics[name].partitions)
            for name, (_, numbers) in known.items()
            for number in numbers
        )

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition is chosen, if it exists."""
        return self.has_topic(partition[0]) if self.assigned is None else partition in self.assigned

    def has_topic(self, name: str) -> bool:
        """Whether partitions of the topic are chosen, if it exists."""
        return name in self.names if self.pattern is None else self.pattern.fullmatch(name) is not None
