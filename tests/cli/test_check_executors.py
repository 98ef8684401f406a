"""``flip27 check --spark``: the findings for literal answers of executors, and how its session is started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyspark
import pytest

from flip27_source.cli.check import spark, time_limits
from flip27_source.cli.check.executors import (
    Answer,
    Executor,
    executors,
    expected_executors,
    findings_of,
    reason,
)
from flip27_source.cli.check.missing_resources import missing_resources, workers_text
from flip27_source.cli.check.on_executor import STATE, ExecutorTask, not_shared, reach
from flip27_source.cli.check.spark import SessionSettings, check_masters
from flip27_source.contract_version import contract_version
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.source_checks import Finding, Status
from tests.cli.command_line import flip27
from tests.deadline import soon

OWN: dict[str, str | None] = {"pyarrow": "26.0.1"}
FACTS: dict[str, Any] = {
    "now": 1000.0,
    "python": "3.11.7",
    "executable": "/env/bin/python",
    "packages": {"pyarrow": "26.0.1"},
    "free": {"/work": 50 << 30},
    "contract": contract_version(),
    "findings": [],
}
OTHER_PYTHON = (
    "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File ...\n"
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
    "different version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.\n"
    "Please check"
)


def found(*answers: tuple[str, dict[str, Any] | str]) -> dict[str, Finding]:
    """The findings for answers of executors on these hosts: what they say differently, or their error."""
    given = [
        Answer(
            executor=Executor(id=str(number), host=host),
            asked_at=999.0,
            ended_at=1001.0,
            found=None if isinstance(said, str) else FACTS | said,
            error=said if isinstance(said, str) else None,
        )
        for number, (host, said) in enumerate(answers)
    ]
    return {finding.check: finding for finding in findings_of(given, OWN, "python3.11")}


def test_what_all_executors_pass_is_one_finding_with_their_number_and_hosts() -> None:
    findings = found(("a", {}), ("b", {}))
    assert {finding.status for finding in findings.values()} == {Status.OK}
    assert findings["executors: python"].found == "3.11.7 (/env/bin/python) (2 executors: a, b)"
    assert findings["executors: flip27-source"].found.startswith(f"contract version {contract_version()} (2 ")
    assert findings.keys() == {
        f"executors: {check}" for check in ("python", "flip27-source", "package pyarrow", "clock", "disk")
    }


@pytest.mark.parametrize(
    ("said", "check", "status", "text"),
    [
        (
            OTHER_PYTHON,
            "",
            "failed",
            "its Python is 3.12, but 3.11 on the driver; Spark starts 'python3.11' there",
        ),
        ("OSError: gone", "", "failed", "a task has failed: OSError: gone"),
        ({"python": "3.10.1"}, "python", "failed", "3.10.1"),
        ({"contract": "0.2.0+1"}, "flip27-source", "failed", f"version 0.2.0+1, but {contract_version()} on"),
        (
            {"contract": None, "problem": "No module named 'flip27_source'"},
            "flip27-source",
            "failed",
            "No module named 'flip27_source' (/env/bin/python)",
        ),
        (
            {"packages": {"pyarrow": "26.0.2"}},
            "package pyarrow",
            "warning",
            "26.0.2, but 26.0.1 on the driver",
        ),
        ({"packages": {"pyarrow": None}}, "package pyarrow", "failed", "not installed"),
        ({"packages": {"pyarrow": "17.0"}}, "package pyarrow", "failed", "17.0, but 18 or newer is needed"),
        ({"now": 1301.0}, "clock", "warning", "at least 300 s ahead of the driver's"),
        ({"now": 699.0}, "clock", "warning", "at least 300 s behind the driver's"),
        ({"free": {"/work": 9 << 20}}, "disk", "warning", "/work has 9 MiB free"),
        (
            {"findings": [{"check": "data", "status": "failed", "found": "no route", "remedy": "a route"}]},
            "data",
            "failed",
            "no route",
        ),
    ],
)
def test_a_problem_of_one_executor_names_it_and_its_host(
    said: dict[str, Any] | str, check: str, status: str, text: str
) -> None:
    findings = found(("a", {}), ("b", said))
    (wrong,) = [finding for finding in findings.values() if finding.status is not Status.OK]
    assert wrong.check == ("executor 1 on b: " + check if check else "executor 1 on b")
    assert (wrong.status.value, text in wrong.found) == (status, True), wrong.found
    assert wrong.remedy


def test_the_reason_of_a_failed_task_is_the_last_error_of_python() -> None:
    assert "PYTHON_VERSION_MISMATCH" in reason(OTHER_PYTHON)
    assert (
        reason("Traceback\nOSError: one\nduring\nValueError: two\nJVM stacktrace:\nIOException: x")
        == "ValueError: two"
    )
    assert (
        reason('\nJob aborted: Cannot run program "python3.11"')
        == 'Job aborted: Cannot run program "python3.11"'
    )


@pytest.mark.parametrize(
    ("master", "settings", "number"),
    [
        ("local[4]", {}, 1),
        ("local", {}, 1),
        ("local-cluster[3,1,1024]", {}, 3),
        ("spark://a:7077", {}, None),
        ("spark://a:7077", {"spark.executor.instances": "5"}, 5),
        ("yarn", {}, 2),
        ("k8s://https://a:6443", {"spark.executor.instances": "1"}, 1),
    ],
)
def test_the_number_of_executors_is_known_unless_the_cluster_decides(
    master: str, settings: dict[str, str], number: int | None
) -> None:
    assert expected_executors(master, settings) == number


class Frame:
    """A frame of Spark Connect whose tasks wait for executors until the test is over."""

    def __init__(self, is_over: threading.Event) -> None:
        self._is_over = is_over

    def mapInArrow(self, *_: object) -> Frame:
        return self

    def collect(self) -> list[object]:
        self._is_over.wait()
        return []


def test_a_connect_server_without_executors_is_a_finding() -> None:
    is_over = threading.Event()
    session: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    session.range = lambda *_: Frame(is_over)
    try:
        with soon():
            (finding,) = executors(session, None, {}, 0.1)
    finally:
        is_over.set()
    assert (finding.check, finding.status) == ("executors", Status.FAILED)
    assert "no task of the server has answered until the time limit (0.1 s)" in finding.found
    assert "--timeout waits longer" in (finding.remedy or "")


def test_without_a_worker_the_missing_resource_is_named() -> None:
    finding = missing_resources({"spark.master": "spark://127.0.0.1:1", "spark.executor.memory": "4g"}, 20.0)
    assert finding.status is Status.FAILED
    assert (
        "no executor has registered in 20 s at spark://127.0.0.1:1: an executor asks for 4g" in finding.found
    )
    assert "sbin/start-worker.sh" in (finding.remedy or "")
    assert "kubectl" in (missing_resources({"spark.master": "k8s://https://a:6443"}, 1.0).remedy or "")
    assert workers_text({"workers": [{"state": "DEAD"}]}) == "the master has no live worker"
    worker = {"host": "a", "state": "ALIVE", "cores": 2, "coresfree": 0, "memory": 1024, "memoryfree": 512}
    assert workers_text({"workers": [worker]}) == "live workers: a (0 of 2 cores and 512 of 1024 MiB free)"


def test_the_session_is_started_with_the_options_of_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.a=1 pyspark-shell")
    settings = SessionSettings(
        master="spark://a:7077", conf=["spark.b=two words"], properties_file="/x.conf", timeout_s=1.0
    )
    assert settings.submit_arguments == (
        "--conf spark.a=1 --master spark://a:7077 --properties-file /x.conf --conf 'spark.b=two words' "
        "--conf spark.api.mode=classic pyspark-shell"
    )


def of_spark(*words: str | Path) -> dict[str, str]:
    """The finding about a session that could not be started."""
    said = flip27("check", *words, "--json")
    assert said.code == 3
    (finding,) = [item for item in said.data["findings"] if item["check"] == "spark"]
    return dict(finding)


@pytest.mark.parametrize(
    ("words", "address"),
    [
        (["--master", "spark://127.0.0.1:1"], "127.0.0.1:1"),
        (["--conf", "spark.master=spark://127.0.0.1:1"], "127.0.0.1:1"),
        (["--properties-file", "spark.conf"], "127.0.0.1:2"),
        (["--properties-file", "spark.conf", "--conf", "spark.master=spark://127.0.0.1:1"], "127.0.0.1:1"),
        (["--conf", "spark.master=spark://127.0.0.1:2", "--master", "spark://127.0.0.1:1"], "127.0.0.1:1"),
        (["--master", "spark://[::1]:1"], "[::1]:1"),
    ],
)
def test_a_master_that_is_down_is_named_at_once(
    words: list[str], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spark.conf").write_text("# a cluster\nspark.ui.enabled=false\n spark.master  spark://127.0.0.1:2\n")
    finding = of_spark(*words)
    assert f"no master accepts connections: {address} (" in finding["found"]
    assert "check that it runs" in finding["remedy"]


DEAD = "spark.master spark://127.0.0.1:2\nspark.master: spark://127.0.0.1:1\n"


@pytest.mark.parametrize(
    ("variables", "words", "named"),
    [
        ({"PYSPARK_SUBMIT_ARGS": "--master spark://127.0.0.1:1 pyspark-shell"}, [], "ARGS"),
        ({"PYSPARK_SUBMIT_ARGS": "--jars a --master=spark://127.0.0.1:1 pyspark-shell"}, [], "ARGS"),
        ({"PYSPARK_SUBMIT_ARGS": "-c spark.master=spark://127.0.0.1:1 pyspark-shell"}, [], "--conf"),
        ({"PYSPARK_SUBMIT_ARGS": "--properties-file conf/spark-defaults.conf pyspark-shell"}, [], "conf/"),
        ({"SPARK_CONF_DIR": "conf"}, [], "conf/spark-defaults.conf"),
        ({"SPARK_HOME": "."}, [], "./conf/spark-defaults.conf"),
        ({"SPARK_HOME": ".", "MASTER": "spark://127.0.0.1:3"}, [], "./conf/spark-defaults.conf"),
        ({"SPARK_CONF_DIR": "nowhere", "MASTER": "spark://127.0.0.1:1"}, [], "MASTER"),
        ({"SPARK_CONF_DIR": "conf", "MASTER": "spark://127.0.0.1:1"}, ["other.conf"], "MASTER"),
    ],
)
def test_a_master_that_is_down_is_named_wherever_spark_takes_it_from(
    variables: dict[str, str], words: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("conf", "bin"):
        Path(folder).mkdir()
    Path("conf/spark-defaults.conf").write_text(DEAD)
    Path("other.conf").write_text("spark.ui.enabled false\n")
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "MASTER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    finding = of_spark("--spark", *(word for file in words for word in ("--properties-file", file)))
    assert "no master accepts connections: 127.0.0.1:1 (" in finding["found"]
    assert named in finding["remedy"]


def test_one_master_of_several_is_enough() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        check_masters(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}", "--master")


def test_a_session_that_cannot_be_started_has_the_remedy_of_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        "give an existing file with --properties-file"
        in of_spark("--properties-file", tmp_path / "nowhere.conf")["remedy"]
    )
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    finding = of_spark("--spark")
    assert f"SPARK_HOME is {tmp_path}, where no Spark is installed" in finding["found"]
    assert "unset SPARK_HOME" in finding["remedy"]


@pytest.mark.parametrize(
    "words", [["--remote", "sc://a", "--master", "local"], ["--conf", "spark.a"], ["--timeout", "soon"]]
)
def test_options_that_contradict_or_cannot_be_read_are_wrong_usage(words: list[str]) -> None:
    assert flip27("check", *words).code == 2


def test_a_session_that_does_not_start_in_time_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(spark, "_started", lambda _settings: ended.wait(60))
    finding = of_spark("--spark", "--timeout", "0.2")
    ended.set()
    assert "it has not started in 0.2 s" in finding["found"]
    assert "more time with --timeout" in finding["remedy"]


@pytest.fixture
def silent_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that accepts connections and never answers, for which nobody waits long."""
    monkeypatch.setattr(time_limits, "ANSWER_S", 0.5)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_does_not_answer_ends_the_checks_of_its_location(silent_server: str) -> None:
    """Its client would retry for minutes, for each request."""
    options = [f"storage.endpoint_url=http://{silent_server}", "storage.key=a", "storage.secret=b"]
    words = [word for pair in options for word in ("--option", pair)]
    said = flip27("check", "--state", "s3://b/state", "--path", "s3://b/landing", *words, "--json")
    failed = {item["check"]: item["found"] for item in said.data["findings"] if item["status"] == "failed"}
    assert failed == {
        "state location": "s3://b/state has not answered in 0.5 s",
        "path": "s3://b/landing has not answered in 0.5 s",
    }
    assert "conditional create" not in {item["check"] for item in said.data["findings"]}


