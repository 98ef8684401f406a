"""Losses of partitions: each is reported once in a run, with how the query continues after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flip27_source.enumerator_context import SplitEnumeratorContext
from flip27_source.enumerators.kafka.assigner import Loss
from flip27_source.enumerators.kafka.split import KafkaSplit, TopicPartition, split_id_of
from flip27_source.enumerators.kafka.start_positions import STARTING_OFFSETS
from flip27_source.options import Options
from flip27_source.source_options import STATE_LOCATION


class LossReports:
    """Reports the losses of one run.

    Args:
        first: the option that says where the query starts.
    """

    def __init__(self, context: SplitEnumeratorContext[KafkaSplit], options: Options, *, first: str) -> None:
        self._context = context
        self._state = options[STATE_LOCATION] or "STATE_LOCATION"
        self._first = first
        self._reported: set[tuple[str, str]] = set()
        self._next: list[Loss] = []

    def come_next(self, losses: Iterable[Loss]) -> None:
        """Those of the partitions that are read next: the remedy of one is that of all."""
        self._next = list(losses)

    def report(self, loss: Loss, *, has_state: bool) -> None:
        """Report what is gone; without a state, no edit could change where the query continues."""
        key = (loss.split_id, loss.what)
        if key in self._reported:
            return
        remedies = {other.split_id: _remedy(other) for other in (loss, *self._next)}
        kind, what, to = remedies[loss.split_id]
        alike = [split_id for split_id, remedy in remedies.items() if remedy == (kind, what, to)]
        remedy = f"{what}: {self._edit(kind, *alike)} {to} --execute"
        if not has_state:
            remedy = _other_start(loss, alike, self._first)
        self._context.report_data_loss(loss.what, split_id=loss.split_id, remedy=remedy)
        self._reported.add(key)

    def report_expired(self, key: TopicPartition) -> None:
        """The partition began earlier than where its reading starts, as ``onExpiredStart`` may refuse."""
        self._context.report_data_loss(
            f"records of {split_id_of(*key)} at {self._first} may have been removed: it began earlier once, "
            "and begins at that time or later, or has no record left",
            split_id=split_id_of(*key),
            remedy="set onExpiredStart=continue to start where it begins now",
        )

    def report_quarantined(self, split: KafkaSplit, rows: int, topic_id: str) -> None:
        """The quarantined records are of a topic that was recreated with another id."""
        self._context.report_data_loss(
            f"topic {split.topic} was deleted and recreated (its id was {split.topic_id} and is "
            f"{topic_id}); its offsets {split.next} to {split.next + rows - 1} are gone",
            split_id=split.split_id,
            remedy=f"give them up: {self._edit('skip', split.split_id)} --why expired --execute",
        )

    def _edit(self, kind: str, *split_ids: str) -> str:
        """The start of the command with which a query continues after a loss."""
        return " ".join(
            [f"flip27 edit {kind} --state {self._state}", *(f"--split {name}" for name in split_ids)]
        )


def _other_start(loss: Loss, split_ids: Sequence[str], first: str) -> str:
    """The options with which a query starts that has no state yet.

    Args:
        first: the option that says where the query starts now.
    """
    if loss.begins is None:
        return "leave the topic out, or set failOnDataLoss=false"
    name, number = ("latest", -1) if loss.is_at_end else ("earliest", -2)
    option = STARTING_OFFSETS.name
    instead = "" if first == option else f" instead of {first}"
    return (
        f"set {option}{instead} to {name}, or to {number} for {', '.join(split_ids)}; failOnDataLoss=false "
        "starts there, too"
    )


def _remedy(loss: Loss) -> tuple[str, str, str]:
    """The edit with which a query continues after a loss, what it does, and the end of its command."""
    if loss.begins is None:
        return "skip", "continue without the partition", "--why 'topic deleted'"
    place, to = ("end", f"--to-offset {loss.begins}") if loss.is_at_end else ("first record", "--to earliest")
    return "set-position", f"continue at its {place}", f"{to} --why 'records are gone'"
