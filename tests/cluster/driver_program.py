"""The driver of the cluster's queries: restarts those that fail, and ends when its Spark has ended.

It obeys the commands of ``tests.soak.shapes_program``. Its argument is JSON: query, root, bucket, storage,
given (options of the sources), settings (of Spark).
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from pyspark.sql import SparkSession

from flip27_source.cli.demo.process import obey_parent
from tests.soak.shapes_program import Supervisor, run_and_exit, tell
from tests.spark.jvm import jvm_of

from .queries import QUERIES, places_of

SPARK_STOPPED = re.compile(
    r"SparkContext was (shut down|cancelled)|stopped SparkContext|Master removed our application"
    r"|All masters are unresponsive|Application has been killed"
)


class SparkHasEndedError(Exception):
    """Spark has ended by itself, as it does when the master has removed the application."""


class ClusterSupervisor(Supervisor):
    """Ends the program when the SparkContext has been stopped."""

    def _ended(self, name: str, error: str) -> None:
        super()._ended(name, error)
        if SPARK_STOPPED.search(error):
            raise SparkHasEndedError


def main(argument: str) -> None:
    asked = json.loads(argument)
    # Of the checkout only this program is used; the source's own processes import the packed environment.
    os.environ.pop("PYTHONPATH", None)
    builder = SparkSession.builder
    for key, value in asked["settings"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    places = places_of(asked["query"], Path(asked["root"]), asked["bucket"], asked["storage"])
    supervisor = ClusterSupervisor(spark, [QUERIES[asked["query"]](places, asked["given"])])
    obey_parent(supervisor.commands.put)
    jvm = jvm_of(spark).java.lang.ProcessHandle.current().pid()
    tell(event="started", jvm=jvm, imported=_where_executors_import(spark))
    supervisor.run()


def _where_executors_import(spark: SparkSession) -> list[str]:
    """The files of flip27 that executors import."""

    def imported(_: int) -> str:
        import flip27_source

        return str(flip27_source.__file__)

    cores = spark.sparkContext.defaultParallelism
    return sorted(set(spark.sparkContext.parallelize(range(cores), cores).map(imported).collect()))


if __name__ == "__main__":
    run_and_exit(main)