def test_a_database_that_does_not_answer_is_asked_once(silent_server: str) -> None:
    """The driver of SQL would wait forever, and once more for the columns."""
    options = {"uri": f"postgresql://me@{silent_server}/shop", "table": "orders", "cursorColumns": "id"}
    words = [word for pair in options.items() for word in ("--option", "=".join(pair))]
    said = flip27("check", "--enumerator", "sql", *words, "--json")
    found = {item["check"]: item["found"] for item in said.data["findings"] if item["status"] != "ok"}
    assert (said.code, found.pop("state location")) == (3, "not given")
    assert found == {
        "sql": "the server of enumerator=sql has not answered in 0.5 s",
        "schema": "not looked up, because sql has failed",
    }
    assert statuses(ExecutorTask(options={"enumerator": "sql"} | options)) == {
        "source": "ok", "data": "failed"
    }  # fmt: skip


def test_an_executor_that_does_not_see_the_file_of_the_driver_does_not_share_the_state(
    tmp_path: Path,
) -> None:
    options = {"enumerator": "files", "reader": "text", "path": str(tmp_path)}
    (tmp_path / "state").mkdir()
    task = ExecutorTask(
        options=options, folder="probe", state=str(tmp_path / "state"), token=b"1", needs_state=True
    )
    assert statuses(task) == {"state location": "failed", "source": "ok"}
    assert list((tmp_path / "state").iterdir()) == []
    (tmp_path / "state" / "probe").mkdir()
    (tmp_path / "state" / "probe" / "driver").write_bytes(b"1")
    assert statuses(task) == {"state location": "ok", "source": "ok"}
    assert (tmp_path / "state" / "probe" / "7").read_bytes() == b"1"
    assert not_shared("it is gone", task).status is Status.FAILED
    assert not_shared("it is gone", ExecutorTask(options=options)).status is Status.WARNING
    assert not_shared("it is gone", task).check == STATE


