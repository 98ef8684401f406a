"""The position of PostgreSQL's log that a range needs, on real servers."""

from __future__ import annotations

from contextlib import closing

import pytest

from flip27_source.enumerators.sql.log_position import log_position
from flip27_source.enumerators.sql.table import connected
from flip27_source.errors import DiscoveryError
from flip27_source.source import Source
from flip27_source.testing import run
from tests.deadline import until
from tests.enumerators.sql.shops import ORDERS, of_postgres, postgres_shop
from tests.postgres_server import PostgresServer, postgres_server


def test_a_range_that_is_planned_after_a_switch_of_the_segment_needs_no_record_of_the_new_one() -> None:
    with postgres_server(wal_level="minimal", max_wal_senders="0") as server, server.connect() as owner:
        options = Source.resolve(of_postgres(server, "postgres")).options

        def is_at_the_segment() -> bool:
            """Switch to a new segment; whether nothing was written to it, and no record of it is needed."""
            owner.execute("SELECT pg_current_xact_id()")
            owner.execute("SELECT pg_switch_wal()")
            needed = log_position(database)
            row = owner.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
            seen.append((needed, row))
            return row is not None and row[0] % (1 << 24) == 40 and needed == row[0] - 40

        seen: list[object] = []
        with closing(connected(options)) as database:
            until(is_at_the_segment, lambda: seen[-1], seconds=10)


def test_a_standby_that_does_not_show_what_it_has_replayed_is_refused(postgres: PostgresServer) -> None:
    with postgres_shop(postgres) as shop:
        shop.insert(ORDERS)
        shop.execute("CREATE SCHEMA replica")
        for name, kind, value in (
            ("is_in_recovery", "bool", "true"),
            ("last_wal_replay_lsn", "pg_lsn", "NULL::pg_lsn"),
        ):
            shop.execute(
                f"CREATE FUNCTION replica.pg_{name}() RETURNS {kind} LANGUAGE sql AS 'SELECT {value}'"
            )
        path = "?options=-csearch_path%3Dreplica,pg_catalog,public"
        options = shop.with_options(
            uri=shop.options["uri"] + path, waitForTransactions="false", discoveryRetries="0"
        )
        with pytest.raises(DiscoveryError, match="a standby that does not show what it has replayed"):
            list(run(options))
