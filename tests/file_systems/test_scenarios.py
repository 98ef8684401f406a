"""One suite for every file system, with a files source that reads from it and stores its state in it."""

from __future__ import annotations

import gzip
import io
import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gcp_storage_emulator.server import RequestHandler

from flip27_source import savepoints
from flip27_source.errors import OptionError, StateLocationError
from flip27_source.snapshots.store import open_store
from flip27_source.testing import MicroBatchEngine, Step, check_store
from tests.gcs_server import gcs_endpoint, new_gcs_bucket
from tests.places import PLACES, WRITABLE, Place, each
from tests.soak.clouds import CLOUDS, play

LINE = pa.schema([pa.field("value", pa.string())])
NUMBER = pa.schema([pa.field("id", pa.int64())])
SHARED = [name for name in WRITABLE if name != "memory"]
"""Places that several processes can share."""

KILLS = (Step.STATE_WRITTEN, Step.OFFSET_LOGGED, Step.TASK_ENDED, Step.SINK_WRITTEN)


def query(
    place: Place, state: str | None = None, schema: pa.Schema = LINE, **options: str
) -> MicroBatchEngine:
    """A query whose files and state are in one place."""
    given = {
        "enumerator": "files", "reader": "text", "path": place.landing, "requestInterval": "0s",
        "discoveryInterval": "1ms", "discoveryRetries": "0", "stateLocation": state or f"{place.url}/state",
        **place.options,
    }  # fmt: skip
    return MicroBatchEngine({**given, **options}, schema=schema)


def rows(engine: MicroBatchEngine) -> list[str]:
    return sorted(row[0] for row in engine.rows)


def all_rows(engine: MicroBatchEngine) -> list[str]:
    """Run the query, with kills, until nothing is new; return all rows it has read."""
    for step in KILLS:
        engine.crash_at(step)
    engine.process_all_available(through_crashes=True)
    return rows(engine)


def test_each_file_is_read_once_through_kills_and_restarts(place: Place) -> None:
    for name in ("a", "day=1/b", "day=1/hour=2/c", "_hidden", "below/left out"):
        place.put(name, f"{name}\n".encode())
    engine = query(place, maxFilesPerTrigger="1")
    assert all_rows(engine) == ["a", "day=1/b", "day=1/hour=2/c"]
    place.put("day=1/d", b"day=1/d\n")
    place.put("empty", b"")
    engine.restart()
    assert all_rows(engine) == ["a", "day=1/b", "day=1/d", "day=1/hour=2/c"]
    assert place.files("state")


def test_the_state_holds_paths_with_host_or_account_and_no_secret(place: Place) -> None:
    place.put("a", b"a\n")
    engine = query(place)
    engine.process_all_available()
    stored = b"".join(place.files("state").values()) + "".join(engine.logs.offsets).encode()
    assert f"{place.landing}/a".encode() in stored
    assert [secret for secret in place.secrets if secret.encode() in stored] == []


@pytest.mark.parametrize("place", each(PLACES), indirect=True)
def test_every_kind_of_read_returns_the_stored_bytes(place: Place) -> None:
    """Reads of whole files, of compressed files, of ranges, and from the end of a file, as for Parquet."""
    lines = [f"{number:07d}" for number in range(20_000)]
    text = "".join(f"{line}\n" for line in lines).encode()
    place.put("text/large", text)
    place.put("text/packed.gz", gzip.compress(b"packed\n"))
    engine = query(place, state="memory://", path=f"{place.landing}/text", maxPartitionBytes="50k")
    engine.process_all_available()
    assert rows(engine) == [*lines, "packed"]
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(1000)}, schema=NUMBER), sink, row_group_size=100)
    place.put("parquet/a", sink.getvalue())
    of_parquet = query(
        place, state="memory://", path=f"{place.landing}/parquet", reader="parquet", schema=NUMBER
    )
    of_parquet.process_all_available()
    assert sorted(row[0] for row in of_parquet.rows) == list(range(1000))


