"""Which transactions a snapshot sees, and which events a rule delivers, for literal snapshots."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from flip27_source.enumerators.postgres.chunk_transactions import (
    RowRule,
    TransactionSnapshot,
    ended_below,
    widened,
)

EPOCH = 1 << 32


def ids(*numbers: int) -> npt.NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


def test_a_snapshot_sees_exactly_the_transactions_that_had_ended() -> None:
    snapshot = TransactionSnapshot.parse("10:20:10,14")
    assert snapshot.sees(ids(9, 10, 11, 14, 19, 20, 21)).tolist() == [
        True, False, True, False, True, False, False,
    ]  # fmt: skip


def test_the_transactions_of_a_snapshot_may_come_in_any_order() -> None:
    assert TransactionSnapshot.parse("5:9:8,5").in_progress == (5, 8)
    assert not TransactionSnapshot.parse("5:9:8,5").sees(ids(5, 8)).any()


@pytest.mark.parametrize("text", ["700:700:", "700:705:700,703", f"{EPOCH}:{EPOCH + 2}:{EPOCH}"])
def test_a_snapshot_is_written_in_the_form_in_which_it_was_read(text: str) -> None:
    assert str(TransactionSnapshot.parse(text)) == text


@pytest.mark.parametrize("text", ["", "700", "700:701", "700:701::", "a:b:"])
def test_invalid_snapshots_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a snapshot|invalid literal"):
        TransactionSnapshot.parse(text)


@pytest.mark.parametrize(
    ("short", "near", "whole"),
    [
        (700, 702, 700),
        (702, 700, 702),
        (3, EPOCH - 2, EPOCH + 3),
        (EPOCH - 2, EPOCH + 3, EPOCH - 2),
        (5, 7 * EPOCH + 9, 7 * EPOCH + 5),
        (EPOCH - 1, 7 * EPOCH, 7 * EPOCH - 1),
        (0, 7 * EPOCH - 1, 7 * EPOCH),
        ((1 << 31) + 6, EPOCH + 5, (1 << 31) + 6),
    ],
)
def test_an_id_of_32_bits_gets_the_epoch_that_makes_it_nearest_to_the_reference(
    short: int, near: int, whole: int
) -> None:
    assert widened(ids(short), near).tolist() == [whole]


def test_events_of_an_unread_chunk_are_not_delivered() -> None:
    assert RowRule().delivered(ids(1, 700, 1 << 40)).tolist() == [False, False, False]


def test_events_of_a_chunk_are_delivered_if_its_snapshot_does_not_see_them() -> None:
    assert RowRule(snapshot="10:20:14").delivered(ids(9, 14, 19, 20)).tolist() == [False, True, False, True]


def test_rules_expire_once_every_transaction_that_a_snapshot_sees_has_ended() -> None:
    rules = [RowRule(snapshot="10:20:14"), RowRule(snapshot="12:18:")]
    assert not ended_below(rules, 19)
    assert ended_below(rules, 20)


def test_the_rule_of_an_unread_chunk_does_not_expire() -> None:
    assert not ended_below([RowRule(snapshot="10:20:"), RowRule()], 1 << 40)
