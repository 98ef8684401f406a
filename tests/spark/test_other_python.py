"""A worker whose Python has another minor version than the driver's, on a cluster of two hosts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flip27_source.cli.demo.process import spark_environment
from tests.soak.cluster import HOSTS, two_hosts

OTHER = HOSTS[0]
DRIVER = f"3.{sys.version_info.minor}"
BOTH_VERSIONS = rf"Python in worker has different version: 3\.99 than that in driver: {re.escape(DRIVER)}"
CHECK = "import sys; from flip27_source.cli.main import main; sys.exit(main(sys.argv[1:]))"
QUERY = """
import sys
from pyspark.sql import SparkSession
url, folder = sys.argv[1:]
builder = SparkSession.builder.master(url).config("spark.ui.enabled", "false")
of_two_hosts = {"spark.cores.max": "2", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
spark = builder.config(map=of_two_hosts | {"spark.task.maxFailures": "1"}).getOrCreate()
options = {"enumerator": "sequence", "end": "100", "numSplits": "4", "stateLocation": f"{folder}/state"}
rows = spark.readStream.format("flip27").options(**options, parallelism="4").load()
query = rows.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint").start()
query.awaitTermination()
"""


def a_python_that_says_it_is_3_99(folder: Path) -> Path:
    """Make a folder with a program ``python``, which is this Python under another version number."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import collections, sys\n"
        "version = collections.namedtuple('version', 'major minor micro releaselevel serial')\n"
        "sys.version_info = version(3, 99, *sys.version_info[2:])\n"
    )
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.mark.slow  # it starts five JVMs for what Spark itself checks
def test_a_worker_with_another_minor_version_of_python_is_named_by_the_check_and_in_the_log_of_a_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "python")
    program = tmp_path / "query.py"
    program.write_text(QUERY)
    with two_hosts(tmp_path, {OTHER: a_python_that_says_it_is_3_99(tmp_path / "other")}) as url:
        conf = ("--conf", "spark.executor.memory=1g", "--conf", "spark.executor.instances=2")
        environment = {**os.environ, **spark_environment()}
        # In a process of its own: this one may have a session, which would be used instead.
        checked = subprocess.run(
            [sys.executable, "-c", CHECK, "check", "--master", url, *conf, "--json"],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        query = subprocess.run(
            [sys.executable, str(program), url, str(tmp_path)],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    failed = [item for item in json.loads(checked.stdout)["findings"] if item["status"] == "failed"]
    assert checked.returncode != 0
    (finding,) = failed
    assert OTHER in finding["check"]
    assert f"its Python is 3.99, but {DRIVER} on the driver" in finding["found"]
    lost = rf"Lost task \S+ in stage \S+ \(TID \d+\) \({OTHER} executor \d+\)(.*\n)*?.*{BOTH_VERSIONS}"
    assert re.search(lost, query.stderr), query.stderr[-5000:]
    ended = query.stderr.rpartition("StreamingQueryException")[2]
    assert re.search(BOTH_VERSIONS, ended), query.stderr[-5000:]
