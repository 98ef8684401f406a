"""``flip27 retire``: what a query leaves is listed, and removed once the user confirms."""

from __future__ import annotations

import io
import itertools
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flip27_source import savepoints
from flip27_source.cli.retire import command
from flip27_source.cli.retire.query_remains import RetiredQuery, StoredSource
from flip27_source.driver.environment import Environment
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import MissingStateError, StaleDriverError
from flip27_source.leftovers import Leftover
from flip27_source.snapshots import store as stores
from flip27_source.snapshots.locations import find_lineages
from flip27_source.snapshots.removal import LineageRemoval
from flip27_source.snapshots.store import LocalStore
from flip27_source.testing.steps import Killed
from scripts.cli_page import commands
from tests.cli.command_line import Said, flip27, storage, three_batches, two_batches
from tests.deadline import soon
from tests.s3_server import S3Bucket
from tests.snapshots.spark_logs import FileQuery, log_batch, log_commit

IN_PID_NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
MAKES_NAMESPACES = (
    subprocess.run([*IN_PID_NAMESPACE, "true"], check=False, capture_output=True).returncode == 0
)
REMOVE = ("--execute", "--yes", "--json")


def below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def outcomes(said: Said) -> dict[str, str]:
    assert said.code == 0, said.err + said.out
    return {thing["kind"]: thing["outcome"] for thing in said.data["things"]}


def lineage_in(state: Path) -> Path:
    (lineage,) = (path for path in state.iterdir() if (path / "source.json").exists())
    return lineage


