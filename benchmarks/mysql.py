"""MariaDB: reading the changes of the binary log, compared with ``mariadb-binlog``.

A process measures one case, or both, with its own server; :func:`mysql_outcomes` starts it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from tests.mysql_server import SUPERUSER, MysqlServer, mysql_server, program
from tests.postgres_server import HOST

from .outcomes import Outcome, Target
from .server_cases import Compared, beside, measured
from .sizes import Sizes

HALF = Target("at least", 0.5)
PEER = "mariadb-binlog"

COLUMNS = (
    "id bigint PRIMARY KEY, customer int, product int, amount decimal(12,2), ordered_at timestamp(6) NULL, "
    "is_paid boolean, country varchar(20), street varchar(40), weight double, note text"
)
ROW = (
    "seq, seq % 10007, seq % 997, (seq % 100000) / 100, '2024-01-01' + INTERVAL seq SECOND, seq % 3 = 0, "
    "CONCAT('country ', seq % 50), CONCAT('street ', seq), seq / 7, CONCAT('a note of order ', seq)"
)


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows are inserted, in transactions of how many, and Spark's settings."""

    conf: dict[str, str] = {}
    rows: int
    per_transaction: int
    rounds: int


def mysql_outcomes(sizes: Sizes, conf: Mapping[str, str]) -> list[Outcome]:
    """Measure both cases; return their lines of the table."""
    many, single = sizes.mysql_changes, sizes.mysql_transactions
    large, small = measured(
        "benchmarks.mysql",
        Spec(conf=dict(conf), rows=many, per_transaction=1000, rounds=sizes.rounds),
        Spec(conf=dict(conf), rows=single, per_transaction=1, rounds=sizes.rounds),
        shares_session=sizes.shares_sessions,
    )
    return [
        beside(
            f"{many:,} changes from MariaDB's log, 1,000 per transaction", large, PEER, HALF, "prints them"
        ),
        beside(
            f"{single:,} changes from MariaDB's log, one per transaction", small, PEER, HALF, "prints them"
        ),
    ]


def changes(server: MysqlServer, database: str, spec: Spec, scratch: str, spark: Any) -> Compared:
    """Read all changes into a sink that keeps nothing, and print them with ``mariadb-binlog``."""
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE orders ({COLUMNS})")
        first = _end(cursor)
        for start in range(0, spec.rows, spec.per_transaction):
            end = min(spec.rows, start + spec.per_transaction) - 1
            cursor.execute(f"INSERT INTO orders SELECT {ROW} FROM seq_{start}_to_{end}")
        last = _end(cursor)
    found = Compared(ours=[], peers={PEER: []})
    for number in range(spec.rounds + 1):
        options = server.options(
            database,
            tables="orders",
            snapshot="never",
            startingPosition=f"{first[0]}:{first[1]}",
            stateLocation=f"{scratch}/state{number}",
        )
        began = time.perf_counter()
        query = (
            spark.readStream.format("flip27").options(**options).load().writeStream.format("noop")
            .trigger(availableNow=True).option("checkpointLocation", f"{scratch}/checkpoint{number}").start()
        )  # fmt: skip
        query.awaitTermination()
        took = time.perf_counter() - began
        if sum(progress["numInputRows"] for progress in query.recentProgress) != spec.rows:
            raise RuntimeError(f"the query has not read {spec.rows} changes")
        printed = _printed(server, first, last)
        if number:
            found.ours.append(took)
            found.batches.append(
                sum(one["durationMs"]["triggerExecution"] for one in query.recentProgress) / 1000
            )
            found.peers[PEER].append(printed)
    return found


def _end(cursor: Any) -> tuple[str, int]:
    cursor.execute("SHOW MASTER STATUS")
    file, offset, *_ = cursor.fetchone()
    return file, offset


def _printed(server: MysqlServer, first: tuple[str, int], last: tuple[str, int]) -> float:
    """Print the changes; return the seconds it took. The last position is one in the last file."""
    command, environment = program(PEER)
    files = [
        f"{first[0].rpartition('.')[0]}.{number:06}"
        for number in range(int(first[0][-6:]), int(last[0][-6:]) + 1)
    ]
    address = [f"--host={HOST}", f"--port={server.port}", f"--user={SUPERUSER}", "--read-from-remote-server"]
    what = ["--base64-output=decode-rows", "--verbose"]
    places = [f"--start-position={first[1]}", f"--stop-position={last[1]}"]
    began = time.perf_counter()
    subprocess.run(
        [*command, *address, *what, *places, *files], env=environment, stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - began


def main() -> None:
    """Measure what each argument specifies, each in a new database, and print each result as a line."""
    from pyspark.sql import SparkSession

    import pyspark_flip27

    specs = [msgspec.json.decode(argument, type=Spec) for argument in sys.argv[1:]]
    with mysql_server(innodb_buffer_pool_size="256M") as server:
        for number, spec in enumerate(specs, start=1):
            session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
            spark = session.config(map=dict(spec.conf)).getOrCreate()
            spark.dataSource.register(pyspark_flip27.DefaultSource)
            with (
                server.database() as database,
                tempfile.TemporaryDirectory(prefix="flip27-bench-") as scratch,
            ):
                found = changes(server, database, spec, scratch, spark)
            if number == len(specs):
                spark.stop()
            print(msgspec.json.encode(found).decode(), flush=True)


if __name__ == "__main__":
    main()
