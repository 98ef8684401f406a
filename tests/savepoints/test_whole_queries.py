"""Savepoints of whole queries, made from checkpoint directories in Spark's format."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from flip27_source import savepoints
from flip27_source.cli.main import main
from flip27_source.errors import CorruptStateError, MissingStateError, StateLocationError
from flip27_source.savepoints import whole_queries as whole_query
from flip27_source.savepoints.claims import delete_subsumed
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.snapshots.spark_checkpoint import files_of_batch
from flip27_source.snapshots.store import LocalStore
from tests.driver.batches import Batches
from tests.driver.test_reports import SERVER
from tests.savepoints.test_savepoints import log_as_spark, paged

OF_BATCH_1 = [
    "metadata",
    "offsets/0",
    "offsets/1",
    "commits/0",
    "commits/1",
    "sources/0/0",
    "state/0/0/1.delta",
    "state/0/0/2.delta",
    "state/0/0/2.snapshot",
    "state/0/0/_metadata/schema",
    "state/0/1/2_4f1c0d2e.zip",
    "state/0/1/SSTs/000011-4f1c.sst",
    "state/0/_metadata/metadata",
    "state/0/_metadata/v2/0",
]
LATER = [
    "offsets/2",
    "state/0/0/3.delta",
    "state/0/0/.3.delta.1234.tmp",
    "state/0/1/3_77aa.changelog",
    "state/0/_metadata/v2/2",
    "commits/.1.crc",
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    SERVER.clear()


class Query:
    """A query with one source, two committed batches and a third under way."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checkpoint = root / "checkpoint"
        self.state = self.checkpoint / "flip27"
        SERVER["orders"] = list("abcdefgh")
        self.batches = paged(self.state)
        for batch_id in range(2):
            self.batches.batch()
            log_as_spark(self.batches, self.checkpoint, batch_id)
        for name in (*OF_BATCH_1, *LATER):
            file = self.checkpoint / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                file.write_text(json.dumps({"id": "of the original"}) if name == "metadata" else name)

    def savepoint(self, **options: Any) -> savepoints.CreatedSavepoint:
        to = str(self.root / "saved")
        return savepoints.create(state=str(self.state), to=to, query=True, **options)

    def fork(self, restored: savepoints.RestoredQuery) -> Batches:
        fork = paged(Path(restored.state_location))
        log = Path(restored.checkpoint_location, "offsets", str(restored.batch_id))
        fork.committed = fork.logged = json.loads(log.read_text().splitlines()[2])
        return fork


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path)


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_files_of_later_batches_are_left_out(query: Query) -> None:
    assert sorted(files_of_batch(str(query.checkpoint), {}, 1)) == sorted(OF_BATCH_1)


def test_a_fork_continues_after_the_batch_wherever_the_original_is(query: Query) -> None:
    made = query.savepoint()
    assert (made.batch_id, made.checkpoint_id) == (1, 2)
    shutil.rmtree(query.checkpoint)
    moved = shutil.move(made.directory, query.root / "moved")
    restored = savepoints.restore_query(str(moved), str(query.root / "fork"))
    assert (restored.batch_id, restored.state_location) == (1, str(query.root / "fork" / "flip27"))
    files = [name for name in names_below(query.root / "fork") if not name.startswith("flip27/")]
    assert files == sorted(OF_BATCH_1)
    fork = query.fork(restored)
    assert [fork.batch(), fork.batch()] == [list("ef"), list("gh")]


def test_spark_sees_a_fork_as_another_query(query: Query) -> None:
    made = query.savepoint()
    ids = []
    for name in ("one", "two"):
        savepoints.restore_query(made.directory, str(query.root / name))
        ids.append(json.loads((query.root / name / "metadata").read_text())["id"])
    assert len({"of the original", *ids}) == 3


def test_a_query_can_also_start_from_the_source_alone(query: Query) -> None:
    fork = paged(query.root / "fork", savepoint=query.savepoint().directory)
    assert fork.batch() == list("ef")


def with_three_sources(query: Query) -> str:
    """Create a savepoint of the query with two further sources, whose state is next to that of the first.

    All have read the same at the same time, as if one stream was used three times.
    """
    sources = [query.batches, paged(query.state), paged(query.state)]
    for source in sources[1:]:
        assert [source.batch(), source.batch()] == [list("ab"), list("cd")]
    offsets = [json.dumps(source.committed) for source in sources]
    (query.checkpoint / "offsets" / "1").write_text("\n".join(["v1", "{}", *offsets]))
    return query.savepoint().directory


def test_every_source_of_the_query_is_saved(query: Query) -> None:
    made = with_three_sources(query)
    assert savepoints.verify(made).is_whole
    restored = savepoints.restore_query(made, str(query.root / "fork"))
    rows = []
    for line in (query.root / "fork" / "offsets" / "1").read_text().splitlines()[2:]:
        fork = paged(Path(restored.state_location))
        fork.committed = fork.logged = json.loads(line)
        rows.append(fork.batch())
    assert rows == [list("ef")] * 3


