"""Savepoints that do not match the source: they are refused with a diff, upgraded, or partly ignored."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flip27_source import savepoints
from flip27_source.coordination.batch_limits import Limits
from flip27_source.enumerator import SplitEnumerator
from flip27_source.errors import ContractError, IncompatibleStateError
from flip27_source.options import Change, Option, Options, text
from tests.driver.batches import Batches
from tests.savepoints.test_savepoints import on_disk
from tests.toy_sources import EchoReader, Item

ONE = Limits(files=1)
ORIGIN: Option[str] = Option(
    name="origin", parse=text, default="a", doc="Where it starts.", changes=Change.FIRST_START
)
TABLE: Option[str] = Option(name="table", parse=text, default="t", doc="Read.", changes=Change.FIRST_START)


class Counting(SplitEnumerator[Item]):
    """Assigns a0, a1, ... without end; the state is the next number."""

    options: ClassVar[tuple[Option[Any], ...]] = (ORIGIN, TABLE)

    def __init__(self, context: Any, options: Options, state: list[Any] | None = None) -> None:
        super().__init__(context, options, state)
        self.next: int = state[0] if state else 0
        self.name = options[ORIGIN]

    def start(self) -> None:
        pass

    def handle_split_request(self, subtask_id: int) -> None:
        self.context.assign_split(self.item())

    def item(self) -> Any:
        self.next += 1
        return Item(split_id=f"{self.name}{self.next - 1}")

    def add_splits_back(self, splits: Sequence[Any], subtask_id: int) -> None:
        raise AssertionError("no split should be given back")

    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        return [self.next]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The split of a later version of the code."""

    split_id: str
    origin: str


class LaterCounting(Counting):
    """A later version of the enumerator, with another format of state and splits."""

    state_version: ClassVar[int] = 2
    split_version: ClassVar[int] = 2
    split_type = Named

    def __init__(self, context: Any, options: Options, state: dict[str, int] | None = None) -> None:
        super().__init__(context, options, None if state is None else [state["next"]])

    def item(self) -> Named:
        return Named(split_id=super().item().split_id, origin=self.name)

    def snapshot_state(self, checkpoint_id: int) -> dict[str, int]:  # type: ignore[override]
        return {"next": self.next}

    @classmethod
    def upgrade_state(cls, version: int, raw: Any) -> Any:
        assert version == 1
        return {"next": raw[0]}

    @classmethod
    def upgrade_split(cls, version: int, raw: Any) -> Any:
        return {"split_id": raw["split_id"], "origin": "upgraded"}


class LaterWithoutWay(LaterCounting):
    """A later version whose author forgot to upgrade older states."""

    upgrade_state = SplitEnumerator.upgrade_state  # type: ignore[assignment]


for later in (LaterCounting, LaterWithoutWay):
    later.__name__ = Counting.__name__


class OtherReader(EchoReader):
    """Another reader of the same splits."""


def counting(state: Path, kind: Any = Counting, reader: Any = EchoReader, **options: str) -> Batches:
    return on_disk(kind, reader, state, **options)


@pytest.fixture
def savepoint(tmp_path: Path) -> str:
    """A savepoint after a0 and a1; a1 is in the plan of its checkpoint."""
    batches = counting(tmp_path / "state")
    for _ in range(3):
        batches.batch(ONE)
    return savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved")).directory


def refusal(batches: Batches) -> str:
    with pytest.raises(IncompatibleStateError) as caught:
        batches.batch(ONE)
    return caught.value.what


def test_an_option_of_the_first_start_may_be_written_out_with_its_default(
    tmp_path: Path, savepoint: str
) -> None:
    fork = counting(tmp_path / "fork", savepoint=savepoint, origin="a")
    assert fork.batch(ONE) == ["a2"]


def test_every_difference_is_reported_at_once_S89(tmp_path: Path, savepoint: str) -> None:
    fork = counting(
        tmp_path / "fork", reader=OtherReader, savepoint=savepoint, uid="b", origin="z", parallelism="5"
    )
    assert refusal(fork) == (
        f"savepoint {savepoint} does not match source b:"
        "\n    uid: was 'Counting', is 'b'"
        "\n    option origin: was None, is 'z'"
        "\n    reader: was 'EchoReader', is 'OtherReader'"
    )
    assert not (tmp_path / "fork").exists()


