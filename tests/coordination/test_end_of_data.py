"""The end of the data: what the coordinator does when nothing is left to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flip27_source.enumerator import BoundedRange, Budget
from flip27_source.enumerators.sequence import SequenceEnumerator, SequenceSplit
from flip27_source.errors import ContractError
from flip27_source.testing import MicroBatchEngine


class Restarting(SequenceEnumerator):
    """Has an endless split after the others, which it leaves once nothing is left of the others."""

    def end_of_data(self, live: Sequence[SequenceSplit]) -> bool:
        return bool(live)

    def bound_split(self, split: SequenceSplit, budget: Budget) -> BoundedRange[SequenceSplit] | None:
        return super().bound_split(split, budget) if split.end is not None else None

    def handle_split_request(self, subtask_id: int) -> None:
        if not hasattr(self, "begun"):
            self.begun = True
            self.context.assign_split(SequenceSplit(split_id="endless", next=0, step=1, end=None))
        super().handle_split_request(subtask_id)


class Endless(SequenceEnumerator):
    def end_of_data(self, live: Sequence[Any]) -> bool:
        return True


def test_live_splits_without_data_are_finished_at_the_end_of_the_data() -> None:
    engine = MicroBatchEngine({"end": "3"}, enumerator=Restarting)
    first = engine.run_batch()
    assert first is not None
    assert first.end["summary"]["liveSplits"] == 1
    assert engine.run_batch() is None
    assert engine.holder.coordinator_at(first.end).standing(0).ledger.live == ()


def test_an_enumerator_whose_data_ends_for_ever_is_named() -> None:
    engine = MicroBatchEngine({"end": "3"}, enumerator=Endless)
    engine.run_batch()
    with pytest.raises(ContractError, match="end_of_data of Endless returned True 1000 times in a row"):
        engine.run_batch()
