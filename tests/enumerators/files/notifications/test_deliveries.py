"""When a message may be deleted: never before the checkpoint that contains its effect is complete."""

from __future__ import annotations

from flip27_source.enumerators.files.notifications.deliveries import Acknowledgements, Due
from flip27_source.enumerators.files.notifications.inbox import Received
from flip27_source.notifications import Message


def received(name: str) -> Received:
    return Received(queue="https://queue", message=Message(message_id=name, receipt=name))


A, B = received("a"), received("b")


def test_a_message_that_does_not_change_the_state_is_deleted_at_once() -> None:
    assert Acknowledgements().handled([A], has_changed=False) == Due([A], [])


def test_a_message_that_changes_the_state_is_deleted_after_the_next_checkpoint() -> None:
    acknowledgements = Acknowledgements()
    assert acknowledgements.handled([A], has_changed=True) == Due([], [A])
    assert acknowledgements.is_unsaved


def test_a_duplicate_message_waits_with_the_first_one_until_their_file_is_in_a_checkpoint() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.handled([A], has_changed=True)
    assert acknowledgements.handled([B], has_changed=False) == Due([], [B])


def test_a_duplicate_message_waits_while_the_batch_of_the_checkpoint_runs() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.handled([A], has_changed=True)
    acknowledgements.saved(3)
    assert not acknowledgements.is_unsaved
    assert acknowledgements.handled([B], has_changed=False) == Due([], [])
    assert acknowledgements.completed(2) == []
    assert acknowledgements.completed(3) == [B]
    assert acknowledgements.handled([A], has_changed=False) == Due([A], [])


def test_a_change_while_a_batch_runs_waits_for_the_checkpoint_after_it() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.handled([A], has_changed=True)
    acknowledgements.saved(3)
    assert acknowledgements.handled([B], has_changed=True) == Due([], [B])
    assert acknowledgements.completed(3) == []
    assert acknowledgements.is_unsaved
