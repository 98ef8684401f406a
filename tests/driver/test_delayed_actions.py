"""Delayed actions: side effects that wait for a time after their checkpoint, whatever crashes meanwhile."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

import pytest

from flip27_source.enumerator_mixins import PerformsActions
from flip27_source.errors import ContractError, StaleDriverError
from flip27_source.options import Option, Options, duration_s, optional
from flip27_source.snapshots import file_names
from tests.driver.batches import InlineBatches
from tests.toy_sources import EchoReader, Item, Shelf

STAY: Option[float | None] = Option(name="stay", parse=optional(duration_s), default=None, doc="")
HOUR_MS = 3_600_000


class Removes(PerformsActions[str], Shelf):
    """Removes every split some time after it was read; splits in ``broken`` cannot be removed."""

    options = (STAY,)
    removed: ClassVar[list[str]] = []
    broken: ClassVar[set[str]] = set()

    def notify_splits_finished(self, checkpoint_id: int, splits: Sequence[Item]) -> None:
        for split in splits:
            self.context.perform_after_completion(split.split_id, delayed=True)

    @classmethod
    def action_delay_s(cls, options: Options) -> float | None:
        return options[STAY]

    def perform(self, action: str) -> None:
        self.removed.append(action)
        if action in self.broken:
            raise OSError("it is in use")


class Removing(InlineBatches):
    """Reads splits that are removed later."""

    def __init__(self, stay: str = "1h", **options: str) -> None:
        super().__init__(Removes, EchoReader, {"stay": stay, **options})

    def read(self, *names: str) -> None:
        """Run one batch with these splits, and notify the source that it is complete."""
        self.shelve(*names)
        assert self.batch() is not None
        self.idle()

    def removed(self, passed_ms: int = 0) -> list[str]:
        """Let the time pass; return the splits that are removed then."""
        before = len(Removes.removed)
        self.idle(passed_ms)
        return Removes.removed[before:]

    @property
    def waiting(self) -> int:
        return int((self.holder.report() or {}).get("delayedActions", 0))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Removes.removed.clear()
    Removes.broken.clear()


def test_an_action_is_performed_when_it_is_due_although_the_stream_is_idle() -> None:
    batches = Removing()
    batches.read("a")
    assert batches.waiting == 1
    assert batches.removed(HOUR_MS - 1) == []
    assert batches.removed(1) == ["a"]
    assert batches.removed(HOUR_MS) == []
    assert batches.waiting == 0


def test_the_delay_counts_from_the_completion_of_the_batch_and_not_from_its_planning() -> None:
    batches = Removing()
    batches.shelve("a")
    batches.trigger()
    batches.now_ms += 5 * HOUR_MS
    for task in batches.tasks():
        batches.attempt(task)
    batches.commit()
    assert batches.removed() == []
    assert batches.removed(HOUR_MS) == ["a"]


def test_a_start_time_stored_in_a_document_survives_a_killed_driver() -> None:
    batches = Removing()
    batches.read("a")
    batches.now_ms += HOUR_MS // 2
    batches.read("b")
    batches.restart()
    assert batches.removed(HOUR_MS // 2) == ["a"]


def test_the_delay_after_the_last_batch_counts_from_the_first_restart_after_it() -> None:
    """Only then is the batch known to be complete; an empty batch stores the time for further restarts."""
    batches = Removing()
    batches.shelve("a")
    batches.batch()
    for number in range(4):
        batches.now_ms += HOUR_MS // 4
        batches.restart()
        assert batches.removed() == []
        assert batches.snapshot().metadata.checkpoint_id == 2, number
    batches.now_ms += HOUR_MS // 4
    batches.restart()
    assert batches.removed() == ["a"]


def test_a_performed_action_is_repeated_after_a_kill_until_a_document_records_it_as_done() -> None:
    batches = Removing()
    batches.read("a", "b")
    batches.read("c")
    assert batches.removed(HOUR_MS) == ["a", "b", "c"]
    batches.restart()
    assert batches.removed() == ["a", "b"]
    assert batches.removed(HOUR_MS) == ["c"]
    batches.read("d")
    batches.restart()
    assert batches.removed() == []
    assert batches.removed(HOUR_MS) == ["d"]


def test_waiting_actions_add_only_the_names_of_their_pages_to_a_document() -> None:
    batches = Removing()
    batches.read(*(f"s3://bucket/landing/part-{number:05}.json" for number in range(2000)))
    batches.read("x")
    before = set(batches.files())
    batches.read("y")
    written = {name: data for name, data in batches.files().items() if name not in before}
    (document,) = (data for name, data in written.items() if f"/{file_names.CHECKPOINTS}/" in name)
    assert not [name for name in written if "delayed" in name]
    assert len(document) < 2_000
    assert [page.count for page in batches.snapshot().delayed] == [2000, 1]


def test_only_documents_with_waiting_actions_have_the_format_that_older_libraries_refuse() -> None:
    batches = Removing()
    batches.read("a")
    batches.read("b")
    batches.removed(HOUR_MS)
    batches.read("c")
    documents = [data for name, data in batches.files().items() if f"/{file_names.CHECKPOINTS}/" in name]
    formats = {found["id"]: found["format"] for found in map(json.loads, documents)}
    assert formats == {1: 1, 2: 3, 3: 1}


def test_many_small_batches_make_few_pages() -> None:
    batches = Removing()
    for number in range(40):
        batches.read(f"{number}")
    assert len(batches.snapshot().delayed) <= 6
    batches.restart()
    assert batches.removed(HOUR_MS) == [str(number) for number in range(39)]


def test_a_changed_delay_applies_to_all_waiting_actions() -> None:
    batches = Removing("2h")
    batches.read("a")
    batches.restart_with({"stay": "5h"})
    assert batches.removed() == []
    assert batches.removed(4 * HOUR_MS) == []
    batches.restart_with({"stay": "3h"})
    assert batches.removed() == ["a"]


def test_without_the_option_no_waiting_action_is_performed_or_forgotten() -> None:
    batches = Removing()
    batches.read("a")
    batches.read("b")
    batches.restart_with({"stay": None})
    assert batches.removed(100 * HOUR_MS) == []
    assert batches.waiting == 2
    batches.restart_with({"stay": "0s"})
    assert batches.removed() == ["a", "b"]


def test_an_action_that_fails_stays_with_its_error_and_later_actions_are_performed() -> None:
    batches = Removing(maxActionAttempts="3", onActionError="keep")
    Removes.broken.add("b")
    batches.read("a", "b", "c")
    batches.read("d")
    assert batches.removed(HOUR_MS) == ["a", "b", "c", "d"]
    batches.read("e")
    snapshot = batches.snapshot()
    assert [(a.action, a.attempts, a.error) for a in snapshot.actions] == [("b", 1, "OSError: it is in use")]
    assert [page.left for page in snapshot.delayed] == []
    Removes.broken.clear()
    batches.restart()
    assert batches.removed() == ["b"]


def test_a_driver_that_was_replaced_performs_no_waiting_action() -> None:
    batches = Removing()
    batches.read("a")
    older, start = batches.holder, batches.committed
    batches.restart()
    batches.idle()
    batches.now_ms += HOUR_MS
    with pytest.raises(StaleDriverError, match=r"another driver .* has taken over"):
        older.latest_offset(start, None)
    assert Removes.removed == []
    assert batches.removed() == ["a"]


def test_a_delayed_action_can_only_be_requested_while_a_checkpoint_is_being_completed() -> None:
    batches = Removing()
    with pytest.raises(ContractError, match="Removes requested a delayed action while no checkpoint"):
        batches.enumerator().context.perform_after_completion("x", delayed=True)
