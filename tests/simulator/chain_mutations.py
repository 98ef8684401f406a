"""Defects put into chains of sources, to check that the life ``chain`` finds them."""

from __future__ import annotations

from typing import Any

import msgspec

from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.discovery import DiscoveringEnumerator
from flip27_source.enumerators.hybrid.enumerator import HybridEnumerator
from flip27_source.enumerators.sequence import SequenceEnumerator
from flip27_source.event_time import moment_of
from tests.mutating import Patch, around


@around(HybridEnumerator, "snapshot_state")
def the_state_has_the_part_before(snapshot: Any, self: Any, checkpoint_id: int) -> Any:
    state = snapshot(self, checkpoint_id)
    return msgspec.structs.replace(state, part=max(state.part - 1, 1))


@around(HybridEnumerator, "end_of_data")
def a_part_is_left_after_its_first_batch(_: Any, self: Any, live: Any) -> bool:
    return False


@around(SequenceEnumerator, "switch_position")
def the_switch_is_one_number_late(position: Any, self: Any, end: Any) -> str:
    return str(int(position(self, end)) + 1)


@around(SourceCoordinator, "checkpoint")
def a_part_ends_before_work_is_done(checkpoint: Any, self: Any, *given: Any, **more: Any) -> Any:
    return checkpoint(self, *given, **{**more, "is_discovering": lambda: False})


@around(DiscoveringEnumerator, "look_again")
def the_first_listing_of_a_part_counts(_: Any, self: Any) -> None:
    pass


@around(HybridEnumerator, "_to_be_read")
def the_delay_leaves_out_what_waits(_: Any, self: Any, waiting: Any) -> Any:
    return [], None


@around(HybridEnumerator, "_end_position")
def buckets_without_rows_hide_that_an_archive_ends(position: Any, self: Any, *given: Any) -> Any:
    _, rest, _ = given
    return moment_of(self._until_us) if rest and self._until_us is not None else position(self, *given)


CHAIN_MUTATIONS: tuple[Patch, ...] = (
    the_state_has_the_part_before,
    a_part_is_left_after_its_first_batch,
    the_switch_is_one_number_late,
    a_part_ends_before_work_is_done,
    the_first_listing_of_a_part_counts,
    the_delay_leaves_out_what_waits,
    buckets_without_rows_hide_that_an_archive_ends,
)
