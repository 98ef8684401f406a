"""``flip27 postgres drop`` and ``flip27 check`` of a PostgreSQL source, on a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from flip27_source.testing import MicroBatchEngine
from scripts.cli_page import commands
from tests.cli.command_line import Said, flip27, three_batches
from tests.deadline import until
from tests.postgres_server import HOST, SUPERUSER, PostgresServer, Role, postgres_server
from tests.snapshots.spark_logs import savepoint_of

PASSWORD_ENV = "SHOP_PASSWORD"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@dataclass
class Shop:
    """A database with a table, and a query that has read it."""

    server: PostgresServer
    database: str
    owner: psycopg.Connection
    state: Path
    role: Role

    @property
    def place(self) -> list[str]:
        port = str(self.server.port)
        return ["--host", HOST, "--port", port, "--database", self.database, "--user", SUPERUSER]

    def drop(self, *words: str) -> Said:
        """Drop what the query has left on the server."""
        return flip27("postgres", "drop", self.state, *self.place, "--execute", "--yes", *words)

    def retire(self, *words: str) -> Said:
        """Retire the query, with the options that reach the server."""
        given = {"host": HOST, "port": str(self.server.port), "database": self.database, "user": SUPERUSER}
        options = [word for name, value in given.items() for word in ("--option", f"{name}={value}")]
        return flip27("retire", self.state, *options, *words)

    def query(self, after: MicroBatchEngine | None = None, /, **options: str) -> MicroBatchEngine:
        """A query that has read everything; ``after`` is the query before a restart with other options."""
        given = {"tables": "orders", "stateLocation": str(self.state), "uid": "orders", **options}
        engine = MicroBatchEngine(self.server.options(self.database, **given))
        if after is not None:
            after.stop()
            engine.logs = after.logs
        engine.process_all_available()
        return engine

    def continued(self, query: MicroBatchEngine) -> None:
        """Stop the query and let it read what is new.

        A query that is only restarted is killed, and its session lives until Python's garbage collection.
        """
        query.stop()
        query.restart()
        query.process_all_available()

    def ran(self, **options: str) -> None:
        self.query(**options).stop()

    def slots(self) -> list[str]:
        rows = self.owner.execute(
            "SELECT slot_name::text FROM pg_replication_slots WHERE database = %s", [self.database]
        )
        return [name for (name,) in rows]

    def publications(self) -> list[str]:
        return [name for (name,) in self.owner.execute("SELECT pubname::text FROM pg_publication")]


@pytest.fixture
def shop(server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with server.role() as role, server.database() as name, server.connect(name) as owner:
        owner.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        owner.execute("INSERT INTO orders VALUES (1), (2)")
        monkeypatch.setenv(PASSWORD_ENV, role.password)
        yield Shop(server=server, database=name, owner=owner, state=tmp_path / "state", role=role)


def test_a_dry_run_lists_the_leftovers_of_a_query_and_changes_nothing(shop: Shop) -> None:
    shop.ran()
    (slot,) = shop.slots()
    said = flip27("postgres", "drop", shop.state, *shop.place)
    assert said.code == 0
    assert [line[:3] for line in said.lines[1:]] == [
        ["slot", slot, "would be dropped"],
        ["publication", slot, "would be dropped"],
    ]
    assert "bytes of WAL could then be removed" in said.err
    assert "add --execute to drop them" in said.err
    assert (shop.slots(), shop.publications()) == ([slot], [slot])


def test_only_the_slot_and_the_publication_of_the_state_are_dropped(shop: Shop) -> None:
    shop.ran()
    (slot,) = shop.slots()
    other = "SELECT pg_create_logical_replication_slot(%s, 'test_decoding')"
    shop.owner.execute(other, [f"{shop.database}_x"])
    shop.owner.execute("CREATE PUBLICATION another FOR TABLE orders")
    said = shop.drop("--json")
    assert said.code == 0
    assert said.data["is_dropped"] is True
    assert (said.data["slot"], said.data["publication"]) == (slot, slot)
    assert said.data["tables"] == ["public.orders"]
    assert said.data["statements"] == [
        f"SELECT pg_drop_replication_slot('{slot}')",
        f'DROP PUBLICATION "{slot}"',
    ]
    assert (shop.slots(), shop.publications()) == ([f"{shop.database}_x"], ["another"])
    again = shop.drop("--json")
    assert (again.code, again.data["slot"], again.data["is_dropped"]) == (0, None, False)


def test_every_field_of_the_json_answer_is_documented(shop: Shop) -> None:
    shop.ran()
    told = dict(commands())["flip27 postgres drop"].epilog.partition("JSON: ")[2]
    assert set(flip27("postgres", "drop", shop.state, *shop.place, "--json").data) <= set(
        re.findall(r"\w+", told)
    )


def test_wal_needed_by_another_slot_is_not_counted_as_released(shop: Shop) -> None:
    older = f"{shop.database}_older"
    shop.owner.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [older])
    shop.ran()
    held = flip27("postgres", "drop", shop.state, *shop.place, "--json").data
    assert (held["released_bytes"], held["held_by"]) == (0, older)
    assert held["kept_bytes"] > 0
    shop.owner.execute("SELECT pg_drop_replication_slot(%s)", [older])
    free = flip27("postgres", "drop", shop.state, *shop.place, "--json").data
    assert free["released_bytes"] == free["kept_bytes"] >= held["kept_bytes"]
    assert free["held_by"] is None


def test_nothing_is_dropped_without_confirmation(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shop.ran()
    (tmp_path / "no answer").touch()
    with (tmp_path / "no answer").open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        said = flip27("postgres", "drop", shop.state, *shop.place, "--execute")
    assert said.code == 1
    assert "SELECT pg_drop_replication_slot" in said.err
    assert len(shop.slots()) == 1


def test_the_slot_of_a_running_query_is_not_dropped(shop: Shop) -> None:
    query = shop.query()
    # Between two batches, the slot is not active.
    active = shop.owner.execute(
        "SELECT active FROM pg_replication_slots WHERE database = %s", [shop.database]
    )
    assert active.fetchone() == (False,)
    said = shop.drop()
    assert said.code == 1
    assert "is in use: a query reads it" in said.err
    assert "stop the query first" in said.err
    query.stop()
    assert shop.drop().code == 0
    assert shop.slots() == []


def test_a_slot_that_another_query_has_taken_over_is_not_dropped_with_the_place_of_the_first_one(
    shop: Shop, tmp_path: Path
) -> None:
    first = shop.query()
    savepoint = savepoint_of(first, tmp_path / "saved")
    first.stop()
    second = shop.query(savepoint=savepoint, stateLocation=str(tmp_path / "second"))
    shop.owner.execute("INSERT INTO orders VALUES (3)")
    for _ in range(2):
        shop.continued(second)
    second.stop()
    said = shop.drop()
    assert said.code == 1
    assert "another query has taken it over, such as one from a savepoint" in said.err
    assert len(shop.slots()) == len(shop.publications()) == 1
    shop.state = tmp_path / "second"
    until(lambda: shop.drop().code == 0, lambda: shop.drop().err)
    assert shop.slots() == []


def test_a_slot_in_use_by_another_client_is_not_dropped(shop: Shop) -> None:
    held = f"{shop.database}_held"
    shop.owner.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput', true)", [held])
    said = flip27("postgres", "drop", "--slot", held, *shop.place, "--execute", "--yes")
    assert said.code == 1
    assert f"SELECT pg_terminate_backend({shop.owner.info.backend_pid});" in said.err


def test_a_publication_named_by_the_user_is_dropped_only_if_it_is_named_again(shop: Shop) -> None:
    shop.owner.execute("CREATE PUBLICATION shared FOR TABLE orders")
    shop.ran(publication="shared", slotName=f"{shop.database}_own")
    assert shop.drop("--json").data["statements"] == [
        f"SELECT pg_drop_replication_slot('{shop.database}_own')"
    ]
    assert shop.publications() == ["shared"]
    assert shop.drop("--json", "--publication", "shared").data["statements"] == ['DROP PUBLICATION "shared"']
    assert shop.publications() == []


def test_without_a_state_the_slot_has_to_be_named(shop: Shop) -> None:
    shop.ran()
    (slot,) = shop.slots()
    said = flip27("postgres", "drop", *shop.place)
    assert (said.code, "neither the state of a query nor --slot is given" in said.err) == (1, True)
    said = flip27("postgres", "drop", "--slot", slot, *shop.place, "--execute", "--yes")
    assert said.code == 0
    assert f"publication {slot} stays; if no query reads it, drop it too: --publication {slot}" in said.err
    assert (shop.slots(), shop.publications()) == ([], [slot])
    words = ["--slot", slot, "--publication", slot, *shop.place, "--execute", "--yes"]
    assert flip27("postgres", "drop", *words).code == 0
    assert shop.publications() == []


def test_a_query_whose_slot_name_changed_continues_after_its_former_slot_is_dropped(shop: Shop) -> None:
    query = shop.query()
    (former,) = shop.slots()
    renamed = f"{shop.database}_renamed"
    query = shop.query(query, slotName=renamed)
    assert flip27("postgres", "drop", "--slot", former, *shop.place, "--execute", "--yes").code == 0
    shop.owner.execute("INSERT INTO orders VALUES (3)")
    shop.continued(query)
    assert [row[0] for row in query.rows] == [3]
    query.stop()
    until(lambda: flip27("postgres", "drop", shop.state, *shop.place).code == 0)
    said = shop.drop()
    assert (
        f"publication {former} stays; if no query reads it, drop it too: --publication {former}" in said.err
    )
    assert (shop.slots(), shop.publications()) == ([], [former])


def outcomes(said: Said) -> list[list[str]]:
    assert said.code == 0, said.err
    return [[thing[key] for key in ("kind", "name", "outcome")] for thing in said.data["things"]]


def test_a_retired_query_leaves_neither_slot_nor_publication_nor_state(shop: Shop) -> None:
    shop.ran()
    (slot,) = shop.slots()
    said = shop.retire("--json")
    assert outcomes(said)[:2] == [
        ["slot", slot, "would be removed"],
        ["publication", slot, "would be removed"],
    ]
    assert said.data["things"][1]["details"] == "public.orders"
    assert (shop.slots(), shop.publications()) == ([slot], [slot])
    removed = outcomes(shop.retire("--execute", "--yes", "--json"))
    assert [kind for kind, *_ in removed] == ["slot", "publication", "state", "schema"]
    assert (shop.slots(), shop.publications(), shop.state.exists()) == ([], [], False)


def test_a_publication_that_a_fork_may_read_stays_until_the_user_names_it(shop: Shop) -> None:
    shop.ran()
    (slot,) = shop.slots()
    fork = f"{slot[:50]}_fork"
    shop.owner.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", [slot, fork])
    dry = shop.retire("--json")
    assert outcomes(dry)[:2] == [["slot", slot, "would be removed"], ["publication", slot, "stays"]]
    assert f"the query of slot {fork} may read it" in dry.data["things"][1]["details"]
    assert f"--slot {slot} --publication {slot}" in dry.data["things"][1]["details"]
    alone = shop.drop()
    assert f"publication {slot} stays, because the query of slot {fork} may read it; if" in alone.err
    assert (shop.slots(), shop.publications()) == ([fork], [slot])
    assert f"the query of slot {fork} may read it" in shop.drop().err
    assert outcomes(shop.retire("--execute", "--yes", "--json"))[0] == ["publication", slot, "stays"]
    assert shop.publications() == [slot]
    words = ["--slot", slot, "--publication", slot, *shop.place, "--execute", "--yes"]
    assert flip27("postgres", "drop", *words).code == 0
    assert shop.publications() == []


def test_a_retirement_that_was_interrupted_after_the_slot_was_dropped_is_finished(shop: Shop) -> None:
    shop.ran()
    assert shop.drop().code == 0
    removed = outcomes(shop.retire("--execute", "--yes", "--json"))
    assert [kind for kind, *_ in removed] == ["state", "schema"]
    assert not shop.state.exists()


def test_a_query_is_not_retired_while_what_it_left_on_its_server_is_not_known(shop: Shop) -> None:
    shop.ran()
    dry = flip27("retire", shop.state)
    assert (dry.code, "it is not known what orders-" in dry.err) == (3, True)
    said = flip27("retire", shop.state, "--execute", "--yes")
    assert (said.code, "or leave it there: --keep elsewhere" in said.err) == (1, True)
    assert shop.state.exists()
    assert (
        flip27("retire", shop.state, "--keep", "slot", "--keep", "publication", "--execute", "--yes").code
        == 0
    )
    assert (len(shop.slots()), shop.state.exists()) == (1, False)


def test_what_the_user_keeps_of_a_retired_query_stays_on_the_server(shop: Shop) -> None:
    shop.ran()
    (slot,) = shop.slots()
    said = shop.retire("--keep", "publication", "--execute", "--yes", "--json")
    assert outcomes(said)[1] == ["publication", slot, "stays"]
    assert (shop.slots(), shop.publications()) == ([], [slot])


def test_a_query_whose_slot_another_query_reads_is_not_retired(shop: Shop, tmp_path: Path) -> None:
    first = shop.query()
    savepoint = savepoint_of(first, tmp_path / "saved")
    first.stop()
    second = shop.query(savepoint=savepoint, stateLocation=str(tmp_path / "second"))
    said = shop.retire("--execute", "--yes")
    assert (said.code, "is in use: a query reads it" in said.err) == (1, True)
    assert (len(shop.slots()), shop.state.exists()) == (1, True)
    second.stop()


def test_a_database_that_does_not_have_the_slot_is_named_with_the_one_that_has_it(shop: Shop) -> None:
    shop.ran()
    (slot,) = shop.slots()
    said = flip27("postgres", "drop", shop.state, *shop.place, "--database", "postgres", "--execute", "--yes")
    retired = shop.retire("--option", "database=postgres", "--execute", "--yes")
    for refused in (said, retired):
        what = f"slot {slot} belongs to database {shop.database}, and option database is postgres"
        assert (refused.code, what in refused.err) == (1, True), refused.err
        assert f"set option database to {shop.database}" in refused.err
        assert "slotName" not in refused.err


def test_a_slot_of_another_kind_is_refused(shop: Shop) -> None:
    shop.owner.execute("SELECT pg_create_physical_replication_slot('standby_1')")
    try:
        said = flip27("postgres", "drop", "--slot", "standby_1", *shop.place, "--execute", "--yes")
        assert (said.code, "has the plugin physical" in said.err) == (1, True)
        assert "slotName" not in said.err
    finally:
        shop.owner.execute("SELECT pg_drop_replication_slot('standby_1')")


def test_the_state_of_another_server_is_refused_and_nothing_is_dropped(shop: Shop) -> None:
    shop.ran()
    with postgres_server() as other:
        place = ["--host", HOST, "--port", str(other.port), "--database", "postgres", "--user", SUPERUSER]
        said = flip27("postgres", "drop", shop.state, *place, "--execute", "--yes")
    assert (said.code, "the state belongs to the server with the system identifier" in said.err) == (1, True)


def test_the_state_of_another_source_is_refused(shop: Shop, tmp_path: Path) -> None:
    query = three_batches(tmp_path / "files")
    said = flip27("postgres", "drop", query.checkpoint, *shop.place)
    assert (said.code, "is the state of the enumerator files" in said.err) == (1, True)


def test_a_query_that_only_took_a_snapshot_leaves_nothing_to_drop(shop: Shop) -> None:
    shop.ran(snapshot="only")
    said = flip27("postgres", "drop", shop.state, *shop.place)
    assert (said.code, said.out, "nothing is left to drop" in said.err) == (0, "", True)


def test_an_error_for_a_role_that_may_not_drop_names_the_roles_that_may(shop: Shop) -> None:
    shop.ran()
    (slot,) = shop.slots()
    words = [*shop.place[:-1], shop.role.name, "--password-env", PASSWORD_ENV]
    said = flip27("postgres", "drop", shop.state, *words, "--execute", "--yes")
    assert said.code == 1
    assert f'have it run: DROP PUBLICATION "{slot}";' in said.err
    assert shop.role.password not in said.out + said.err


def checked(shop: Shop, *more: str, **options: str) -> Said:
    given = shop.server.options(shop.database, tables="orders", **options)
    words = [word for name, value in given.items() for word in ("--option", f"{name}={value}")]
    return flip27("check", "--state", shop.state, *words, *more)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_check_of_the_source_shows_each_finding_and_no_password(shop: Shop, as_json: bool) -> None:
    said = checked(shop, *(["--json"] if as_json else []), user=shop.role.name, password=shop.role.password)
    assert said.code == 3
    assert "ALTER ROLE" in said.out
    assert "REPLICATION" in said.out
    assert shop.role.password not in said.out + said.err
    if as_json:
        found = {item["check"]: item["status"] for item in said.data["findings"]}
        assert found["options"] == found["state location"] == found["connection"] == "ok"
        assert found["replication"] == found["table public.orders"] == found["publication"] == "failed"
        (options_finding,) = [item for item in said.data["findings"] if item["check"] == "options"]
        assert options_finding["found"] == "enumerator postgres, reader postgres"


def test_the_check_passes_after_a_query_has_run(shop: Shop) -> None:
    shop.ran()
    said = checked(shop, "--json", uid="orders")
    found = {item["check"]: item["found"] for item in said.data["findings"]}
    assert found["slot"].startswith(f"{shop.slots()[0]} keeps ")
    assert found["publication"] == f"{shop.publications()[0]} has the tables"
    assert said.data["counts"]["failed"] == 0