def test_a_query_with_several_sources_is_stopped_only_if_one_of_them_is_chosen(query: Query) -> None:
    class Stops:
        stopped = False

        def stop(self) -> None:
            self.stopped = True

    with_three_sources(query)
    stops, to, state = Stops(), str(query.root / "one"), str(query.state)
    with pytest.raises(StateLocationError, match="has several sources"):
        savepoints.stop_with_savepoint(stops, to, state=state)
    assert not stops.stopped
    first = min(path.name for path in query.state.iterdir())
    made = savepoints.stop_with_savepoint(stops, to, state=state, lineage=first)
    assert (stops.stopped, made.batch_id) == (True, 1)


def test_a_claimed_savepoint_of_a_whole_query_is_deleted_as_a_whole(query: Query) -> None:
    made = with_three_sources(query)
    state = query.root / "fork"
    paged(state, savepoint=made, savepointClaim="claim").batch()
    (lineage,) = [path.name for path in state.iterdir()]
    committed = CheckpointName(9, "0" * 32)
    assert delete_subsumed(LocalStore(str(state)), lineage, committed, 2, LocalStore)
    assert not Path(made).exists()


def test_the_commands_create_and_restore_a_savepoint(
    query: Query, capsys: pytest.CaptureFixture[str]
) -> None:
    to, fork = str(query.root / "saved"), str(query.root / "fork")
    assert main(["savepoint", "create", "--query", "--state", str(query.state), "--to", to]) == 0
    made = capsys.readouterr().out.strip()
    assert main(["savepoint", "restore", made, "--checkpoint-location", fork]) == 0
    assert capsys.readouterr().out.strip() == fork
    assert (query.root / "fork" / "offsets" / "1").exists()


