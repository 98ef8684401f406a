"""The states of a checkpoint: the table has each pair of state and call at most once, with its rule."""

from __future__ import annotations

import itertools
import re

import pytest

from flip27_source.coordination.checkpoint_states import (
    CHECKPOINT_TRANSITIONS,
    CheckpointCall,
    CheckpointState,
    transition,
)
from flip27_source.errors import ProtocolError

ALLOWED = {(item.state, item.call): item for item in CHECKPOINT_TRANSITIONS}


def test_the_table_has_each_transition_once_with_its_rule() -> None:
    assert len(ALLOWED) == len(CHECKPOINT_TRANSITIONS)
    assert all(item.rule for item in CHECKPOINT_TRANSITIONS)
    assert {item.call for item in CHECKPOINT_TRANSITIONS} == set(CheckpointCall) - {
        CheckpointCall.TRIGGER_OTHER, CheckpointCall.COMPLETE_EARLY, CheckpointCall.COMPLETE_UNSEEN,
    }  # fmt: skip


@pytest.mark.parametrize("cell", list(itertools.product(CheckpointState, CheckpointCall)), ids=str)
def test_a_call_changes_the_state_as_the_table_says_or_raises_a_protocol_error(
    cell: tuple[CheckpointState, CheckpointCall],
) -> None:
    if cell in ALLOWED:
        assert transition(*cell, "checkpoint 7") is ALLOWED[cell].next_state
    else:
        with pytest.raises(ProtocolError, match=re.escape(f"checkpoint 7: {cell[1].value!r} is not allowed")):
            transition(*cell, "checkpoint 7")
