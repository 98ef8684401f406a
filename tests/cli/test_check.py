"""``flip27 check``: its findings for literal data and real locations; it leaves nothing behind."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
import venv
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import grpc
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from flip27_source import hybrid
from flip27_source.cli.check import command, spark, time_limits
from flip27_source.cli.check.command import SourceCheck
from flip27_source.cli.check.locations import state_location
from flip27_source.cli.check.machine import (
    CHECK,
    installed_version,
    java_version,
    package_version,
    python_version,
    required_packages,
    spark_python,
)
from flip27_source.contract_version import contract_version
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import Flip27Error, OptionError
from flip27_source.reader import SplitReader
from flip27_source.schemas.source_schema import schema_of
from flip27_source.source import Source
from flip27_source.source_checks import Finding, Status
from flip27_source.testing import MicroBatchEngine
from tests.cli.command_line import Said, flip27
from tests.s3_server import S3Bucket

JAVA_8 = 'java version "1.8.0_401"\nJava(TM) SE Runtime Environment'
JAVA_17 = 'openjdk version "17.0.12" 2024-07-16\nOpenJDK Runtime Environment'
JAVA_25 = 'openjdk version "25" 2025-09-16'


def answer(**differing: str) -> str:
    """Return a shell command that prints the answer of this process's Python, with some values replaced."""
    own = {"executable": "/opt/python", "python": platform.python_version(), "contract": contract_version()}
    return f"echo '{json.dumps(own | differing)}'"


def statuses(said: Said) -> dict[str, str]:
    return {finding["check"]: finding["status"] for finding in said.data["findings"]}


@pytest.mark.parametrize(
    ("finding", "status"),
    [
        (python_version("python", (3, 10, 14)), Status.FAILED),
        (python_version("python", (3, 11, 0)), Status.OK),
        (java_version(None), Status.FAILED),
        (java_version(JAVA_8), Status.FAILED),
        (java_version(JAVA_17), Status.OK),
        (java_version(JAVA_25), Status.OK),
        (java_version("a script that says nothing"), Status.WARNING),
        (package_version("p", "pyspark", "3.5.9", "4.0"), Status.FAILED),
        (package_version("p", "pyspark", "4.0.0.dev1", "4.0"), Status.OK),
        (package_version("p", "pyspark", "4.10", "4.0"), Status.OK),
        (package_version("p", "numpy", "1.0", None), Status.OK),
        (package_version("p", "numpy", None, None), Status.FAILED),
    ],
)
def test_versions_are_compared_with_the_requirements(finding: Finding, status: Status) -> None:
    assert finding.status is status
    assert (finding.remedy is None) == (status is Status.OK)


def test_requirements_are_read_from_the_installed_package() -> None:
    assert required_packages()["pyarrow"] == "18"
    assert {"fsspec", "msgspec", "numpy"} <= required_packages().keys()
    assert "moto" not in required_packages()
    assert installed_version("a-package-that-is-not-there") is None


def test_a_machine_that_runs_the_tests_is_ready() -> None:
    said = flip27("check", "--json")
    assert said.code == 0
    assert said.data["is_ready"] is True
    assert set(statuses(said).values()) == {"ok"}
    assert {"python", "java", "format", "package pyspark", "package pyarrow", CHECK} <= statuses(said).keys()


WITHOUT_PANDAS = """
import sys
sys.modules["pandas"] = None
from flip27_source.cli.main import main
sys.exit(main(["check", "--path", sys.argv[1], "--reader", "json", "--schema", "id long", "--json"]))
"""


def test_a_machine_without_pandas_is_ready_because_streams_run_without_it(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PANDAS, tmp_path], capture_output=True, text=True, check=False
    )
    said = Said(done.returncode, done.stdout, done.stderr)
    assert said.code == 0, said.err
    assert (statuses(said)["package pandas"], statuses(said)["schema"]) == ("ok", "ok")
    assert "not installed: streams run without it" in said.out