def test_files_are_listed_again_if_one_is_deleted_during_the_copy(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = []

    def lists_what_is_gone(*given: Any) -> list[str]:
        listed.append(given)
        found = files_of_batch(*given)
        return found if len(listed) > 1 else [*found, "state/0/0/0.delta"]

    monkeypatch.setattr(whole_query, "files_of_batch", lists_what_is_gone)
    made = query.savepoint()
    assert len(listed) == 2
    assert savepoints.restore_query(made.directory, str(query.root / "fork")).batch_id == 1


def test_a_batch_that_spark_deletes_meanwhile_makes_no_savepoint(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last_listing(*given: Any) -> list[str]:
        found = files_of_batch(*given)
        (query.checkpoint / "commits" / "1").unlink(missing_ok=True)
        return [name for name in found if name != "commits/1"]

    monkeypatch.setattr(whole_query, "files_of_batch", last_listing)
    with pytest.raises(MissingStateError, match=r"files of batch 1 in .* vanished during the copy"):
        query.savepoint()
    assert not list((query.root / "saved").glob("*/_metadata"))


def test_a_restore_never_overwrites_a_query(query: Query) -> None:
    made = query.savepoint()
    with pytest.raises(StateLocationError, match="is already the checkpoint location of a query"):
        savepoints.restore_query(made.directory, str(query.checkpoint))
    with pytest.raises(StateLocationError, match="contains state of the savepoint's own query"):
        savepoints.restore_query(made.directory, str(query.root / "fork"), state=str(query.state))
    assert not (query.root / "fork").exists()


def test_a_killed_restore_cannot_be_started_but_can_be_resumed(query: Query) -> None:
    made = query.savepoint()
    damaged = Path(made.directory, "query", "state/0/0/2.delta")
    damaged.write_text("altered")
    with pytest.raises(
        CorruptStateError, match=r"query/state/0/0/2.delta of savepoint .* does not match its digest"
    ):
        savepoints.restore_query(made.directory, str(query.root / "fork"))
    # Spark cannot read this as a query's metadata, and there is no offset from which it would continue.
    assert "a query is being restored" in (query.root / "fork" / "metadata").read_text()
    assert not (query.root / "fork" / "offsets").exists()
    damaged.write_text("state/0/0/2.delta")
    restored = savepoints.restore_query(made.directory, str(query.root / "fork"))
    assert query.fork(restored).batch() == list("ef")


def test_a_savepoint_of_a_source_cannot_be_restored_as_a_query(query: Query) -> None:
    made = savepoints.create(state=str(query.state), to=str(query.root / "saved"))
    with pytest.raises(StateLocationError, match="contains a source and not a whole query"):
        savepoints.restore_query(made.directory, str(query.root / "fork"))
    whole = query.savepoint()
    assert whole.directory == f"{made.directory}-batch-1"
    assert savepoints.restore_query(whole.directory, str(query.root / "fork")).batch_id == 1


def while_the_source_is_idle(query: Query) -> None:
    """Another source of the query, or an operator's state, moves on: a batch with the same checkpoint."""
    offset = (query.checkpoint / "offsets" / "1").read_text()
    (query.checkpoint / "offsets" / "2").write_text(f"{offset}\n{json.dumps({'another': 'source'})}")
    (query.checkpoint / "commits" / "2").write_text((query.checkpoint / "commits" / "1").read_text())


def test_a_savepoint_of_a_later_batch_is_made_although_the_source_was_idle(query: Query) -> None:
    first = query.savepoint()
    while_the_source_is_idle(query)
    later = query.savepoint()
    assert (later.batch_id, later.checkpoint_id) == (2, first.checkpoint_id)
    assert later.directory != first.directory
    restored = [
        savepoints.restore_query(made.directory, str(query.root / name)).batch_id
        for name, made in (("one", first), ("two", later))
    ]
    assert restored == [1, 2]
    assert query.savepoint().directory == later.directory


def test_a_fork_does_not_take_the_savepoint_of_its_original_for_its_own(query: Query) -> None:
    made = query.savepoint()
    restored = savepoints.restore_query(made.directory, str(query.root / "fork"))
    for original, fork in ((query.checkpoint, query.root / "fork"),):
        shutil.copytree(original / "offsets", fork / "offsets", dirs_exist_ok=True)
        shutil.copytree(original / "commits", fork / "commits", dirs_exist_ok=True)
    with pytest.raises(StateLocationError, match="is a savepoint of another query"):
        savepoints.create(
            state=restored.state_location,
            to=str(query.root / "saved"),
            query=True,
            checkpoint=restored.checkpoint_location,
        )


def test_a_restore_into_a_killed_restore_of_another_savepoint_is_refused(query: Query) -> None:
    first = query.savepoint()
    while_the_source_is_idle(query)
    later = query.savepoint()
    damaged = Path(first.directory, "query", "state/0/0/2.delta")
    damaged.write_text("altered")
    with pytest.raises(CorruptStateError):
        savepoints.restore_query(first.directory, str(query.root / "fork"))
    before = names_below(query.root / "fork")
    with pytest.raises(StateLocationError, match=r"a restore in .* was interrupted, of another savepoint"):
        savepoints.restore_query(later.directory, str(query.root / "fork"))
    with pytest.raises(StateLocationError, match=r"was interrupted, .* or with another state location"):
        savepoints.restore_query(first.directory, str(query.root / "fork"), state=str(query.state))
    assert names_below(query.root / "fork") == before


def test_the_checkpoint_location_of_the_query_has_to_be_known(query: Query) -> None:
    moved = shutil.move(query.state, query.root / "elsewhere")
    with pytest.raises(StateLocationError, match="is not known"):
        savepoints.create(state=str(moved), to=str(query.root / "saved"), query=True)
    made = savepoints.create(
        state=str(moved), to=str(query.root / "saved"), query=True, checkpoint=str(query.checkpoint)
    )
    assert made.batch_id == 1


@pytest.mark.parametrize("whole", [False, True])
def test_a_savepoint_is_not_made_where_a_query_has_claimed_one_of_the_same_checkpoint(
    query: Query, whole: bool
) -> None:
    made = savepoints.create(state=str(query.state), to=str(query.root / "saved"), query=whole)
    paged(query.root / "fork", savepoint=made.directory, savepointClaim="claim").batch()
    with pytest.raises(StateLocationError, match="has claimed it and will delete it"):
        savepoints.create(state=str(query.state), to=str(query.root / "saved"), query=whole)


def test_a_query_whose_sources_have_different_state_locations_is_refused(query: Query) -> None:
    SERVER["customers"] = list("abc")
    other = paged(query.root / "elsewhere", uid="customers")
    other.batch()
    with (query.checkpoint / "offsets" / "1").open("a") as log:
        log.write("\n" + json.dumps(other.logged))
    with pytest.raises(
        StateLocationError, match=r"sources .*customers.* is not in .*(?s:.)*in one stateLocation"
    ):
        query.savepoint()


def test_a_mistyped_state_location_is_an_error_that_names_it_and_nothing_is_stopped_or_written(
    query: Query,
) -> None:
    class Running:
        def stop(self) -> None:
            raise AssertionError("it was stopped")

    to, typed = str(query.root / "saved"), str(query.checkpoint / "flip72")
    before = names_below(query.root)
    for call in (
        lambda: savepoints.request(state=typed, to=to),
        lambda: savepoints.pending(state=typed),
        lambda: savepoints.withdraw("0f", state=typed),
        lambda: savepoints.stop_with_savepoint(Running(), to, state=typed),
        lambda: savepoints.create(state=typed, to=to),
        lambda: savepoints.create(state=typed, to=to, copy=True),
        lambda: savepoints.create(state=typed, to=to, query=True),
    ):
        with pytest.raises(StateLocationError, match=r"is not in the state location .*flip72(?s:.)*--state"):
            call()
    assert names_below(query.root) == before
