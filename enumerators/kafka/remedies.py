"""Remedies: the command that goes on behind a loss. Pure."""

from __future__ import annotations

from flip27_source.enumerators.kafka.assigner import Loss
from flip27_source.enumerators.kafka.split import is_apart
from flip27_source.options import Options
from flip27_source.source_options import STATE_LOCATION


def remedy_of(loss: Loss, options: Options) -> str:
    """What the user can do about records that are gone."""
    return remedy_for(loss.split_id, options, is_gone=loss.begins is None)


def remedy_for(split_id: str, options: Options, *, is_gone: bool) -> str:
    """The command that goes on with what is left of a partition."""
    state = options[STATE_LOCATION] or "STATE_LOCATION"
    if is_apart(split_id):
        return f"give them up: flip27 edit skip --state {state} --split {split_id} --why expired --execute"
    if is_gone:
        return (
            f"go on without the partition: flip27 edit skip --state {state} --split {split_id} "
            "--why 'topic deleted' --execute"
        )
    return (
        f"go on at its first record: flip27 edit set-position --state {state} --split {split_id} "
        "--to earliest --why 'records expired' --execute"
    )