@pytest.mark.parametrize("place", each(PLACES), indirect=True)
@pytest.mark.parametrize("known", ["nameCursor", "modifiedCursor"])
def test_a_cursor_finds_only_new_files_and_none_of_them_twice(place: Place, known: str) -> None:
    state = f"memory://cursor-{id(place)}"
    for name in ("a", "b"):
        place.put(name, f"{name}\n".encode())
    engine = query(place, state=state, seenFiles=known)
    engine.process_all_available()
    place.put("c", b"c\n")
    engine.restart()
    engine.process_all_available()
    engine.restart()
    engine.process_all_available()
    assert rows(engine) == ["a", "b", "c"]


@pytest.mark.parametrize("place", [*each(WRITABLE), "web"], indirect=True)
def test_an_overwritten_file_is_read_again_if_overwrites_are_allowed(place: Place) -> None:
    place.put("a", b"old\n")
    engine = query(place, state=f"memory://overwritten-{id(place)}", allowOverwrites="true")
    engine.process_all_available()
    place.put("a", b"newer\n")
    engine.process_all_available()
    assert rows(engine) == ["newer", "old"]


def test_globs_and_subfolders_are_listed(place: Place) -> None:
    for name in ("eu-1/x/a", "eu-2/b", "us-1/c"):
        place.put(name, f"{name}\n".encode())
    engine = query(place, path=f"{place.landing}/eu-*", recursiveFileLookup="true")
    engine.process_all_available()
    assert rows(engine) == ["eu-1/x/a", "eu-2/b"]


@pytest.mark.parametrize("place", each(PLACES), indirect=True)
def test_a_path_that_does_not_exist_is_an_error_that_names_it(place: Place) -> None:
    place.put("a", b"")
    with pytest.raises(OptionError, match="/elsewhere does not exist"):
        query(place, state="memory://", path=f"{place.url}/elsewhere").run_batch()


def test_a_folder_emptied_by_cleaning_is_not_a_missing_path(place: Place) -> None:
    place.put("a", b"a\n")
    engine = query(place, cleanSource="delete")
    engine.process_all_available()
    engine.restart()
    engine.run_batch()
    engine.restart()
    engine.run_batch()
    assert place.names() == set()
    place.put("b", b"b\n")
    engine.restart()
    engine.process_all_available()
    assert rows(engine) == ["a", "b"]


def test_the_store_keeps_the_laws_S2(place: Place) -> None:
    places = (f"{place.url}/laws-{number}" for number in itertools.count())
    check_store(
        lambda: open_store(next(places), place.storage_options),
        reopen=lambda store: open_store(store.location, place.storage_options | place.own_client),
        shared=place.creates_exclusively,
    )


@pytest.mark.parametrize("place", each(SHARED), indirect=True)
def test_thirty_batches_report_while_old_reports_are_cleaned_up(place: Place) -> None:
    """Tasks are other processes, with their own file systems; the driver lists the reports now and then."""
    for number in range(30):
        place.put(
            *(f"{number:02}.gz", b"damaged") if number % 10 == 5 else (f"{number:02}", b"%d\n" % number)
        )
    engine = query(
        place,
        maxFilesPerTrigger="1",
        onSplitError="quarantine",
        maxSplitAttempts="1",
        retainedCheckpoints="2",
    )
    assert all_rows(engine) == sorted(str(number) for number in range(30) if number % 10 != 5)
    reports = [name for name in place.files("state") if "/reports/" in name]
    assert 0 < len(reports) < 20


@pytest.mark.parametrize("place", each(SHARED), indirect=True)
def test_tasks_report_on_file_systems_with_exclusive_creation(place: Place) -> None:
    """In other places the query stops before it reads a row."""
    place.put("a", b"a\n")
    engine = query(place, ignoreCorruptFiles="true")
    if place.creates_exclusively:
        assert all_rows(engine) == ["a"]
    else:
        with pytest.raises(StateLocationError, match="only if it does not exist"):
            engine.run_batch()
        assert engine.rows == []


