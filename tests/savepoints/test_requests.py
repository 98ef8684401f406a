"""Savepoints requested from a running query: it makes them at a batch boundary, with what readers add."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flip27_source import edits, savepoints
from flip27_source.cli.main import main
from flip27_source.errors import ContractError, SplitReadError, StateLocationError
from flip27_source.reader import SplitReader
from flip27_source.savepoints.format import open_savepoint_at
from flip27_source.snapshots.store import LocalStore
from tests.driver.batches import Batches
from tests.savepoints.test_savepoints import on_disk
from tests.toy_sources import FEEDS, EchoReader, Feed, items


class Remembering(SplitReader[Any]):
    """Echoes its splits, and adds them to savepoints as the reader's state."""

    told: list[bool] = []  # noqa: RUF012

    def read(self, split: Any) -> Iterator[tuple[str]]:
        self.told.append(self.context.is_savepoint)
        if self.context.is_savepoint:
            with self.context.savepoint_stream(f"{split.split_id}.bin") as stream:
                stream.write(split.split_id.encode())
        yield (split.split_id,)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Remembering.told.clear()


def running(state: Path, *names: str, reader: Any = Remembering) -> Batches:
    """Return a query that has read the first item; ``names`` are the items that wait."""
    FEEDS["asked"] = items("first")
    batches = on_disk(Feed, reader, state, feed="asked")
    batches.batch()
    FEEDS["asked"] += items(*names)
    return batches


def ask(state: Path, to: Path) -> str:
    """Request a savepoint without waiting for it; return the id of the request."""
    return savepoints.request(state=str(state), to=str(to)).request_id


def waiting(state: Path) -> list[str]:
    return [path.name for path in state.glob("*/requests/*")]


def made_in(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("savepoint-*/_metadata"))


def test_the_next_checkpoint_becomes_a_savepoint_and_every_requester_is_notified(tmp_path: Path) -> None:
    state, saved = tmp_path / "state", tmp_path / "saved"
    batches = running(state, "a")
    ask(state, saved)
    batches.restart()
    assert batches.trigger()
    metadata = batches.snapshot().metadata
    assert (metadata.is_savepoint, metadata.target_directory) == (True, str(saved))
    assert [row for task in batches.tasks() for row in batches.attempt(task)] == ["a"]
    assert made_in(saved) == []
    batches.commit()
    assert batches.trigger() is False
    (savepoint,) = made_in(saved)
    assert waiting(state) == []
    assert Remembering.told == [False, True]
    assert Path(savepoint, "readers", "0", "a.bin").read_bytes() == b"a"
    assert savepoints.verify(str(savepoint)).is_whole
    Path(savepoint, "readers", "0", "a.bin").write_bytes(b"altered")
    assert [file.name for file in savepoints.verify(str(savepoint)).damaged] == ["readers/0/a.bin"]
    found = open_savepoint_at(str(savepoint), {})
    assert found.document.raw.kind == "savepoint"
    assert list(found.metadata.readers) == ["0/a.bin"]
    fork = on_disk(Feed, Remembering, tmp_path / "fork", feed="asked", savepoint=str(savepoint))
    FEEDS["asked"] += items("b")
    assert fork.batch() == ["b"]
    assert batches.batch() == ["b"]
    assert batches.snapshot().metadata.is_savepoint is False


def test_a_savepoint_that_its_user_has_deleted_does_not_come_back_at_a_restart(tmp_path: Path) -> None:
    state, saved = tmp_path / "state", tmp_path / "saved"
    batches = running(state)
    ask(state, saved)
    batches.restart()
    assert batches.batch() == []
    assert batches.batch() is None
    (made,) = made_in(saved)
    savepoints.delete(str(made))
    batches.restart()
    assert batches.batch() is None
    assert made_in(saved) == []


@pytest.mark.parametrize(
    "killed",
    ["before the tasks", "before the source is notified of the commit", "before the request is deleted"],
)
def test_a_query_killed_while_it_makes_a_savepoint_makes_it_exactly_once(tmp_path: Path, killed: str) -> None:
    state, saved = tmp_path / "state", tmp_path / "saved"
    batches = running(state, "a")
    batches.now_ms = 2**50  # the driver's clock is far ahead of the requester's
    ask(state, saved)
    (request,) = state.glob("*/requests/*")
    content = request.read_bytes()
    batches.restart()
    batches.trigger()
    if killed == "before the tasks":
        batches.restart()
    rows = [row for task in batches.tasks() for row in batches.attempt(task)]
    batches.commit()
    if killed == "before the request is deleted":
        batches.batch()
        request.write_bytes(content)
    batches.restart()
    assert batches.batch() is None
    assert batches.batch() is None
    assert rows == ["a"]
    assert len(made_in(saved)) == 1
    assert waiting(state) == []


