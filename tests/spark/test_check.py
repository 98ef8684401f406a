"""What ``flip27 check --spark`` finds with a session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from flip27_source.cli.check.executors import executors
from flip27_source.cli.check.on_executor import ExecutorTask
from flip27_source.cli.check.spark import spark_schema
from flip27_source.errors import SchemaError
from flip27_source.schemas.ddl import parse_columns
from flip27_source.source_checks import Finding, Status


def test_every_executor_is_compared_with_the_driver_and_looks_at_the_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = {"enumerator": "files", "reader": "text", "path": str(tmp_path)}
    task = ExecutorTask(options=options, folder="probe", state=str(tmp_path), token=b"1", needs_state=True)
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe" / "driver").write_bytes(b"1")

    def found(sees: bool) -> dict[str, Finding]:
        own: dict[str, str | None] = {"pyarrow": "0.1", "pyspark": spark.version, "not_there": None}
        findings = executors(spark, task, own, 60.0, lambda _executor: sees)
        return {item.check.rpartition(": ")[2]: item for item in findings}

    findings = found(sees=True)
    assert findings["executors"].found.startswith("1: ")
    for check in ("python", "flip27-source", "package pyspark", "clock", "source", "state location"):
        assert findings[check].status is Status.OK, check
    assert findings["package pyarrow"].status is Status.WARNING
    assert "but 0.1 on the driver" in findings["package pyarrow"].found
    assert findings["package not_there"].status is Status.FAILED
    assert "does not see a file that was written there" in found(sees=False)["state location"].found


def test_spark_parses_schemas_as_the_check_does_without_spark(spark: SparkSession) -> None:
    plain = "c timestamp, d string, e timestamp_ntz, f date, g binary, h decimal, i boolean"
    ddl = f"a long not null, b decimal(10, 2), {plain}"
    assert spark_schema(spark, ddl) == parse_columns(ddl)
    assert spark_schema(spark, "tags array<string>").field("tags").type == pa.list_(pa.string())
    with pytest.raises(SchemaError, match=r"cannot be parsed: .*WRONG"):
        spark_schema(spark, "id wrong")
    for name in ("a-b", "a.b", "1", "a$", "1a", "ä_1", "_", "名", "a@b", "1_000"):
        taken = _takes(partial(spark_schema, spark), name)
        assert taken is _takes(partial(parse_columns, as_spark=True), name), name


def _takes(parse: Callable[[str], object], name: str) -> bool:
    try:
        parse(f"{name} long")
    except (SchemaError, ValueError):
        return False
    return True


def failure_of(*words: str) -> dict[str, str]:
    """The check that fails on a session with these options."""
    program = "import sys; from flip27_source.cli.main import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, "check", *words, "--json", "--schema", "id long"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    (wrong,) = [item for item in json.loads(done.stdout)["findings"] if item["status"] == "failed"]
    return dict(wrong)


def test_why_spark_does_not_start_is_one_line_and_a_setting_is_not_blamed_on_java() -> None:
    url = failure_of("--master", "local[x]")
    assert url["found"].endswith(
        "started: org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'"
    )
    setting = failure_of("--master", "local[1]", "--conf", "spark.executor.instances=abc")
    assert "see what Spark has printed" in setting["remedy"]
    assert "\n" not in setting["found"]


def test_a_setting_that_spark_refuses_is_named_with_its_value(tmp_path: Path) -> None:
    (tmp_path / "spark.conf").write_text("spark.sql.session.timeZone Mars/Phobos\nspark.ui.enabled false\n")
    words = ["--master", "local[1]", "--properties-file", str(tmp_path / "spark.conf")]
    # The query's session may be one of Spark Connect; that of the check is not.
    wrong = failure_of(*words, "--conf", "spark.api.mode=connect")
    assert wrong["check"] == "spark"
    assert "'Mars/Phobos'" in wrong["found"]
    assert '"spark.sql.session.timeZone"' in wrong["found"]
    assert "correct this setting" in wrong["remedy"]


WITHOUT_PANDAS = """
import sys
import flip27_source
from flip27_source.cli.main import main
from pyspark.sql import SparkSession

landing, state = sys.argv[1:]
words = ["--master", "local[1]", "--conf", "spark.ui.enabled=false", "--timeout", "400", "--json"]
words += ["--path", landing, "--state", state, "--reader", "text", "--schema", "value string"]
code = main(["check", *words])
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
stream = spark.readStream.format("flip27").option("enumerator", "files").option("reader", "text")
lines = stream.option("stateLocation", state).load(landing).writeStream.format("memory").queryName("lines")
(query,) = flip27_source.start_in_turn([lines.trigger(availableNow=True).start])
query.awaitTermination()
print([row.value for row in spark.table("lines").collect()])
sys.exit(code)
"""

HIDES_PANDAS = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *where: None if name == "pandas" else find(name, *where)
"""


@pytest.mark.slow
def test_without_pandas_nothing_fails_and_streams_run(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.txt").write_text("a line\n")
    (tmp_path / "site").mkdir()
    # Each Python process runs this module at its start; those of Spark too.
    (tmp_path / "site" / "sitecustomize.py").write_text(HIDES_PANDAS)
    path = os.pathsep.join([str(tmp_path / "site"), str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PANDAS, tmp_path / "landing", tmp_path / "state"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed, lines = done.stdout.rsplit("}", 1)
    assert lines.strip() == "['a line']"
    findings = {item["check"]: item["found"] for item in json.loads(printed + "}")["findings"]}
    assert findings["package pandas"].startswith("not installed: streams run without it")
    assert "executors: data" in findings