def test_options_without_influence_on_the_state_may_change_S89(tmp_path: Path, savepoint: str) -> None:
    fork = counting(
        tmp_path / "fork", savepoint=savepoint, parallelism="7", maxFilesPerTrigger="2", taskReports="always"
    )
    assert fork.batch(Limits(files=3)) == ["a2", "a3"]


def test_another_reader_continues_with_the_state_if_allowed_S89(
    tmp_path: Path, savepoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    fork = counting(tmp_path / "fork", reader=OtherReader, savepoint=savepoint, allowNonRestoredState="true")
    with caplog.at_level(logging.WARNING, "flip27_source"):
        assert fork.batch(ONE) == ["a2"]
    assert "reader: was 'EchoReader', is 'OtherReader'" in caplog.text


def test_start_options_that_differ_have_no_effect_on_a_restored_state_S89(
    tmp_path: Path, savepoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"savepoint": savepoint, "table": "u", "allowNonRestoredState": "true"}
    fork = counting(tmp_path / "fork", **options)
    with caplog.at_level(logging.WARNING, "flip27_source"):
        assert fork.batch(ONE) == ["a2"]
    assert "option table: was None, is 'u'" in caplog.text
    fork.restart()
    assert fork.batch(ONE) == ["a3"]


@pytest.mark.parametrize("claim", ["claim", "noClaim"])
def test_a_source_that_does_not_match_starts_from_the_beginning_and_the_savepoint_is_kept_S89(
    tmp_path: Path, savepoint: str, caplog: pytest.LogCaptureFixture, claim: str
) -> None:
    fork = counting(
        tmp_path / "fork", savepoint=savepoint, uid="b", allowNonRestoredState="true", savepointClaim=claim
    )
    with caplog.at_level(logging.WARNING, "flip27_source"):
        assert fork.batch(ONE) == ["a0"]
    assert "source b starts from the beginning: the savepoint" in caplog.text
    assert "uid: was 'Counting', is 'b'" in caplog.text
    assert fork.logged["checkpoint"] == 1
    assert not Path(savepoint, "_claim").exists()


def test_state_and_splits_of_an_older_version_are_upgraded_from_a_savepoint_S67(
    tmp_path: Path, savepoint: str
) -> None:
    fork = counting(tmp_path / "fork", LaterCounting, savepoint=savepoint)
    assert fork.batch(ONE) == ["a2"]
    fork.restart()
    assert fork.batch(ONE) == ["a3"]


def test_a_version_without_an_upgrade_is_refused_with_both_versions(tmp_path: Path, savepoint: str) -> None:
    older = counting(tmp_path / "fork", LaterWithoutWay, savepoint=savepoint)
    assert "state version: was 1, is 2" in refusal(older)
    afresh = counting(tmp_path / "afresh", LaterWithoutWay, savepoint=savepoint, allowNonRestoredState="true")
    assert afresh.batch(ONE) == ["a0"]


def test_a_version_of_newer_code_is_refused_with_both_versions(tmp_path: Path) -> None:
    batches = counting(tmp_path / "state", LaterCounting)
    batches.batch(ONE)
    batches.batch(ONE)
    newer = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved")).directory
    told = refusal(counting(tmp_path / "fork", savepoint=newer))
    assert "state version: was 2, is 1" in told
    assert "split version: was 2, is 1" in told


def test_the_option_does_not_apply_to_a_query_whose_own_checkpoint_belongs_to_another_source(
    tmp_path: Path,
) -> None:
    batches = counting(tmp_path / "state", allowNonRestoredState="true")
    batches.batch(ONE)
    other = counting(tmp_path / "state", allowNonRestoredState="true", origin="z")
    other.committed = other.logged = batches.logged
    assert "option origin: was None, is 'z'" in refusal(other)


def test_an_upgrade_that_fails_is_an_error_of_the_author_not_a_fresh_start(
    tmp_path: Path, savepoint: str
) -> None:
    class Failing(LaterCounting):
        @classmethod
        def upgrade_state(cls, version: int, raw: Any) -> Any:
            raise ContractError("version 1 cannot be read")

    Failing.__name__ = "Counting"
    fork = counting(tmp_path / "fork", Failing, savepoint=savepoint, allowNonRestoredState="true")
    with pytest.raises(ContractError, match="version 1 cannot be read"):
        fork.batch(ONE)