def test_a_restart_does_not_rewrite_an_existing_savepoint(tmp_path: Path) -> None:
    state, saved = tmp_path / "state", tmp_path / "saved"
    batches = running(state, "a")
    ask(state, saved)
    batches.restart()
    batches.batch()
    batches.batch()
    (metadata,) = saved.glob("*/_metadata")
    before = metadata.stat()
    batches.restart()
    assert batches.batch() is None
    assert metadata.stat() == before


def test_a_request_that_cannot_be_deleted_is_fulfilled_once(tmp_path: Path) -> None:
    class KeepsAll(LocalStore):
        def delete(self, name: str) -> None:
            raise StateLocationError(f"{name} cannot be deleted")

    state, saved = tmp_path / "state", tmp_path / "saved"
    batches = running(state)
    ask(state, saved)
    batches.store = KeepsAll(str(state))
    batches.restart_with({"requestInterval": "1ms"})
    assert batches.batch() == []
    for _ in range(50):
        assert batches.batch() is None
    assert len(made_in(saved)) == 1


def test_requests_with_the_same_target_share_one_savepoint(tmp_path: Path) -> None:
    state = tmp_path / "state"
    batches = running(state)
    for target in ("one", "two", "one"):
        ask(state, tmp_path / target)
    batches.restart()
    assert [batches.batch(), batches.batch(), batches.batch()] == [[], [], None]
    assert [len(made_in(tmp_path / target)) for target in ("one", "two")] == [1, 1]


def test_no_savepoint_is_made_for_a_withdrawn_request(tmp_path: Path) -> None:
    state = tmp_path / "state"
    batches = running(state)
    ask(state, tmp_path / "saved")
    batches.restart()
    batches.enumerator()
    for request in state.glob("*/requests/*"):
        request.unlink()
    assert batches.batch() is None
    assert not (tmp_path / "saved").exists()


def test_a_failing_reader_adds_no_file_to_a_savepoint_and_file_names_must_be_plain(tmp_path: Path) -> None:
    class Failing(Remembering):
        def read(self, split: Any) -> Iterator[tuple[str]]:
            with self.context.savepoint_stream("half.bin") as stream:
                stream.write(b"half")
                raise RuntimeError("in the middle")
            yield ("never",)

    class Escaping(Remembering):
        def read(self, split: Any) -> Iterator[tuple[str]]:
            with self.context.savepoint_stream("../../escaped"):
                pass
            yield ("never",)

    for kind, error in ((Failing, SplitReadError), (Escaping, ContractError)):
        state, saved = tmp_path / kind.__name__, tmp_path / f"saved-{kind.__name__}"
        batches = running(state, "a", reader=EchoReader)
        batches.source = type(batches.source).resolve(batches.options, enumerator=Feed, reader=kind)
        ask(state, saved)
        batches.restart()
        task = batches.next_task()
        with pytest.raises(error):
            batches.attempt(task)
        assert not list(saved.rglob("*.bin"))
        assert not list(tmp_path.rglob("escaped"))


def test_opening_a_savepoint_stream_in_an_ordinary_batch_is_a_contract_error(tmp_path: Path) -> None:
    class Always(Remembering):
        def read(self, split: Any) -> Iterator[tuple[str]]:
            with self.context.savepoint_stream("state.bin"):
                pass
            yield ("never",)

    FEEDS["asked"] = items("first")
    batches = on_disk(Feed, Always, tmp_path / "state", feed="asked")
    with pytest.raises(ContractError, match=r"check context\.is_savepoint first"):
        batches.batch()


def test_a_request_waits_for_a_stopped_query_until_it_is_withdrawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, saved = str(tmp_path / "state"), str(tmp_path / "saved")
    batches = running(tmp_path / "state")
    assert main(["savepoint", "request", "--state", state, "--to", saved]) == 0
    said = capsys.readouterr()
    request_id = said.out.strip()
    assert waiting(tmp_path / "state") == [f"{request_id}.json"]
    assert f"at its next batch boundary, in {saved}" in said.err
    assert main(["savepoint", "withdraw", request_id[:9], "--state", state]) == 0
    capsys.readouterr()
    assert main(["savepoint", "withdraw", request_id, "--state", state]) == 1
    assert f"there is no request {request_id}" in capsys.readouterr().err
    batches.restart()
    assert batches.batch() is None
    assert not Path(saved).exists()


def test_an_edit_request_cannot_be_withdrawn_as_a_savepoint_request(tmp_path: Path) -> None:
    running(tmp_path / "state")
    asked = edits.submit(edits.plan("replay", state=str(tmp_path / "state"), why="a test", splits=["first"]))
    with pytest.raises(StateLocationError, match="existing requests: none"):
        savepoints.withdraw(asked, state=str(tmp_path / "state"))
    assert waiting(tmp_path / "state") == [f"{asked}.json"]
