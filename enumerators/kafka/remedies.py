"""Remedies: the command or the option with which a query continues after a loss. Pure."""

from __future__ import annotations

from flip27_source.enumerators.kafka.assigner import Loss
from flip27_source.enumerators.kafka.options import FAIL_ON_DATA_LOSS
from flip27_source.options import Options
from flip27_source.source_options import STATE_LOCATION


def remedy_of(loss: Loss, options: Options) -> str:
    """The command that continues with the rest of a partition."""
    state = _state(options)
    if loss.begins is None:
        return (
            f"continue without the partition: flip27 edit skip --state {state} --split {loss.split_id} "
            "--why 'topic deleted' --execute"
        )
    return (
        f"continue at its first record: flip27 edit set-position --state {state} --split {loss.split_id} "
        "--to earliest --why 'records expired' --execute"
    )


def remedy_of_range(split_id: str, options: Options) -> str:
    """The command that gives up a range that was set aside."""
    state = _state(options)
    return f"give them up: flip27 edit skip --state {state} --split {split_id} --why expired --execute"


def remedy_in_batch(options: Options) -> str:
    """The option with which a planned batch continues: an edit takes effect only after the batch."""
    option = "onDataLoss=report"
    if options.is_set(FAIL_ON_DATA_LOSS) or options[STATE_LOCATION] is None:
        option = f"failOnDataLoss=false, Spark's name for {option}"
    return (
        f"restart the query with {option}, at least until this batch is complete: it then reads the "
        "remaining records, and the loss is recorded. An edit takes effect after the batch"
    )


def _state(options: Options) -> str:
    return options[STATE_LOCATION] or "STATE_LOCATION"
