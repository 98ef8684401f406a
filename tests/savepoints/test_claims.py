"""Claimed savepoints: which query owns them, and when they are deleted (scenarios S81, S82)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flip27_source import savepoints
from flip27_source.coordination.batch_limits import Limits
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import OptionError, StateLocationError
from flip27_source.savepoints.claims import delete_subsumed
from flip27_source.savepoints.management import describe, list_savepoints
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.snapshots.store import LocalStore
from flip27_source.testing.steps import Killed
from flip27_source.testing.watched_store import WatchedStore
from tests.driver.batches import Batches
from tests.raw_server import answer, raw_server, says
from tests.s3_server import S3Bucket
from tests.savepoints.test_savepoints import on_disk, with_bulk_state
from tests.toy_sources import INITIAL, BulkFeed, EchoReader

ONE = Limits(files=1)


@pytest.fixture
def savepoint(tmp_path: Path) -> str:
    """A savepoint with bulk state, after the first two of many items."""
    with_bulk_state(tmp_path / "state", "many", 60)
    return savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved")).directory


def claimant(savepoint: str, state: Path, **options: str) -> Batches:
    chosen = {"savepointClaim": "claim", "retainedCheckpoints": "3", **options}
    return on_disk(BulkFeed, EchoReader, state, feed="many", savepoint=savepoint, **chosen)


def run(batches: Batches, count: int) -> list[str]:
    read = [row for _ in range(count) for row in batches.batch(ONE) or []]
    batches.wait_for_clean_up()
    return [row[:3] for row in read]


def clean_up(state: Path, checkpoint_id: int, retained: int) -> bool:
    (lineage,) = [path.name for path in state.iterdir()]
    committed = CheckpointName(checkpoint_id, "0" * 32)
    return delete_subsumed(LocalStore(str(state)), lineage, committed, retained, LocalStore)


def test_a_claimed_savepoint_is_deleted_once_it_is_subsumed_S81(tmp_path: Path, savepoint: str) -> None:
    fork = claimant(savepoint, tmp_path / "fork")
    assert run(fork, 30) == [f"{n:03}" for n in range(1, 31)]
    assert not Path(savepoint).exists()
    assert not list((tmp_path / "fork").glob("*/claim.json"))
    fork.restart()
    assert run(fork, 2) == ["031", "032"]


def test_a_claimed_savepoint_stays_as_long_as_it_is_one_of_the_retained_checkpoints_S81(
    tmp_path: Path, savepoint: str
) -> None:
    fork = claimant(savepoint, tmp_path / "fork")
    run(fork, 3)
    # Checkpoint 1 is the restored one; the fork itself made 2, 3 and 4.
    assert not clean_up(tmp_path / "fork", 3, retained=3)
    assert Path(savepoint, "_metadata").exists()
    assert clean_up(tmp_path / "fork", 4, retained=3)
    assert not Path(savepoint).exists()
    assert not clean_up(tmp_path / "fork", 5, retained=3)


def test_a_savepoint_that_is_not_claimed_is_never_deleted_S81(tmp_path: Path, savepoint: str) -> None:
    before = sorted(path for path in Path(savepoint).rglob("*"))
    fork = claimant(savepoint, tmp_path / "fork", savepointClaim="noClaim")
    run(fork, 30)
    assert sorted(path for path in Path(savepoint).rglob("*")) == before
    run(claimant(savepoint, tmp_path / "another", savepointClaim="noClaim"), 30)
    assert sorted(path for path in Path(savepoint).rglob("*")) == before


@pytest.mark.parametrize("claim", ["claim", "noClaim"])
def test_the_first_checkpoint_needs_nothing_of_the_savepoint_even_after_a_crash_S82(
    tmp_path: Path, savepoint: str, claim: str
) -> None:
    fork = claimant(savepoint, tmp_path / "fork", savepointClaim=claim)
    fork.trigger(ONE)
    shutil.rmtree(savepoint)
    fork.restart()
    (task,) = fork.tasks()
    assert [row[:3] for row in fork.attempt(task)] == ["001"]
    fork.commit()
    assert run(fork, 2) == ["002", "003"]


def test_a_savepoint_in_a_bucket_is_claimed_and_deleted_too_S81(
    tmp_path: Path, savepoint: str, s3_bucket: S3Bucket
) -> None:
    bucket, name = s3_bucket, f"{s3_bucket.name}/saved/{Path(savepoint).name}"
    bucket.file_system.put(f"{savepoint}/", f"{name}/", recursive=True)
    fork = claimant(f"s3://{name}", tmp_path / "fork", **bucket.options)
    run(fork, 2)
    with pytest.raises(StateLocationError, match="is claimed by"):
        claimant(f"s3://{name}", tmp_path / "another", **bucket.options).batch(ONE)
    run(fork, 20)
    assert bucket.file_system.find(f"{bucket.name}/saved") == []


def test_savepoints_in_a_bucket_that_does_not_exist_are_an_error(s3_bucket: S3Bucket) -> None:
    given = {name.removeprefix("storage."): value for name, value in s3_bucket.options.items()}
    assert list_savepoints(f"s3://{s3_bucket.name}/saved", given) == []
    with pytest.raises(StateLocationError, match="s3://no-such-bucket/saved does not exist"):
        list_savepoints("s3://no-such-bucket/saved", given)


def test_a_bucket_that_may_not_be_listed_is_not_one_that_does_not_exist(s3_bucket: S3Bucket) -> None:
    given = {name.removeprefix("storage."): value for name, value in s3_bucket.options.items()}
    with (
        raw_server(says(answer(b"", "Connection: close", status="403 Forbidden"))) as server,
        pytest.raises(StateLocationError, match=r"cannot list in s3://a-bucket/saved"),
    ):
        list_savepoints("s3://a-bucket/saved", given | {"endpoint_url": server.url})


@pytest.mark.parametrize(
    ("status", "said"),
    [("404 Not Found", "there is no savepoint"), ("503 Service Unavailable", "answered with status 503")],
)
def test_a_web_server_that_fails_is_not_one_without_a_savepoint(status: str, said: str) -> None:
    with (
        raw_server(says(answer(b"", "Connection: close", status=status))) as server,
        pytest.raises(StateLocationError, match=said),
    ):
        describe(f"{server.url}/saved/savepoint-1")
    with pytest.raises(StateLocationError, match=r"cannot read .*_metadata"):
        describe(f"{server.url}/saved/savepoint-1")


def test_a_savepoint_claimed_by_one_query_can_be_read_but_not_claimed_by_another(
    tmp_path: Path, savepoint: str
) -> None:
    first = claimant(savepoint, tmp_path / "first")
    run(first, 2)
    second = claimant(savepoint, tmp_path / "second")
    with pytest.raises(StateLocationError, match=r"is claimed by the query whose source BulkFeed .*/first/"):
        second.batch(ONE)
    assert not (tmp_path / "second").exists()
    assert run(claimant(savepoint, tmp_path / "third", savepointClaim="noClaim"), 1) == ["001"]


def test_an_already_running_query_with_the_same_options_counts_as_another_query(
    tmp_path: Path, savepoint: str
) -> None:
    run(claimant(savepoint, tmp_path / "shared"), 2)
    with pytest.raises(StateLocationError, match="is claimed by"):
        claimant(savepoint, tmp_path / "shared").batch(ONE)


def test_one_of_two_simultaneous_claims_fails_before_it_has_announced_a_batch(
    tmp_path: Path, savepoint: str
) -> None:
    first, second = claimant(savepoint, tmp_path / "first"), claimant(savepoint, tmp_path / "second")
    first.enumerator()
    second.enumerator()
    run(first, 1)
    with pytest.raises(StateLocationError, match="is claimed by"):
        second.trigger(ONE)


def test_a_query_killed_before_spark_logged_its_first_batch_can_claim_again(
    tmp_path: Path, savepoint: str
) -> None:
    fork = claimant(savepoint, tmp_path / "fork")
    fork.trigger(ONE)
    again = claimant(savepoint, tmp_path / "fork")
    assert run(again, 30) == [f"{n:03}" for n in range(1, 31)]
    assert not Path(savepoint).exists()


@pytest.mark.parametrize("killed_after", [["_metadata"], ["_metadata", "segments"], ["."]])
def test_a_killed_deletion_is_resumed(tmp_path: Path, savepoint: str, killed_after: list[str]) -> None:
    fork = claimant(savepoint, tmp_path / "fork")
    run(fork, 3)
    (record,) = (tmp_path / "fork").glob("*/claim.json")
    for name in killed_after:
        deleted = Path(savepoint, name)
        deleted.unlink() if deleted.is_file() else shutil.rmtree(deleted)
    clean_up(tmp_path / "fork", 9, retained=3)
    assert not Path(savepoint).exists()
    assert not record.exists()


def test_a_savepoint_whose_claim_was_removed_is_kept(tmp_path: Path, savepoint: str) -> None:
    run(claimant(savepoint, tmp_path / "fork"), 3)
    Path(savepoint, "_claim").unlink()
    assert not clean_up(tmp_path / "fork", 9, retained=3)
    assert Path(savepoint, "_metadata").exists()


def test_files_of_others_in_a_claimed_savepoint_are_kept(tmp_path: Path, savepoint: str) -> None:
    run(claimant(savepoint, tmp_path / "fork"), 3)
    Path(savepoint, "notes.txt").write_text("of people")
    assert clean_up(tmp_path / "fork", 9, retained=3)
    assert [path.name for path in Path(savepoint).rglob("*")] == ["notes.txt"]


def test_a_claim_needs_a_state_location_and_a_savepoint(tmp_path: Path, savepoint: str) -> None:
    options = {"feed": "many", "savepointClaim": "claim"}
    with pytest.raises(OptionError, match=r"savepointClaim is set, .* option savepoint is not set"):
        Batches(BulkFeed, EchoReader, options).batch()
    inline = Batches(BulkFeed, EchoReader, {**options, "savepoint": savepoint})
    inline.store = None  # type: ignore[assignment]
    inline.restart()
    with pytest.raises(
        StateLocationError, match="option stateLocation, where the claim is stored, is not set"
    ):
        inline.batch()


def test_a_kill_between_the_claim_and_the_first_offset_does_not_block_the_next_start(
    tmp_path: Path, savepoint: str
) -> None:
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == kill_at:
            raise Killed("as asked")

    for kill_at in range(1, 12):
        steps = 0
        state = tmp_path / f"fork-{kill_at}"
        copy = shutil.copytree(savepoint, tmp_path / f"copy-{kill_at}")
        fork = claimant(str(copy), state)
        fork.store = WatchedStore(LocalStore(str(state)), step, step)
        fork.restart()
        try:
            fork.trigger(ONE)
        except Killed:
            fork = claimant(str(copy), state)
            assert run(fork, 2) == ["001", "002"]
        else:
            break
    assert kill_at > 4


def test_a_batch_read_begins_with_a_savepoint_and_claims_nothing(tmp_path: Path, savepoint: str) -> None:
    fork = claimant(savepoint, tmp_path / "fork")
    holder = CoordinatorHolder(fork.source, Boundedness.BOUNDED, store=fork.store, one_batch=True)
    end = holder.latest_offset(INITIAL, None)
    assert end["summary"]["splits"] == 59
    assert not Path(savepoint, "_claim").exists()
    run(claimant(savepoint, tmp_path / "another"), 1)
    assert Path(savepoint, "_claim").exists()