@pytest.fixture
def empty_environment(tmp_path: Path) -> Path:
    """A Python without any package, as on a machine whose virtual environment is not activated."""
    venv.create(tmp_path / "bare", symlinks=True, with_pip=False)
    return tmp_path / "bare" / "bin"


def test_a_virtual_environment_that_is_not_activated_fails(
    empty_environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this case, Spark runs python3 from the PATH, not the Python that runs this command."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PATH", f"{empty_environment}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    said = flip27("check", "--json")
    assert said.code == 3
    (finding,) = [item for item in said.data["findings"] if item["status"] == "failed"]
    assert finding["check"] == CHECK
    assert finding["found"].startswith(
        "python3 (first on the PATH, as PYSPARK_PYTHON is not set) cannot import"
    )
    assert "ModuleNotFoundError: No module named 'flip27_source'" in finding["found"]
    assert finding["remedy"] == (
        f"activate the virtual environment of this command, or set PYSPARK_PYTHON={sys.executable}"
    )
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    assert statuses(flip27("check", "--json"))[CHECK] == "ok"


def says(folder: Path, *lines: str) -> str:
    """Write a shell script that stands in for a Python, and return its path."""
    file = folder / "a python"
    file.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["echo no license >&2", "exit 7"], "cannot import flip27_source and pyarrow: no license"),
        (["exit 7"], "cannot import flip27_source and pyarrow: it ended with 7"),
        (["echo 17"], "cannot import flip27_source and pyarrow: it ended with 0"),
        ([answer(contract="0.0.1+0")], f"with flip27-source 0.0.1+0; this command has {contract_version()}"),
        ([answer(python="3.9.1")], "Python 3.9.1; this command has 3."),
        (["echo hello from sitecustomize", answer()], "it started in"),
    ],
)
def test_the_python_of_the_workers_is_named_with_its_problem(
    lines: list[str], found: str, tmp_path: Path
) -> None:
    command = says(tmp_path, *lines)
    finding = spark_python({**os.environ, "PYSPARK_PYTHON": command})
    assert f"{command} (PYSPARK_PYTHON)" in finding.found
    assert found in finding.found
    assert (finding.status is Status.OK) == ("it started" in found)


def test_a_missing_python_fails(tmp_path: Path) -> None:
    finding = spark_python({"PYSPARK_PYTHON": str(tmp_path / "nowhere")})
    assert (finding.status, "cannot be started: No such file" in finding.found) == (Status.FAILED, True)


def test_ready_locations_pass_and_remain_unchanged(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.json").write_text('{"id": 1}\n')
    said = flip27(
        "check", "--path", tmp_path / "landing", "--state", tmp_path / "new" / "state", "--reader", "json",
        "--schema", "id long", "--json",
    )  # fmt: skip
    assert said.code == 0
    found = statuses(said)
    for name in ("options", "state location", "conditional create", "path", "listing", "schema"):
        assert found[name] == "ok", name
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.json", "landing"]


def test_checking_a_state_location_keeps_its_content(tmp_path: Path) -> None:
    (tmp_path / "files-0123456789abcdef").mkdir()
    assert [finding.status for finding in state_location(str(tmp_path), {})] == [Status.OK] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["files-0123456789abcdef"]


def test_probes_in_a_bucket_are_deleted() -> None:
    memory = fsspec.filesystem("memory")
    findings = list(state_location("memory://check/state", {}))
    assert findings[0].status is Status.OK
    assert memory.find("/check") == []


class Careless(MemoryFileSystem):
    """An object store that ignores the condition of a conditional create: it overwrites what exists."""

    protocol = "oci"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path, value, **options)


class Honest(Careless):
    """An object store that reports that it has no conditional create."""

    protocol = "oss"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        if mode == "create":
            raise NotImplementedError
        super().pipe_file(path, value, **options)


