"""The mysql source in a real session: each row and change of a table once, and the table as it is."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.mysql_server import MysqlServer
from tests.replica import Replica

from .streams import ENDING, Folders, run_to_end, to_lake

TABLE = "CREATE TABLE orders (id INT PRIMARY KEY, amount DECIMAL(10, 2), at DATETIME(3))"
ROWS = "INSERT INTO orders SELECT seq, seq / 4, '2024-02-29 12:00:00.5' FROM seq_1_to_50"


def stream(spark: SparkSession, options: dict[str, str], folders: Folders) -> DataFrame:
    given = {**options, "stateLocation": str(folders.state), **ENDING}
    return spark.readStream.format("flip27").options(**given).load()


def copied(spark: SparkSession, folders: Folders) -> list[tuple[Any, ...]]:
    """The rows of a copy to which all changes in the lake were applied; each has to fit."""
    replica = Replica()
    rows = [row.asDict() for row in spark.read.parquet(str(folders.lake)).collect()]
    for row in sorted(rows, key=lambda row: (row["_pos"], row["_seq"], "rdcu".index(row["_op"]))):
        replica.change(row["_op"], row["id"], (row["id"], row["amount"], row["at"]))
    return sorted(replica.rows.values())


def test_a_replica_in_files_equals_the_table_over_several_runs(
    spark: SparkSession, mysql: MysqlServer, folders: Folders
) -> None:
    with mysql.database() as database, mysql.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(TABLE)
        cursor.execute(ROWS)
        options = mysql.options(database, tables="orders", snapshotChunkRows="10")
        run_to_end(to_lake(stream(spark, options, folders), folders))
        cursor.execute("UPDATE orders SET amount = amount + 1 WHERE id % 3 = 0")
        cursor.execute("DELETE FROM orders WHERE id % 7 = 0")
        cursor.execute("UPDATE orders SET id = id + 100, at = NULL WHERE id < 5")
        run_to_end(to_lake(stream(spark, options, folders), folders))
        cursor.execute("SELECT * FROM orders ORDER BY id")
        assert copied(spark, folders) == list(cursor.fetchall())


def test_a_batch_read_returns_the_table(spark: SparkSession, mysql: MysqlServer) -> None:
    with mysql.database() as database, mysql.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(TABLE)
        cursor.execute(ROWS)
        options = mysql.options(database, tables="orders")
        frame = spark.read.format("flip27").options(**options).load()
        assert sorted(row.id for row in frame.collect()) == list(range(1, 51))
        assert frame.schema.simpleString().startswith(
            "struct<id:int,amount:decimal(10,2),at:timestamp_ntz,_op:string,_before:struct<id:int,"
        )