def test_an_object_store_that_ignores_conditions_is_refused_if_tasks_report() -> None:
    """The emulator of Google Cloud Storage ignores them, and so do some servers with the protocol of S3."""
    with gcs_endpoint(RequestHandler) as endpoint:
        place = Place.of(new_gcs_bucket(endpoint), creates_exclusively=False)
        place.put("a", b"a\n")
        reporting = query(place, ignoreCorruptFiles="true")
        with pytest.raises(StateLocationError, match="only if it does not exist"):
            reporting.run_batch()
        assert reporting.rows == []
        assert all_rows(query(place)) == ["a"]


def test_a_savepoint_starts_queries_on_the_same_and_on_another_file_system(
    place: Place, tmp_path: Path
) -> None:
    for name in "ab":
        place.put(name, f"{name}\n".encode())
    engine = query(place, maxFilesPerTrigger="1")
    engine.process_all_available()
    where = {"state": f"{place.url}/state", "storage_options": place.storage_options}
    there = savepoints.create(to=f"{place.url}/saved", **where)
    elsewhere = savepoints.create(to=str(tmp_path / "elsewhere"), **where)
    assert there.directory.startswith(f"{place.url}/saved/savepoint-")
    assert savepoints.verify(there.directory, place.storage_options).is_whole
    place.put("c", b"c\n")
    # Only the first checkpoint is known to be complete.
    for number, made in enumerate((there, elsewhere)):
        fork = query(place, state=f"{place.url}/fork-{number}", savepoint=made.directory)
        assert all_rows(fork) == ["b", "c"]
    engine.process_all_available()
    assert rows(engine) == ["a", "b", "c"]
    savepoints.delete(there.directory, place.storage_options)
    assert place.files("saved") == {}


@pytest.mark.parametrize("place", each(SHARED), indirect=True)
def test_a_savepoint_is_claimed_once_on_file_systems_with_exclusive_creation(place: Place) -> None:
    for name in "ab":
        place.put(name, f"{name}\n".encode())
    engine = query(place, maxFilesPerTrigger="1")
    engine.process_all_available()
    where = {"state": f"{place.url}/state", "storage_options": place.storage_options}
    made = savepoints.create(to=f"{place.url}/saved", **where)
    fork = query(place, state=f"{place.url}/fork", savepoint=made.directory, savepointClaim="claim")
    if not place.creates_exclusively:
        with pytest.raises(StateLocationError, match="only if it does not exist"):
            fork.run_batch()
        return
    assert all_rows(fork) == ["b"]
    second = query(place, state=f"{place.url}/second", savepoint=made.directory, savepointClaim="claim")
    with pytest.raises(StateLocationError, match="is claimed by the query"):
        second.run_batch()


@pytest.mark.parametrize("place", ["azure"], indirect=True)
@pytest.mark.parametrize("protocol", ["abfss", "az", "wasbs"])
def test_every_way_to_write_the_url_of_a_container_names_the_same_files(place: Place, protocol: str) -> None:
    """After a change of the protocol in the options, a query reads nothing again."""
    place.put("a", b"a\n")
    engine = query(place)
    engine.process_all_available()
    place.put("b", b"b\n")
    rest = place.url.partition("://")[2]
    url = f"{protocol}://{rest.replace('.dfs.', '.blob.') if protocol == 'wasbs' else rest}"
    other = query(place, path=f"{url}/landing", state=f"{url}/state")
    other.logs, other.sink = engine.logs, engine.sink
    other.restart()
    other.process_all_available()
    assert rows(other) == ["a", "b"]


KILLED_DRIVERS = 2


@pytest.mark.slow  # a short form of the soak
@pytest.mark.parametrize(
    "cloud", [pytest.param(cloud, marks=pytest.mark.long) if cloud == "gcs" else cloud for cloud in CLOUDS]
)
def test_killed_drivers_lose_and_duplicate_nothing_in_the_cloud(cloud: str, tmp_path: Path) -> None:
    outcome = play(cloud, tmp_path / cloud, kills=KILLED_DRIVERS, seed=15)
    assert outcome.is_exact, f"{outcome}\n{outcome.misplaced[:10]}"
    assert outcome.kills == KILLED_DRIVERS
    assert outcome.batches > 0
