"""WaitingQueues: the turns of the queues, and the splits that closed gateways hold back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flip27_source.coordination.waiting_queues import WaitingQueues
from tests.toy_sources import Item

SUBTASKS = 3
ANY = None

moves = st.lists(
    st.one_of(st.sampled_from(["take", "freeze", "open"]), st.sampled_from([ANY, 0, 1, 2])), max_size=40
)


def new_queues() -> WaitingQueues[Item]:
    return WaitingQueues(SUBTASKS, last_closed=0)


def send(queues: WaitingQueues[Item], subtask_id: int | None, *names: str) -> None:
    for name in names:
        queues.send_split(Item(split_id=name), subtask_id)


def freeze(queues: WaitingQueues[Item], checkpoint_id: int) -> None:
    queues.mark_for_checkpoint(checkpoint_id)
    queues.close(checkpoint_id)


def open_all(queues: WaitingQueues[Item], checkpoint_id: int) -> None:
    for subtask_id in range(SUBTASKS):
        queues.open_after(checkpoint_id, subtask_id)


def take(queues: WaitingQueues[Item]) -> str:
    """Take the split whose turn it is, and return its id."""
    subtask_id = next(iter(queues.turns))
    split = queues.turns[subtask_id].peek()
    assert split is not None
    queues.take_split(subtask_id)
    return split.split_id


def take_all(queues: WaitingQueues[Item]) -> list[str]:
    taken = []
    while queues.turns:
        taken.append(take(queues))
    return taken


def test_queues_take_turns_with_one_split_each() -> None:
    queues = new_queues()
    send(queues, 0, "a0", "b0", "c0")
    send(queues, ANY, "a", "b")
    send(queues, 1, "a1")
    assert take_all(queues) == ["a0", "a", "a1", "b0", "b", "c0"]


def test_only_splits_for_one_subtask_are_held_back_after_the_freeze() -> None:
    queues = new_queues()
    freeze(queues, 1)
    send(queues, 0, "for one")
    send(queues, ANY, "for any")
    assert [item.split.split_id for item in queues.splits()] == ["for any", "for one"]
    assert take_all(queues) == ["for any"]
    queues.open_after(1, 0)
    assert take_all(queues) == ["for one"]


@given(moves)
def test_splits_sent_again_in_the_same_order_get_the_same_turns(moves: list[str | int | None]) -> None:
    """A restart sends the stored splits again in their order."""
    queues, frozen, is_frozen = new_queues(), 0, False
    for number, move in enumerate(moves):
        if move == "take":
            if queues.turns:
                take(queues)
        elif move == "freeze":
            if not is_frozen:
                frozen, is_frozen = frozen + 1, True
                freeze(queues, frozen)
        elif move == "open":
            open_all(queues, frozen)
            is_frozen = False
        else:
            assert not isinstance(move, str)
            send(queues, move, str(number))
    restored = new_queues()
    for item in queues.splits():
        restored.send_split(item.split, item.subtask_id)
    open_all(queues, frozen)
    assert take_all(restored) == take_all(queues)
