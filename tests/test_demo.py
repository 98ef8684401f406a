"""The demo: what it proves, which errors it would notice, and that it leaves no process running."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from flip27_source.cli.demo.command import DemoError, DemoSettings, run
from flip27_source.cli.demo.data import Comparison, compare, row, write_file
from flip27_source.cli.demo.display import render
from flip27_source.cli.demo.folder import DemoFolder
from flip27_source.cli.demo.process import spark_environment
from flip27_source.cli.ui.server import bound
from tests.child_processes import living_processes, session_of
from tests.cli.command_line import flip27
from tests.deadline import until

ROWS_PER_FILE = 5


@pytest.mark.slow  # it starts Spark four times; spark/test_drivers.py kills drivers, too
def test_a_query_killed_in_a_batch_delivers_every_row_exactly_once(tmp_path: Path) -> None:
    settings = DemoSettings(
        files=16, rows_per_file=20, over_s=2, files_per_batch=4, kills=1, parent=tmp_path, timeout_s=900
    )
    screen = io.StringIO()
    console = Console(file=screen, width=200)
    result = run(settings, console)
    assert result.comparison == Comparison(rows_in=320, rows_out=320, lost=0, duplicated=0)
    assert result.files == 16
    assert len(result.kills) == 1
    assert result.restarts >= 1
    assert result.batches >= settings.fewest_batches
    render(console, str, result=result)
    assert str(result.folder.state) in screen.getvalue()
    assert list((result.folder.state).glob("files-*/checkpoints/*.json"))


def test_a_query_that_fails_at_the_end_is_a_failure_and_not_lost_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java-here"))
    settings = DemoSettings(files=1, rows_per_file=1, over_s=0, kills=0, parent=tmp_path, timeout_s=900)
    with pytest.raises(DemoError, match="the query failed; the end of"):
        run(settings, Console(file=io.StringIO()))


def test_the_demo_with_a_page_needs_its_packages_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("flip27_source.cli.ui.", "starlette."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    said = flip27("demo", "--ui", "--json", "--parent", tmp_path / "runs")
    assert said.code == 1
    assert said.data["error"]["what"].startswith("flip27 demo --ui needs the package starlette")
    assert said.data["error"]["remedy"] == "pip install 'flip27-source[ui]' in this environment"
    assert list(tmp_path.iterdir()) == []


def test_the_demo_refuses_a_port_that_is_in_use_before_anything_starts(tmp_path: Path) -> None:
    with bound("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        said = flip27("demo", "--ui", "--port", str(port), "--json", "--parent", tmp_path / "runs")
    assert said.code == 1
    assert f"127.0.0.1 port {port} cannot be used" in said.data["error"]["what"]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def folder(tmp_path: Path) -> DemoFolder:
    """A folder with two landed files whose rows one batch has delivered."""
    made = DemoFolder.new(tmp_path)
    for file in range(2):
        write_file(made.landing, file, ROWS_PER_FILE)
    deliver(made, batch=0, rows=range(2 * ROWS_PER_FILE))
    return made


def deliver(folder: DemoFolder, *, batch: int, rows: range | list[int], committed: bool = True) -> None:
    """Write what Spark's file sink leaves on disk after a batch, which was killed if not ``committed``."""
    log = folder.output / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    file = folder.output / f"part-{batch:05d}-{committed}.snappy.parquet"
    table = pa.Table.from_pylist([row(number) for number in rows])
    at = pa.compute.strptime(table.column("at"), format="%Y-%m-%dT%H:%M:%S.000Z", unit="us")
    pq.write_table(table.set_column(3, "at", at), file)
    if committed:
        entry = json.dumps({"path": file.as_uri(), "action": "add"})
        (log / str(batch)).write_text(f"v1\n{entry}\n", encoding="utf-8")


def test_a_run_is_a_success_if_every_row_came_out_once(folder: DemoFolder) -> None:
    assert compare(folder) == Comparison(rows_in=10, rows_out=10, lost=0, duplicated=0)


def test_a_row_that_did_not_come_out_is_lost(folder: DemoFolder) -> None:
    write_file(folder.landing, 2, ROWS_PER_FILE)
    assert compare(folder) == Comparison(rows_in=15, rows_out=10, lost=5, duplicated=0)


def test_a_row_that_came_out_twice_is_duplicated(folder: DemoFolder) -> None:
    deliver(folder, batch=1, rows=[3, 4])
    assert compare(folder) == Comparison(rows_in=10, rows_out=12, lost=0, duplicated=2)


def test_the_output_of_a_killed_batch_does_not_count(folder: DemoFolder) -> None:
    deliver(folder, batch=1, rows=[3, 4], committed=False)
    assert compare(folder).exactly_once
    assert len(folder.left_behind()) == 1


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_demo_leaves_no_process_however_it_ends(tmp_path: Path, ending: signal.Signals) -> None:
    command = [sys.executable, "-m", "flip27_source.cli.main", "demo", "--parent", str(tmp_path)]
    # The background jobs of a shell, such as these tests, ignore Ctrl-C, and their children inherit that.
    heeds_ctrl_c = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env=spark_environment(),
        preexec_fn=heeds_ctrl_c,  # noqa: PLW1509  # no thread of the tests changes signals
    ) as demo:
        try:
            assert demo.stderr is not None
            lines = (re.search(r"query started: process (\d+)", line) for line in demo.stderr)
            query = next(int(said[1]) for said in lines if said)
            until(lambda: len(processes_of(query)) >= 2, lambda: "the driver and its JVM are not there")
            demo.send_signal(ending)
            demo.wait(30)
            until(lambda: not processes_of(query), lambda: processes_of(query))
        finally:
            demo.kill()


def processes_of(session: int) -> list[int]:
    return [pid for pid in living_processes() if session_of(pid) == session]
