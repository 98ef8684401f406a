"""Defects put into alignment, to check that the life ``tracks`` finds them."""

from __future__ import annotations

from typing import Any

import pytest

from flip27_source.coordination.alignment import Alignment
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.replay import Pace
from tests.mutating import Patch, around


@around(Alignment, "_is_active")
def an_idle_split_holds_the_others_back_for_ever(_: Any, *_more: Any) -> bool:
    return True


@around(Alignment, "begin")
def the_slowest_is_held_by_its_own_horizon(begin: Any, self: Any, *given: Any) -> None:
    begin(self, *given)
    self._is_slowest = False


@around(Alignment, "holds")
def nothing_is_held(_: Any, *_more: Any) -> bool:
    return False


def a_part_of_a_chain_ends_while_data_is_held_in_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SourceCoordinator, "is_held", False)


@around(Pace, "due_us")
def a_replay_stands_still(_: Any, pace: Pace, _steady_ms: int) -> int:
    return pace.event_us


TRACKS_MUTATIONS: tuple[Patch, ...] = (
    an_idle_split_holds_the_others_back_for_ever,
    the_slowest_is_held_by_its_own_horizon,
    nothing_is_held,
    a_part_of_a_chain_ends_while_data_is_held_in_it,
    a_replay_stands_still,
)