def test_a_dry_run_lists_what_a_query_leaves_and_changes_nothing(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    before = below(tmp_path)
    said = flip27("retire", query.checkpoint, "--json")
    assert said.code == 0
    lineage = lineage_in(query.checkpoint / "flip27")
    assert [(thing["kind"], thing["name"], thing["outcome"]) for thing in said.data["things"]] == [
        ("state", str(lineage), "would be removed"),
        ("checkpoint", str(query.checkpoint), "stays"),
    ]
    told = flip27("retire", query.checkpoint).err
    assert "nothing was changed; add --execute" in told
    assert "stop it first" not in said.out
    assert "the batch of checkpoint 3 is not known to be complete: the sink may lack its rows" in told
    assert below(tmp_path) == before


def test_only_the_state_is_removed_and_data_savepoints_and_sparks_checkpoint_stay(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    state = query.checkpoint / "flip27"
    made = savepoints.create(state=str(state), to=str(state / "saved"))
    (lineage_in(state) / "notes.txt").write_text("of the user")
    removed = flip27("retire", query.checkpoint, *REMOVE)
    assert outcomes(removed) == {"state": "removed", "checkpoint": "stays"}
    assert removed.data["is_done"] is True
    assert flip27("savepoint", "verify", made.directory).code == 0
    left = [path for path in below(tmp_path) if "/saved/" not in path]
    assert [path for path in left if path.startswith("checkpoint/flip27/")] == [
        f"checkpoint/flip27/{lineage.parent.name}/notes.txt" for lineage in state.glob("*/notes.txt")
    ]
    assert [path.partition("/")[0] for path in left].count("landing") == 3
    assert "checkpoint/offsets/1" in left


def test_sparks_checkpoint_is_removed_too_if_the_user_says_so_but_not_other_files_in_it(
    tmp_path: Path,
) -> None:
    query = two_batches(tmp_path)
    for name in (".metadata.crc", "offsets/.1.crc", "sources/0/0", "notes.txt"):
        (query.checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (query.checkpoint / name).write_text("")
    said = flip27("retire", query.checkpoint, "--with-checkpoint-location", *REMOVE)
    assert outcomes(said) == {"state": "removed", "checkpoint": "removed"}
    assert below(query.checkpoint) == ["notes.txt"]
    (query.checkpoint / "notes.txt").unlink()
    other = two_batches(tmp_path / "other")
    flip27("retire", other.checkpoint, "--with-checkpoint-location", *REMOVE)
    assert not other.checkpoint.exists()


@pytest.mark.parametrize("given", ["{}/query/checkpoint", "file://{}/query/checkpoint/", "checkpoint"])
def test_a_removal_that_is_killed_anywhere_is_finished_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    query = three_batches(tmp_path / "query")
    monkeypatch.chdir(tmp_path / "query")
    whole = ("retire", given.format(tmp_path), "--with-checkpoint-location", *REMOVE)
    shutil.copytree(query.checkpoint, tmp_path / "copy")
    delete, done = LocalStore.delete, 0

    def killed(self: LocalStore, name: str) -> None:
        nonlocal done
        if done == 0:
            raise Killed(name)
        done -= 1
        delete(self, name)

    for survived in range(1000):
        done = survived
        with monkeypatch.context() as patched:
            patched.setattr(LocalStore, "delete", killed)
            try:
                flip27(*whole)
            except Killed:
                pass
            else:
                break
        assert query.checkpoint.exists()
        said = flip27(*whole)
        assert (said.code, query.checkpoint.exists()) == (0, False), (survived, said.out, said.err)
        shutil.copytree(tmp_path / "copy", query.checkpoint)
    assert survived > 10


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_nothing_is_removed_without_confirmation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    query = three_batches(tmp_path)
    before = below(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    said = flip27("retire", query.checkpoint, "--execute")
    assert said.code == 1
    assert f"state {lineage_in(query.checkpoint / 'flip27')}: " in said.err
    assert below(tmp_path) == before


def run_on(running: CoordinatorHolder, query: FileQuery) -> None:
    """Ask for the next batch until discovery has found a file."""
    while True:
        running.latest_offset(query.at, None)


def test_a_running_query_is_refused_and_one_that_was_suspended_stops(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    running = CoordinatorHolder(query.source, Boundedness.CONTINUOUS_UNBOUNDED)
    running.latest_offset(query.at, None)
    before = below(query.checkpoint)
    said = flip27("retire", query.checkpoint, *REMOVE)
    assert (said.code, below(query.checkpoint)) == (1, before)
    assert "a query uses" in said.data["error"]["what"]
    assert "stop the query first" in said.data["error"]["remedy"]
    for renewal in query.checkpoint.glob("flip27/*/drivers/*.alive"):
        renewal.unlink()  # as if it had been silent for too long
    assert flip27("retire", query.checkpoint, *REMOVE).code == 0
    query.land("later.txt")
    with soon(), pytest.raises(MissingStateError, match="was moved or deleted while the query ran"):
        run_on(running, query)
    running.close()
    assert not (query.checkpoint / "flip27").exists()


def test_a_query_that_repeats_its_last_batch_after_a_restart_is_refused(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    committed = query.at
    query.land("d.txt")
    planned = query.batch(committed=False)
    running = CoordinatorHolder(query.source, Boundedness.CONTINUOUS_UNBOUNDED)
    running.plan(committed, planned)
    before = below(query.checkpoint)
    said = flip27("retire", query.checkpoint, *REMOVE)
    assert (said.code, below(query.checkpoint)) == (1, before)
    assert "a query uses" in said.data["error"]["what"]
    query.land("later.txt")
    with soon():
        while running.latest_offset(planned, None) == planned:
            pass
    assert flip27("retire", query.checkpoint, *REMOVE).code == 1
    running.close()
    assert flip27("retire", query.checkpoint, *REMOVE).code == 0


@pytest.mark.parametrize("ahead_ms", [-300_000, 3_600_000])
def test_a_running_query_whose_clock_differs_is_watched_and_refused(
    ahead_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = two_batches(tmp_path)
    differs = Environment(now_ms=lambda: next(now_ms), cores=1)
    now_ms = itertools.count(time.time_ns() // 1_000_000 + ahead_ms)
    running = CoordinatorHolder(query.source, Boundedness.CONTINUOUS_UNBOUNDED, environment=differs)
    running.latest_offset(query.at, None)
    before = below(query.checkpoint)
    waits: list[float] = []

    def renewing(wait_s: float) -> None:
        waits.append(wait_s)
        running.cycle.driving.renew()

    monkeypatch.setattr(command, "sleep", renewing)
    said = flip27("retire", query.checkpoint, *REMOVE)
    assert (said.code, waits) == (1, [10])
    assert "a query uses" in said.data["error"]["what"]
    assert "the clocks of two hosts may differ" in said.err
    assert {name for name in before if ".alive" not in name} <= set(below(query.checkpoint))
    running.cycle.end()  # as if it had been killed: its record stays
    monkeypatch.setattr(command, "sleep", waits.append)
    assert flip27("retire", query.checkpoint, *REMOVE).code == 0
    assert waits == [10] * 4
    running.close()


@pytest.mark.skipif(not MAKES_NAMESPACES, reason="unshare may make no PID namespace here")
def test_a_query_in_another_container_of_the_same_host_name_is_refused_too(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    running = CoordinatorHolder(query.source, Boundedness.CONTINUOUS_UNBOUNDED)
    running.latest_offset(query.at, None)
    retire = [sys.executable, "-m", "flip27_source.cli.main", "retire", str(query.checkpoint), *REMOVE]
    said = subprocess.run([*IN_PID_NAMESPACE, *retire], capture_output=True, text=True, check=False)
    running.close()
    assert (said.returncode, "a query uses" in said.stdout) == (1, True), said
    assert subprocess.run([*IN_PID_NAMESPACE, *retire], check=False, capture_output=True).returncode == 0


class Meanwhile(LocalStore):
    """Calls ``act`` once, before one of its operations: the one that ``left`` more come before.

    Those of background threads do not count: nobody waits for them.
    """

    left = -1
    act: Callable[[], object]

    def _pause(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        Meanwhile.left -= 1
        if Meanwhile.left == -1:
            Meanwhile.act()

    def read(self, name: str, limit: int | None = None) -> bytes:
        self._pause()
        return super().read(name, limit)

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        self._pause()
        return super().create(name, data, exclusive=exclusive)

    def replace(self, name: str, data: bytes) -> None:
        self._pause()
        super().replace(name, data)

    def list(self, folder: str) -> list[str]:
        self._pause()
        return super().list(folder)

    def delete(self, name: str) -> None:
        self._pause()
        super().delete(name)


def goes_on(query: FileQuery, holder: CoordinatorHolder) -> None:
    """The next batches of a query that has begun, with a restart in between."""
    for name in ("x.txt", "y.txt"):
        query.land(name)
        query.at = holder.latest_offset(query.at, None)
        holder.close()
        holder = CoordinatorHolder(query.source, Boundedness.BOUNDED)
    holder.close()


@pytest.mark.parametrize("which_is_paused", ["query", "retire"])
def test_of_a_query_that_starts_and_its_removal_one_gives_way_whatever_comes_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which_is_paused: str
) -> None:
    """A query that went on without its state would deliver batches that no restart knows."""
    outcome: list[object] = []
    for paused_at in range(1000):
        query = two_batches(tmp_path / str(paused_at))
        query.land("d.txt")
        state = query.checkpoint / "flip27"
        holders: list[CoordinatorHolder] = []

        def start(store: LocalStore | None, query: FileQuery = query) -> None:
            holder = CoordinatorHolder(query.source, Boundedness.BOUNDED, store=store)
            with suppress(MissingStateError, StaleDriverError):
                query.at = holder.latest_offset(query.at, None)
                holders.append(holder)  # noqa: B023 - called in this turn of the loop

        def retire(query: FileQuery = query) -> int:
            return flip27("retire", query.checkpoint, *REMOVE).code

        codes: list[int] = []
        Meanwhile.left = paused_at
        if which_is_paused == "query":
            Meanwhile.act = lambda: codes.append(retire())  # noqa: B023
            start(Meanwhile(str(state)))
        else:
            Meanwhile.act = lambda: start(None)
            with monkeypatch.context() as patched:
                patched.setattr(stores, "LocalStore", Meanwhile)
                codes.append(retire())
        if Meanwhile.left >= 0:
            break
        outcome.append((codes[0], bool(holders)))
        for holder in holders:
            goes_on(query, holder)
        assert holders or below(state) == []
    assert paused_at > 10
    assert set(outcome) == {(0, False), (1, True)}


def test_a_query_that_starts_after_the_last_look_keeps_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = two_batches(tmp_path)
    take_over, started = LineageRemoval.take_over, list[CoordinatorHolder]()

    def later(self: LineageRemoval) -> None:
        started.append(CoordinatorHolder(query.source, Boundedness.CONTINUOUS_UNBOUNDED))
        started[0].latest_offset(query.at, None)
        take_over(self)

    monkeypatch.setattr(LineageRemoval, "take_over", later)
    said = flip27("retire", query.checkpoint, *REMOVE)
    assert (said.code, "a query has begun to use" in said.data["error"]["what"]) == (1, True)
    query.land("later.txt")
    with soon():
        while started[0].latest_offset(query.at, None) == query.at:
            pass
    started[0].close()


def test_nothing_elsewhere_is_removed_once_a_query_has_started(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    made = savepoints.create(state=str(query.checkpoint / "flip27"), to=str(tmp_path / "saved")).directory
    fork = FileQuery(tmp_path, state="fork", savepoint=made, savepointClaim="claim")
    fork.land("d.txt")
    fork.batch()
    lineages = find_lineages(str(fork.checkpoint / "fork"), {})
    sources = [StoredSource(lineage=lineage, storage={}) for lineage in lineages]
    retired = RetiredQuery(
        sources=sources, checkpoint=None, storage={}, with_checkpoint=False, given={}, kept=frozenset()
    )
    started = CoordinatorHolder(fork.source, Boundedness.CONTINUOUS_UNBOUNDED)
    removed: list[Leftover] = []
    first = Leftover(kind="first", name="", details="", remove=lambda: started.latest_offset(fork.at, None))
    remains = retired.remains()
    things = [first, *remains.things]
    with pytest.raises(StaleDriverError):
        removed.extend(retired.remove(replace(remains, things=things), lambda _: None))
    started.close()
    assert removed == [first]
    assert (lineage_in(fork.checkpoint / "fork") / "claim.json").exists()


def test_a_schema_stays_that_a_query_began_to_use_while_the_user_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = {"stateLocation": str(tmp_path / "state")}
    one, other = (FileQuery(tmp_path / name, state=None, **shared) for name in ("one", "other"))
    schema = tmp_path / "state" / "schemas" / "files" / "1.json"
    schema.parent.mkdir(parents=True)
    schema.write_text("{}")
    for query in (one, other):
        query.land("a.txt")
    one.batch()
    monkeypatch.setattr("typer.confirm", lambda *_, **__: other.batch())
    words = ("retire", one.checkpoint, "--state", tmp_path / "state", "--execute", "--json")
    said = flip27(*words)
    assert (said.code, schema.exists()) == (1, True)
    assert "may use schemas/files by now" in said.data["error"]["what"]
    assert outcomes(flip27(*words)) == {"state": "removed", "schema": "stays", "checkpoint": "stays"}


def test_a_requested_savepoint_that_is_not_finished_keeps_the_state(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    state = query.checkpoint / "flip27"
    requested = savepoints.request(state=str(state), to=str(tmp_path / "saved"))
    refused = flip27("retire", query.checkpoint, *REMOVE)
    assert refused.code == 1
    assert f"flip27 savepoint withdraw {requested.request_id}" in refused.data["error"]["remedy"]
    flip27("savepoint", "withdraw", requested.request_id, "--state", state)
    assert flip27("retire", query.checkpoint, *REMOVE).code == 0


def test_a_savepoint_that_the_query_owns_stays_and_can_be_deleted_or_claimed_afterwards(
    tmp_path: Path,
) -> None:
    first = two_batches(tmp_path / "first")
    made = savepoints.create(state=str(first.checkpoint / "flip27"), to=str(tmp_path / "saved")).directory
    claimed = {"savepoint": made, "savepointClaim": "claim"}
    fork = FileQuery(tmp_path / "first", state="fork", **claimed)
    fork.batch()
    assert flip27("savepoint", "delete", made, "--yes").code == 1
    said = flip27("retire", fork.checkpoint / "fork", *REMOVE)
    assert outcomes(said) == {"savepoint": "removed", "state": "removed"}
    assert flip27("savepoint", "verify", made).code == 0
    assert flip27("savepoint", "delete", made, "--yes").code == 0
    refused = flip27("retire", first.checkpoint / "flip27" / "gone")
    assert (refused.code, "is empty or does not exist" in refused.err) == (1, True)


def test_a_savepoint_is_not_a_query(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    made = savepoints.create(state=str(query.checkpoint / "flip27"), to=str(tmp_path / "saved")).directory
    said = flip27("retire", made, *REMOVE)
    assert (said.code, "flip27 savepoint delete" in said.data["error"]["remedy"]) == (1, True)


def test_queries_that_share_a_state_location_are_retired_one_by_one(tmp_path: Path) -> None:
    shared = {"stateLocation": str(tmp_path / "state")}
    one, other = (FileQuery(tmp_path / name, state=None, **shared) for name in ("one", "other"))
    for query in (one, other):
        query.land("a.txt")
        query.batch()
    refused = flip27("retire", tmp_path / "state", *REMOVE)
    assert (refused.code, "contains 2 lineages" in refused.data["error"]["what"]) == (1, True)
    said = flip27("retire", one.checkpoint, "--state", tmp_path / "state", *REMOVE)
    assert outcomes(said) == {"state": "removed", "checkpoint": "stays"}
    assert flip27("state", "show", other.checkpoint, "--state", tmp_path / "state").code == 0
    other.land("b.txt")
    assert other.batch()["checkpoint"] == 2
    assert flip27("retire", "--state", tmp_path / "state", *REMOVE).code == 0
    assert not (tmp_path / "state").exists()


def test_a_folder_of_checkpoints_is_not_a_query(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    for name in ("one", "other"):
        two_batches(tmp_path / name).checkpoint.rename(tmp_path / "checkpoints" / name)
        before = below(tmp_path)
        said = flip27("retire", tmp_path / "checkpoints", "--with-checkpoint-location", *REMOVE)
        assert (said.code, "no state of flip27" in said.data["error"]["what"]) == (1, True)
        assert "the checkpoint location of a Spark query" in said.data["error"]["remedy"]
        assert below(tmp_path) == before


def test_a_folder_of_states_is_not_a_query(tmp_path: Path) -> None:
    for name in ("one", "other"):
        query = FileQuery(tmp_path / name, state=None, stateLocation=f"{tmp_path}/states/{name}")
        query.land("a.txt")
        query.batch()
    said = flip27("retire", tmp_path / "states", *REMOVE)
    assert (said.code, "maybe of several queries" in said.data["error"]["what"]) == (1, True)
    (one, other) = (lineage_in(tmp_path / "states" / name) for name in ("one", "other"))
    assert flip27("retire", tmp_path / "states", "--lineage", one.name, *REMOVE).code == 0
    assert (one.exists(), other.exists()) == (False, True)


def test_a_recorded_schema_stays_while_another_query_may_use_it(tmp_path: Path) -> None:
    shared = {"stateLocation": str(tmp_path / "state")}
    queries = [FileQuery(tmp_path / name, state=None, **shared) for name in ("one", "other")]
    for query in queries:
        query.land("a.txt")
        query.batch()
    schema = tmp_path / "state" / "schemas" / "files" / "1.json"
    schema.parent.mkdir(parents=True)
    schema.write_text("{}")
    said = [flip27("retire", query.checkpoint, "--state", tmp_path / "state", *REMOVE) for query in queries]
    assert [outcomes(one)["schema"] for one in said] == ["stays", "removed"]
    assert not (tmp_path / "state").exists()


def test_a_state_elsewhere_has_to_be_named_before_sparks_checkpoint_is_removed(tmp_path: Path) -> None:
    query = FileQuery(tmp_path, state=None, stateLocation=str(tmp_path / "state"))
    query.land("a.txt")
    query.batch()
    whole = ("retire", query.checkpoint, "--with-checkpoint-location")
    said = flip27(*whole, *REMOVE)
    assert (said.code, "give the stateLocation of the query" in said.data["error"]["remedy"]) == (1, True)
    assert flip27("retire", query.checkpoint, *REMOVE).data["error"] == said.data["error"]
    dry = flip27("retire", query.checkpoint)
    assert (dry.code, "there is nothing to remove" in dry.err) == (3, False)
    assert "neither below the checkpoint location nor in that of --state\n  What to do: give the" in dry.err
    assert "add --execute" not in dry.err
    wrong = flip27(*whole, "--state", tmp_path, *REMOVE)
    assert (wrong.code, wrong.data["error"]) == (1, said.data["error"])
    assert query.checkpoint.exists()
    assert flip27("retire", query.checkpoint, "--state", tmp_path / "state", *REMOVE).code == 0
    assert outcomes(flip27(*whole, "--keep", "state", *REMOVE))["checkpoint"] == "removed"
    assert not query.checkpoint.exists()


def test_the_states_of_a_query_that_are_in_several_places_are_retired_at_once(tmp_path: Path) -> None:
    places = [tmp_path / "one", tmp_path / "two", tmp_path / "query" / "flip27"]
    sources = [
        FileQuery(tmp_path / f"of {place.name}", state=None, stateLocation=str(place)) for place in places
    ]
    for source in sources:
        source.land("a.txt")
        source.batch()
    log_batch(tmp_path / "query", 0, *(source.at for source in sources))
    log_commit(tmp_path / "query", 0)
    words = ("retire", tmp_path / "query", "--with-checkpoint-location", "--state", tmp_path / "one")
    said = flip27(*words, *REMOVE)
    assert (said.code, "--state once for each" in said.data["error"]["remedy"]) == (1, True)
    assert "no query is given" in flip27("retire", "--state", places[0], "--state", places[1]).err
    removed = flip27(*words, "--state", tmp_path / "two", *REMOVE)
    assert [thing["kind"] for thing in removed.data["things"]] == ["state", "state", "state", "checkpoint"]
    assert not any(place.exists() for place in (*places, tmp_path / "query"))


def test_the_killed_drivers_of_several_sources_are_watched_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each takes half a minute, and the first may start again while another one is watched."""
    long_ago = Environment(now_ms=itertools.count(1_000_000).__next__, cores=1)
    states: list[Any] = []
    offsets, drivers = [], []
    for name in ("one", "two", "three"):
        source = FileQuery(tmp_path / f"of {name}", state=None, stateLocation=str(tmp_path / name))
        source.land("a.txt")
        offsets.append(source.batch())
        drivers.append(CoordinatorHolder(source.source, Boundedness.BOUNDED, environment=long_ago))
        drivers[-1].latest_offset(source.at, None)
        states += ["--state", tmp_path / name]
    log_batch(tmp_path / "query", 0, *offsets)
    log_commit(tmp_path / "query", 0)
    waits: list[float] = []

    def renewing(wait_s: float) -> None:
        waits.append(wait_s)
        if len(waits) == 3:
            drivers[0].cycle.driving.renew()

    for driver in drivers:
        driver.cycle.end()  # as if they had been killed: their records stay
    monkeypatch.setattr(command, "sleep", renewing)
    said = flip27("retire", tmp_path / "query", *states, *REMOVE)
    assert (said.code, waits) == (1, [10] * 3)
    assert "a query uses" in said.data["error"]["what"]
    said = flip27("retire", tmp_path / "query", *states, *REMOVE)
    assert (said.code, waits) == (0, [10] * 6)
    for driver in drivers:
        driver.close()


def test_what_a_query_leaves_that_has_logged_no_batch_is_retired(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    for file in (query.checkpoint / "offsets").iterdir():
        file.unlink()
    assert outcomes(flip27("retire", query.checkpoint, "--json")) == {
        "state": "would be removed", "checkpoint": "stays",
    }  # fmt: skip
    removed = flip27("retire", query.checkpoint, "--with-checkpoint-location", *REMOVE)
    assert outcomes(removed) == {"state": "removed", "checkpoint": "removed"}
    assert not query.checkpoint.exists()


def test_a_checkpoint_that_neither_names_nor_contains_a_state_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty" / "offsets").mkdir(parents=True)
    log_batch(tmp_path / "of another format", 0, {"logOffset": 0})
    for place in ("empty", "of another format"):
        said = flip27("retire", tmp_path / place, *REMOVE)
        assert (said.code, "names no state of flip27" in said.data["error"]["what"]) == (1, True)
        assert "flip27 retire STATE; otherwise flip27 has left nothing" in said.data["error"]["remedy"]


def test_a_state_in_the_offsets_is_removed_with_sparks_checkpoint_only(tmp_path: Path) -> None:
    query = FileQuery(tmp_path, state=None)
    query.land("a.txt")
    query.batch()
    kept = flip27("retire", query.checkpoint, *REMOVE)
    assert outcomes(kept) == {"state": "stays", "checkpoint": "stays"}
    assert "nothing in it shows whether the query runs: stop it first" in kept.out
    whole = flip27("retire", query.checkpoint, "--with-checkpoint-location", *REMOVE)
    assert outcomes(whole) == {"state": "stays", "checkpoint": "removed"}
    assert not query.checkpoint.exists()


def test_a_state_behind_a_link_is_refused_before_anything_is_removed(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    segments = lineage_in(query.checkpoint / "flip27") / "reports"
    shutil.rmtree(segments, ignore_errors=True)
    (tmp_path / "elsewhere").mkdir()
    segments.symlink_to(tmp_path / "elsewhere")
    before = below(tmp_path)
    said = flip27("retire", query.checkpoint, *REMOVE)
    assert (said.code, "is a link to" in said.data["error"]["what"]) == (1, True)
    assert below(tmp_path) == before


def test_the_link_to_a_checkpoint_location_stays_and_what_is_in_it_is_removed(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(query.checkpoint)
    said = flip27("retire", link, "--with-checkpoint-location", *REMOVE)
    assert outcomes(said) == {"state": "removed", "checkpoint": "removed"}
    assert list(link.iterdir()) == []


def test_a_state_in_a_bucket_is_removed_and_no_secret_is_printed(tmp_path: Path, s3_bucket: S3Bucket) -> None:
    location = f"s3://{s3_bucket.name}/state"
    query = FileQuery(tmp_path, state=None, stateLocation=location, **s3_bucket.options)
    query.land("a.txt")
    query.batch()
    given = storage(dict(s3_bucket.storage_options) | {"secret": "not-to-be-shown"})
    said = [flip27("retire", query.checkpoint, "--state", location, *given, *more) for more in ((), REMOVE)]
    assert [one.code for one in said] == [0, 0]
    assert location in said[0].out
    assert not any("not-to-be-shown" in one.out + one.err for one in said)
    assert s3_bucket.file_system.find(f"{s3_bucket.name}/state") == []


def test_a_damaged_state_is_removed_only_if_what_it_names_elsewhere_may_stay(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    for document in query.checkpoint.glob("flip27/*/checkpoints/2-*"):
        document.write_text("{")
    dry = flip27("retire", query.checkpoint)
    assert (dry.code, "is not known what" in dry.err) == (3, True)
    said = flip27("retire", query.checkpoint, *REMOVE)
    assert (said.code, "--keep elsewhere" in said.data["error"]["remedy"]) == (1, True)
    assert outcomes(flip27("retire", query.checkpoint, "--keep", "elsewhere", *REMOVE))["state"] == "removed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--keep", "slto"], "use one of elsewhere, queue, schema, state"),
        (["--option", "tabels=x"], "option tabels is unknown"),
        (["--lineage", "typo"], "there is no lineage typo"),
        (["--lineage", "LINEAGE", "--with-checkpoint-location"], "all sources need the checkpoint"),
    ],
)
def test_wrong_words_are_refused_with_what_to_give(tmp_path: Path, words: list[str], said: str) -> None:
    query = two_batches(tmp_path)
    name = lineage_in(query.checkpoint / "flip27").name
    refused = flip27("retire", query.checkpoint, *(name if word == "LINEAGE" else word for word in words))
    assert (refused.code, said in refused.err) == (1, True), refused.err
    assert "no query is given" in flip27("retire").err
    assert "the location '' cannot be used" in flip27("retire", query.checkpoint, "--state", "").err


def test_every_field_of_the_json_answer_is_documented(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    told = dict(commands())["flip27 retire"].epilog.partition("JSON: ")[2]
    data: dict[str, Any] = flip27("retire", query.checkpoint, "--json").data
    fields = {*data, *(name for thing in data["things"] for name in thing)}
    assert fields <= set(re.findall(r"\w+", told))


def test_the_state_stays_that_another_checkpoint_continues_than_the_older_copy_given(tmp_path: Path) -> None:
    state = tmp_path / "state"
    query = FileQuery(tmp_path, state=None, stateLocation=str(state))
    query.land("a.txt")
    query.batch()
    copy = tmp_path / "copy"
    shutil.copytree(query.checkpoint, copy)
    for name in ("b.txt", "c.txt"):
        query.land(name)
        query.batch()
    of_copy = ("retire", copy, "--state", state)
    before = below(tmp_path)
    for more in (("--json",), ("--keep", "state", "--json"), ("--with-checkpoint-location", "--json")):
        said = flip27(*of_copy, *more)
        (problem,) = said.data["problems"]
        assert said.code == 3
        assert "is an older copy: its last checkpoint is 1 of lineage files-" in problem["what"]
        assert "give the checkpoint location that continues it" in problem["remedy"]
        assert flip27(*of_copy, *more, *REMOVE).code == 1
    assert below(tmp_path) == before
    assert flip27("retire", query.checkpoint, "--state", state).code == 0
    rolled_back = ("--option", "allowRolledBackCheckpoint=true")
    assert outcomes(flip27(*of_copy, *rolled_back, *REMOVE))["state"] == "removed"
