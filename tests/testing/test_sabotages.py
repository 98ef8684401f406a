"""The kit finds mistakes that authors make, in its fast form, and names them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.enumerator import SplitEnumerator
from flip27_source.options import Options
from flip27_source.reader import SplitReader
from flip27_source.testing import LawBroken, TrivialInput, check_source, literal_source, run
from tests.testing import broken_enumerators, changing_table, table_and_log
from tests.testing.broken_readers import PieceReader
from tests.testing.changing_table import ChangeReader, FollowsChanges
from tests.testing.sabotages import (
    CHANGES,
    SABOTAGES,
    RemembersEveryNameInTheSplit,
    RemembersEveryNameInTheState,
    Sabotage,
)
from tests.testing.table_and_log import Part, TableReader, TableThenLog, TableThenWindows

MOST_SECONDS = 10


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    changing_table.make_table()
    found = list(broken_enumerators.FOUND)
    yield
    broken_enumerators.FOUND[:] = found


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.mistake)
def test_a_fast_check_finds_the_mistake_and_names_it(sabotage: Sabotage) -> None:
    began = time.process_time()
    with pytest.raises(LawBroken) as caught:
        check_source(
            enumerator=sabotage.enumerator,
            reader=sabotage.reader,
            grow=sabotage.grow,
            fast=True,
            **sabotage.more,
        )
    assert time.process_time() - began < MOST_SECONDS
    assert [word for word in sabotage.words if word not in str(caught.value)] == [], str(caught.value)


def test_splits_of_one_task_that_give_the_same_row_are_named() -> None:
    source = literal_source({f"{number:02}": [number] for number in range(12)} | {"00": [0, 2]})
    with pytest.raises(LawBroken) as caught:
        check_source(source, rows=[(number,) for number in range(12)], fast=True)
    said = str(caught.value).splitlines()[2]
    assert re.findall(r"split '(\d+)'|in batch (\d+)|: (two splits give the same row)", said) == [
        ("00", "", ""), ("", "0", ""), ("02", "", ""), ("", "0", ""), ("", "", "two splits give the same row")
    ]  # fmt: skip


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "thorough"])
def test_a_correct_source_of_changes_keeps_the_laws(fast: bool) -> None:
    check_source(enumerator=FollowsChanges, reader=ChangeReader, fast=fast, **CHANGES)


def test_a_loss_that_is_reported_is_told() -> None:
    options = {"onDataLoss": "report"}
    check_source(options, enumerator=FollowsChanges, reader=ChangeReader, fast=True, **CHANGES)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"change": lambda: None}, "change has changed nothing"),
        ({"lose": lambda: None}, "lose has removed nothing"),
        ({"change": None}, "give change, too"),
    ],
)
def test_changes_and_losses_that_are_none_are_trivial_input(more: dict[str, Any], said: str) -> None:
    with pytest.raises(TrivialInput, match=said):
        check_source(enumerator=FollowsChanges, reader=ChangeReader, fast=True, **CHANGES | more)


class SaysHowItWasRead(TableReader):
    """The same row has another value in one column if it comes from the log."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return super().default_schema(options).append(pa.field("op", pa.string()))

    def read(self, split: Part) -> Iterator[Any]:
        yield from ((*row, "inserted" if split.is_log else "snapshot") for row in super().read(split))


def test_rows_that_are_all_there_and_differ_in_a_column_are_not_called_missing_only() -> None:
    with pytest.raises(LawBroken, match="no row is lost: these differ only in op"):
        check_source(enumerator=TableThenLog, reader=SaysHowItWasRead, grow=table_and_log.insert, fast=True)


class GivesOtherTypesFromTheLog(TableReader):
    """Spark sees the same values: those of the types in the schema."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema({"key": pa.float64(), "name": pa.string()})

    def read(self, split: Part) -> Iterator[Any]:
        yield from ((float(key) if split.is_log else key, name) for key, name in super().read(split))


def test_rows_with_other_types_for_the_same_values_are_the_same() -> None:
    check_source(
        enumerator=TableThenLog, reader=GivesOtherTypesFromTheLog, grow=table_and_log.insert, fast=True
    )


@pytest.mark.parametrize(
    ("enumerator", "reader", "named"),
    [
        (RemembersEveryNameInTheSplit, TableReader, r"2\.0 MB in field 'note' of split 'keys from "),
        (RemembersEveryNameInTheState, PieceReader, r"2\.0 MB in field 'note' of the state"),
    ],
)
def test_state_that_is_large_is_named_in_a_warning(
    enumerator: type[SplitEnumerator[Any]], reader: type[SplitReader[Any]], named: str
) -> None:
    with pytest.warns(UserWarning, match=named):
        assert list(run(enumerator=enumerator, reader=reader))


def test_many_small_splits_cause_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    assert list(run(literal_source({f"split {number}": [number] for number in range(20_000)})))
    # Connections of other tests in this process may be collected meanwhile.
    ours = [warning for warning in recwarn if not issubclass(warning.category, ResourceWarning)]
    assert [str(warning.message) for warning in ours] == []


@pytest.mark.parametrize("enumerator", [TableThenLog, TableThenWindows])
def test_a_correct_source_of_a_table_and_its_log_keeps_the_laws(enumerator: type[TableThenWindows]) -> None:
    check_source(enumerator=enumerator, reader=TableReader, grow=table_and_log.insert, fast=True)