@pytest.mark.parametrize(("kind", "status", "code"), [(Careless, "failed", 3), (Honest, "warning", 0)])
def test_a_file_system_without_exclusive_creation_is_detected(
    kind: type[MemoryFileSystem], status: str, code: int
) -> None:
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
    said = flip27("check", "--state", f"{kind.protocol}://bucket/state", "--json")
    assert statuses(said)["conditional create"] == status
    assert said.code == code
    assert fsspec.filesystem("memory").find("/bucket") == []


class Together(MemoryFileSystem):
    """A file system that answers once both places have been asked for."""

    protocol = "together"
    places: ClassVar[set[str]] = set()
    both = threading.Event()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("together://")))

    def _asked(self, path: str) -> None:
        self.places.add("state" if "state" in path else "landing")
        if len(self.places) == 2:
            self.both.set()
        assert self.both.wait(8)

    def isfile(self, path: str) -> bool:
        self._asked(path)
        return bool(super().isfile(path))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> Any:
        self._asked(path)
        return super().cat_file(path, start, end, **options)


def test_the_servers_of_the_state_and_of_the_path_are_asked_at_once() -> None:
    """A server that does not answer takes ten seconds, not ten for each location."""
    fsspec.register_implementation(Together.protocol, Together, clobber=True)
    fsspec.filesystem("memory").pipe_file("/both/landing/a.txt", b"a\n")
    places = ("--state", "together://both/state", "--path", "together://both/landing")
    said = flip27("check", *places, "--reader", "text", "--json")
    assert (statuses(said)["state location"], statuses(said)["path"]) == ("ok", "ok")


def test_a_state_location_that_cannot_be_written_fails_with_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    said = flip27("check", "--state", tmp_path / "file" / "state", "--json")
    assert said.code == 3
    assert said.data["is_ready"] is False
    assert statuses(said)["state location"] == "failed"
    assert flip27("check", "--state", tmp_path / "file" / "state").code == 3


@pytest.mark.parametrize(("folder", "code", "status"), [("nowhere", 3, "failed"), ("", 0, "warning")])
def test_a_missing_path_fails_and_one_without_files_is_a_warning(
    tmp_path: Path, folder: str, code: int, status: str
) -> None:
    said = flip27("check", "--path", tmp_path / folder, "--reader", "text", "--json")
    assert (said.code, statuses(said)["path"]) == (code, status)


def of_source(path: Path, **options: str) -> dict[str, Finding]:
    """The findings of a files source, without those of the machine."""
    checked = SourceCheck({"enumerator": "files", "path": str(path)} | options, None, None)
    return {finding.check: finding for finding in checked.findings()}


