"""``flip27 demo``: its answer; the tests of the demo run it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from flip27_source.cli.demo.command import DemoResult, Kill, Reached, answer_of
from flip27_source.cli.demo.data import Comparison
from flip27_source.cli.demo.folder import DemoFolder
from tests.cli.command_line import flip27


def result(lost: int, duplicated: int = 0) -> DemoResult:
    return DemoResult(
        folder=DemoFolder(Path("/demo")),
        files=3,
        batches=2,
        kills=(Kill(batch=1, reached=Reached.WRITING),),
        restarts=1,
        files_left_behind=0,
        comparison=Comparison(rows_in=30, rows_out=30 - lost, lost=lost, duplicated=duplicated),
        seconds=12.0,
    )


def test_the_demo_reports_its_result_and_exits_1_if_rows_are_lost_or_duplicated() -> None:
    good, bad = answer_of(result(lost=0)), answer_of(result(lost=2))
    assert (good.exit_code, bad.exit_code, answer_of(result(0, duplicated=1)).exit_code) == (0, 1, 1)
    assert good.data["exactly_once"] is True
    assert bad.data["lost"] == 2
    assert bad.data["kills"] == [{"batch": 1, "reached": "rows partly written"}]
    screen = io.StringIO()
    (draw,) = bad.shown
    assert callable(draw)
    draw(Console(file=screen, width=100), str)
    assert "Rows were lost or duplicated" in screen.getvalue()


def test_an_impossible_demo_is_refused_before_anything_runs(tmp_path: Path) -> None:
    said = flip27("demo", "--files", "1", "--kills", "1", "--parent", tmp_path)
    assert said.code == 1
    assert "only guarantee 1" in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("parent", ["file", "file/below", "link", "/proc/nope"])
def test_a_folder_that_cannot_be_made_is_an_error_with_a_remedy(parent: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    said = flip27("demo", "--parent", tmp_path / parent)
    assert said.code == 1
    assert f"the demo cannot use {tmp_path / parent}: " in said.err
    assert "--parent" in said.err