def statuses(task: ExecutorTask) -> dict[str, str]:
    return {item["check"]: str(item["status"]) for item in reach(task.on("7"))}


def test_an_executor_that_does_not_reach_a_listed_file_or_lacks_a_package_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"enumerator": "files", "reader": "avro", "path": str(tmp_path)}
    file = FileSplit(path=str(tmp_path / "a.avro"), length=1, modified_us=0)

    def data() -> dict[str, Any]:
        findings = reach(ExecutorTask(options=options, file=file).on("1"))
        return {item["check"]: item for item in findings}["data"]

    assert f"{file.path}, which the driver has listed, cannot be read" in data()["found"]
    assert "that all hosts mount" in data()["remedy"]
    (tmp_path / "a.avro").write_bytes(b"x")
    assert "does not start like an Avro file" in data()["found"]
    monkeypatch.setitem(sys.modules, "fastavro", None)
    assert "needs the package fastavro" in data()["found"]
    assert "pip install 'flip27-source[avro]'" in data()["remedy"]


HIDDEN = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name: find(name) if name != "pyspark" or {home!r} in sys.path else None
from flip27_source.cli.check.machine import pyspark_version
print(pyspark_version())
"""


def test_pyspark_of_spark_home_counts_as_installed(tmp_path: Path) -> None:
    """In a Python that has no package pyspark, as far as the check can see."""
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "pyspark").symlink_to(Path(pyspark.__file__).parent)
    program = HIDDEN.format(home=str(tmp_path / "python"))
    for home, found in ((tmp_path, pyspark.__version__), (tmp_path / "nowhere", "None")):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"SPARK_HOME": str(home)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == found