def test_without_a_reader_the_one_that_the_names_of_files_tell_is_checked(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    found = of_source(tmp_path, header="true")
    assert found["options"].found.startswith("enumerator files, reader csv, chosen as at a start")
    assert {found[name].status for name in ("options", "path", "listing")} == {Status.OK}


def test_the_watermark_delay_that_a_backlog_needs_is_compared_with_that_of_the_user(tmp_path: Path) -> None:
    for name in ("a-2024-01-02", "b-2024-01-01", "c-2024-01-01"):
        (tmp_path / f"{name}.txt").write_text("a line\n")
    options = {
        "reader": "text",
        "eventTimeOrder": "true",
        "eventTimePattern": "%Y-%m-%d",
        "maxFilesPerTrigger": "1",
    }
    found = of_source(tmp_path, **options)["event time"]
    assert found.status is Status.OK
    assert found.found == (
        "a watermark delay of 86400 s loses nothing of 3 files, whose times are from "
        "2024-01-01T00:00:00+00:00 to 2024-01-02T23:59:59.999999+00:00"
    )
    warned = of_source(tmp_path, **options, watermarkDelay="1 hour")["event time"]
    assert warned.status is Status.WARNING
    assert warned.found.endswith("; watermarkDelay is 3600 s")
    assert warned.remedy is not None
    assert warned.remedy.startswith("set withWatermark and watermarkDelay to at least 86400 s")
    (tmp_path / "undated.txt").touch()
    failed = of_source(tmp_path, **options)["event time"]
    assert (failed.status, "undated.txt has no event time" in failed.found) == (Status.FAILED, True)


def test_the_delay_that_a_chain_needs_is_computed_with_its_switch(tmp_path: Path) -> None:
    for name in ("2024-01-01", "2024-01-02", "2024-01-03"):
        (tmp_path / f"{name}.txt").write_text("a line\n")
    dated = {"path": tmp_path, "reader": "text", "eventTimeOrder": True, "eventTimePattern": "%Y-%m-%d"}
    live = {"path": tmp_path, "reader": "text", "modifiedAfter": "{switch}"}

    def found(**more: Any) -> Finding:
        chain = hybrid(("files", dated), ("files", live), maxFilesPerTrigger=1, **more)
        findings = SourceCheck(chain, None, None).findings()
        return next(one for one in findings if one.check == "hybrid.1 (files): event time")

    assert found().status is Status.OK
    assert found().found == (
        "a watermark delay of 86400 s loses nothing of 3 files, whose times are from "
        "2024-01-01T00:00:00+00:00 "
        "to 2024-01-03T23:59:59.999999+00:00, and of the next source, which starts at "
        "2024-01-02T23:59:59.999000+00:00"
    )
    warned = found(switchOverlap="1 hour", watermarkDelay="1 day")
    assert (warned.status, "a watermark delay of 90000 s" in warned.found) == (Status.WARNING, True)
    assert "a smaller switchOverlap" in (warned.remedy or "")


def test_a_reader_that_is_not_chosen_in_time_is_not_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing may be long, and a start waits for it."""
    (tmp_path / "a.csv").write_text("1\n")
    ended = threading.Event()
    monkeypatch.setattr(command, "reader_by_names", lambda _options: ended.wait(60))
    monkeypatch.setattr(time_limits, "ANSWER_S", 2.0)
    found = of_source(tmp_path)
    ended.set()
    assert {name: finding.status for name, finding in found.items() if name in ("path", "reader")} == {
        "path": Status.OK, "reader": Status.SKIPPED
    }  # fmt: skip


@pytest.mark.parametrize("names", [["a.csv", "b.json"], ["a.dat"], []])
@pytest.mark.parametrize("options", [{}, {"header": "true"}])
def test_files_whose_names_tell_no_reader_fail_with_the_error_of_a_query(
    tmp_path: Path, names: list[str], options: dict[str, str]
) -> None:
    for name in names:
        (tmp_path / name).write_text("1\n")
    with pytest.raises(OptionError) as refused:
        MicroBatchEngine({"enumerator": "files", "path": str(tmp_path)}).run_batch()
    found = of_source(tmp_path, **options)
    assert (found["reader"].found, found["reader"].status) == (refused.value.what, Status.FAILED)


RECURSIVE = {"recursiveFileLookup": "true"}
STATE_PLACES: dict[str, tuple[str, str, dict[str, str], bool]] = {
    "below": ("{0}/in", "{0}/in/ckpt/flip27", RECURSIVE, True),
    "the path": ("{0}/in", "{0}/in/", RECURSIVE | {"pathGlobFilter": "*.json"}, True),
    "by notifications": ("{0}/in", "{0}/in/flip27", RECURSIVE | {"discovery": "notifications"}, True),
    "a URL": ("{0}/in", "file://{0}/in/flip27", RECURSIVE, True),
    "above, by a link": ("{0}/link", "{0}/in/flip27", RECURSIVE, True),
    "by a glob": ("{0}/*", "{0}/in", RECURSIVE, True),
    "by as many globs": ("{0}/*/*/*/*", "{0}/in", {}, True),
    "one of several paths": ("{0}/in", "{0}/more/flip27", {"paths": "{0}/more"} | RECURSIVE, True),
    "not recursive": ("{0}/in", "{0}/in/flip27", {}, False),
    "hidden": ("{0}/in", "{0}/in/_checkpoint/flip27", RECURSIVE, False),
    "of other names": ("{0}/in", "{0}/in/flip27", RECURSIVE | {"pathGlobFilter": "*.csv"}, False),
    "in a store": ("memory://{0}/in", "memory://{0}/in/flip27", RECURSIVE, True),
    "elsewhere": ("{0}/in", "{0}/in-flip27", RECURSIVE, False),
    "in another file system": ("memory://{0}/in", "{0}/in/flip27", RECURSIVE, False),
}


@pytest.mark.parametrize(("path", "state", "options", "is_refused"), STATE_PLACES.values(), ids=STATE_PLACES)
def test_a_state_location_that_the_source_would_read_is_refused(
    tmp_path: Path, path: str, state: str, options: dict[str, str], is_refused: bool
) -> None:
    (tmp_path / "link").symlink_to("in")
    for name in ("in/a.csv", "more/a.csv"):
        fsspec.filesystem("memory").pipe_file(f"{tmp_path}/{name}", b"1\n")
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("1\n")
    options = {"path": path, "stateLocation": state, "reader": "text", "enumerator": "files"} | options
    options = {name: value.format(tmp_path) for name, value in options.items()}
    words = [w for pair in options.items() if pair[0] != "enumerator" for w in ("--option", "=".join(pair))]
    findings = flip27("check", *words, "--json").data["findings"]
    assert any("which the source reads" in item["found"] for item in findings) is is_refused
    with pytest.raises(OptionError, match="which the source reads") if is_refused else nullcontext():
        MicroBatchEngine(options).run_batch()


@pytest.mark.parametrize(
    "options",
    [
        {"cleanSource": "archive"},
        {"cleanSource": "archive", "sourceArchiveDir": "{0}/archive"},
        {"latestFirst": "true", "fileOrder": "name"},
        {"seenFiles": "nameCursor", "fileNameOnly": "true"},
    ],
)
def test_options_that_a_query_refuses_fail_with_its_error(tmp_path: Path, options: dict[str, str]) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    options = {"path": f"{tmp_path}", "reader": "text"} | options
    options = {name: value.format(tmp_path) for name, value in options.items()}
    with pytest.raises(OptionError) as refused:
        MicroBatchEngine({"enumerator": "files"} | options).run_batch()
    words = [word for pair in options.items() for word in ("--option", "=".join(pair))]
    said = flip27("check", *words, "--json")
    found = {item["check"]: item["found"] for item in said.data["findings"] if item["status"] == "failed"}
    assert (said.code, found["options"]) == (3, refused.value.what)


def test_an_object_store_is_checked_with_its_conditional_put(s3_bucket: S3Bucket) -> None:
    options = [word for pair in s3_bucket.options.items() for word in ("--option", "=".join(pair))]
    s3_bucket.file_system.pipe_file(f"{s3_bucket.name}/landing/a.txt", b"a\n")
    said = flip27(
        "check", "--path", f"s3://{s3_bucket.name}/landing", "--reader", "text",
        "--state", f"s3://{s3_bucket.name}/state", *options, "--json",
    )  # fmt: skip
    assert said.code == 0
    assert set(statuses(said).values()) == {"ok"}
    assert s3_bucket.file_system.find(f"{s3_bucket.name}/state") == []


def test_a_spark_connect_server_that_does_not_answer_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "SERVER_S", 0.5)
    said = flip27("check", "--remote", "sc://127.0.0.1:1", "--json")
    assert (said.code, statuses(said)["spark"]) == (3, "failed")
    assert "the server has accepted no connection in 0.5 s" in said.out
    assert "check the URL, which --remote names" in said.out


def test_a_spark_connect_server_of_the_environment_is_asked_as_quickly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark, "SERVER_S", 0.5)
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    said = flip27("check", "--spark", "--json")
    assert (said.code, statuses(said)["spark"]) == (3, "failed")
    assert "java" not in statuses(said)
    assert "the server has accepted no connection in 0.5 s" in said.out
    assert "check the URL, which SPARK_REMOTE names" in said.out
    of_cluster = flip27("check", "--master", "local[1]", "--json")
    assert "SPARK_REMOTE is sc://127.0.0.1:1, so a session would be one of Spark Connect" in of_cluster.out
    assert statuses(flip27("check", "--json"))["java"] == "ok"


class Silent(grpc.GenericRpcHandler):
    """Accepts every call, and answers none until the test is over."""

    def __init__(self) -> None:
        self.is_over = threading.Event()

    def service(self, handler_call_details: object) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda *_: self.is_over.wait())


def test_a_spark_connect_server_that_answers_no_call_does_not_keep_the_command_from_ending() -> None:
    silent = Silent()
    server = grpc.server(ThreadPoolExecutor(), handlers=(silent,))
    remote = f"sc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    command = [sys.executable, "-m", "flip27_source.cli.main", "check", "--remote", remote]
    try:
        said = subprocess.run([*command, "--timeout", "5"], timeout=60, capture_output=True, check=False)
    finally:
        silent.is_over.set()
        server.stop(0)
    assert (said.returncode, b"it has not" in said.stdout) == (3, True), said


@pytest.mark.parametrize(
    "url",
    [
        "sc://127.0.0.1:1;token=s3cr3t",  # the slash after the port is missing
        "sc://127.0.0.1:1/;authorization=Bearer s3cr3t",
    ],
)
def test_the_token_of_a_connect_url_is_not_shown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "SERVER_S", 0.5)
    given = flip27("check", "--remote", url)
    monkeypatch.setenv("SPARK_REMOTE", url)
    for said in (given, flip27("check", "--spark"), flip27("check", "--spark", "--master", "local[1]")):
        assert (said.code, "s3cr3t" in said.out + said.err) == (3, False)


def test_an_enumerator_without_options_is_looked_at() -> None:
    assert "did you mean 'kafka'" in flip27("check", "--enumerator", "kafak", "--json").out
    assert flip27("check", "--enumerator", "kafka").code == 3  # it lacks options that it needs


def test_an_unknown_option_fails_with_the_nearest_names(tmp_path: Path) -> None:
    words = ["--reader", "text", "--option", "maxFilesPerTriger=1", "--json"]
    said = flip27("check", "--path", tmp_path, *words)
    assert said.code == 3
    (finding,) = [item for item in said.data["findings"] if item["status"] == "failed"]
    assert "did you mean maxFilesPerTrigger" in finding["found"]


def test_an_option_that_is_given_twice_is_wrong_usage(tmp_path: Path) -> None:
    for words in (
        ("--path", tmp_path, "--option", "Path=/elsewhere"),
        ("--reader", "text", "--option", "reader=csv"),
    ):
        said = flip27("check", *words)
        assert (said.code, said.out) == (2, "")
        assert f"--option: {str(words[3]).partition('=')[0]} is given twice" in said.err


def test_a_path_to_be_cleaned_has_to_be_writable(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    words = ["check", "--path", tmp_path, "--reader", "text", "--option", "cleanSource=delete", "--json"]
    assert statuses(flip27(*words))["path, to clean"] == "ok"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("schema", "status"),
    [
        ("id long, name string", "ok"),
        ("id long, nam string", "warning"),  # permissive readers return null for a missing column
        ("id array<long>", "warning"),
        ("id variant", "skipped"),
        (None, "ok"),
    ],
)
def test_the_schema_is_tried_on_the_first_file(schema: str | None, status: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "name": "one"}\n')
    words = [] if schema is None else ["--schema", schema]
    said = flip27("check", "--path", tmp_path, "--reader", "json", *words, "--json")
    assert said.code == 0
    assert statuses(said)["schema"] == status


def test_columns_of_null_suggest_the_reader_that_the_name_of_the_file_tells(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,one\n")
    options = {"enumerator": "files", "path": str(tmp_path), "reader": "json"}
    *_, schema = SourceCheck(options, "id long", None).findings()
    assert (schema.status, schema.check) == (Status.WARNING, "schema")
    assert str(schema.remedy).startswith("use the reader csv, which the name of the file tells; or check the")


def test_a_file_that_does_not_fit_its_reader_fails(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("this is no parquet")
    words = ["check", "--path", tmp_path, "--reader", "parquet", "--schema", "id long", "--json"]
    said = flip27(*words)
    assert said.code == 3
    assert statuses(said)["schema"] == "failed"


@pytest.mark.parametrize(
    ("reader", "content"), [("avro", b'{"id": 1}\n'), ("parquet", b"PAR1 and no footer")]
)
def test_without_a_schema_a_file_that_cannot_be_read_fails_with_the_error_of_load(
    reader: str, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_bytes(content)
    options = {"enumerator": "files", "path": str(tmp_path), "reader": reader}
    options |= {"stateLocation": str(tmp_path / "state")}
    with pytest.raises(Flip27Error) as refused:
        schema_of(Source.resolve(options))
    found = {finding.check: finding for finding in SourceCheck(options, None, None).findings()}["schema"]
    assert (found.status, found.found) == (Status.FAILED, refused.value.what)
    assert str(found.remedy).endswith(str(refused.value.remedy))


def test_the_schema_that_a_start_would_find_is_shown_and_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    checked = SourceCheck(
        {
            "enumerator": "files",
            "path": f"{tmp_path}",
            "reader": "json",
            "stateLocation": f"{tmp_path}/state",
        },
        None,
        None,
    )
    *_, schema = checked.findings()
    assert (schema.status, checked.schema) == (Status.OK, pa.schema([("id", pa.int64())]))
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_schema_that_is_certainly_wrong_fails_without_spark(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n')

    def status(ddl: str) -> Status:
        options = {"enumerator": "files", "path": str(tmp_path), "reader": "json"}
        *_, schema = SourceCheck(options, ddl, None).findings()
        assert schema.check == "schema"
        return schema.status

    more = ("time lon", "a-b long", "a.b long")
    for wrong in ("id lon", "id long,", "id", "id array<long", "id decimal(40)", *more):
        assert status(wrong) is Status.FAILED, wrong
    more = ("-- a comment\nid long", "id long, /*a*/ b long", "id interval day")
    for of_spark in ("id variant", "id geometry(4326)", "id string COLLATE UTF8_LCASE", *more):
        assert status(of_spark) is Status.SKIPPED, of_spark


@pytest.mark.parametrize("options", [{"enumerator": "sequence"}, {"enumerator": "files", "reader": "json"}])
def test_a_schema_is_parsed_even_if_there_is_no_file_to_read(options: dict[str, str], tmp_path: Path) -> None:
    options = options | ({"path": str(tmp_path)} if options["enumerator"] == "files" else {})
    for ddl, status in (("id bogus", Status.FAILED), ("id long", Status.OK)):
        found = [one for one in SourceCheck(dict(options), ddl, None).findings() if one.check == "schema"]
        assert [one.status for one in found] == [status], ddl


class WithoutSchema(SplitReader[FileSplit]):
    """A reader that has no schema of its own."""

    def read(self, split: FileSplit) -> Iterator[Any]:
        yield from ()


def test_a_reader_that_needs_a_schema_is_not_failed_if_none_is_given_here(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("a line")
    options = {"enumerator": "files", "path": str(tmp_path), "reader": "tests.cli.test_check:WithoutSchema"}
    *_, schema = SourceCheck(options, None, None).findings()
    assert (schema.check, schema.status) == ("schema", Status.SKIPPED)


def test_a_schema_is_not_looked_up_where_the_state_location_has_failed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}')
    (tmp_path / "file").touch()
    options = {"enumerator": "files", "path": str(tmp_path / "in"), "reader": "json"}
    *_, schema = SourceCheck({**options, "stateLocation": f"{tmp_path}/file"}, None, None).findings()
    assert (schema.status, "the state location has failed" in schema.found) == (Status.SKIPPED, True)


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    """A function that sets the umask of this process for a test."""
    before = os.umask(0o022)
    os.umask(before)
    yield os.umask
    os.umask(before)


def permissions(state: Path) -> dict[str, Any]:
    said = flip27("check", "--state", state, "--json")
    found = {finding["check"]: finding for finding in said.data["findings"]}
    assert found["state location"]["status"] == "ok"
    return dict(found["state location, permissions"])


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o703])
@pytest.mark.parametrize("where", ["state", "state/lineage", "state/lineage/requests"])
def test_a_world_writable_state_location_is_a_warning(tmp_path: Path, where: str, mode: int) -> None:
    """The sticky bit does not help there, because a request that is added edits the source."""
    (tmp_path / "state" / "lineage" / "requests").mkdir(parents=True)
    assert permissions(tmp_path / "state")["status"] == "ok"
    (tmp_path / where).chmod(mode)
    found = permissions(tmp_path / "state")
    assert found["status"] == "warning"
    assert f"everybody may write to {tmp_path / where} (mode {mode:04o}): they can add" in found["found"]
    assert f"chmod o-w {tmp_path / where}" in found["remedy"]


def test_a_world_writable_parent_directory_without_the_sticky_bit_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "above" / "state").mkdir(parents=True)
    (tmp_path / "above").chmod(0o1777)
    assert permissions(tmp_path / "above" / "state")["status"] == "ok"
    (tmp_path / "above").chmod(0o777)
    found = permissions(tmp_path / "above" / "state")
    assert "replace the state location with another directory" in found["found"]
    assert found["status"] == "warning"


def test_a_umask_that_makes_new_directories_world_writable_is_a_warning(
    tmp_path: Path, umask: Callable[[int], None]
) -> None:
    umask(0o000)
    assert permissions(tmp_path / "new")["status"] == "warning"
    umask(0o002)
    assert permissions(tmp_path / "newer")["status"] == "ok"
    assert not (tmp_path / "new").exists()


def test_spark_archives_without_bytecode_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert statuses(flip27("check", "--json"))["pyspark.zip"] == "ok"
    library = tmp_path / "python" / "lib"
    library.mkdir(parents=True)
    with zipfile.ZipFile(library / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
    assert statuses(flip27("check", "--json"))["pyspark.zip"] == "warning"
    flip27("tune", "--spark-home", tmp_path)
    assert statuses(flip27("check", "--json"))["pyspark.zip"] == "ok"


KAFKA = ("--enumerator", "kafka", "--option", "subscribe=orders", "--option", "kafka.request.timeout.ms=1000")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ((), "ok"),
        (("--option", "valueFormat=json"), "failed"),
        (("--option", "valueFormat=avro", "--option", "valueSchemaFile=/nowhere.avsc"), "failed"),
        (("--option", "valueFormat=avro", "--schema", "value struct<id: bigint>"), "failed"),
        (("--option", "valueFormat=json", "--schema", "value struct<id: bigint>"), "ok"),
        (("--schema", "valeu binary"), "failed"),
    ],
)
def test_the_columns_of_a_source_that_finds_them_itself_are_checked(
    given: tuple[str, ...], found: str
) -> None:
    brokers = ("--option", "kafka.bootstrap.servers=127.0.0.1:1")
    assert statuses(flip27("check", *KAFKA, *brokers, *given, "--json"))["schema"] == found


def test_a_query_whose_tasks_write_reports_needs_a_state_location() -> None:
    brokers = ("--option", "kafka.bootstrap.servers=127.0.0.1:1")
    reports = ("--option", "valueFormat=string", "--option", "onRecordError=quarantine")
    assert statuses(flip27("check", *KAFKA, *brokers, *reports, "--json"))["state location"] == "failed"
