"""This version can show, continue and fork the state that a released version has stored (S67).

Each release has a folder, created by ``python -m tests.golden.make``. If a story reads other rows, or if a
stored file has another shape than a new one, the format has changed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flip27_source.savepoints import verify
from flip27_source.snapshots.documents import FORMATS
from flip27_source.snapshots.locations import find_lineages
from flip27_source.state_tables.views import VIEWS
from tests.golden.make import make
from tests.golden.stories import STORIES, Query
from tests.snapshots.spark_logs import view_rows

RELEASES = sorted(folder for folder in Path(__file__).parent.iterdir() if folder.name[0].isdigit())
STORED = [
    pytest.param(folder / name, id=f"{folder.name} {name}")
    for folder in RELEASES
    for name in STORIES
    if (folder / name).exists()
]


@pytest.fixture
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A copy of the stored state, with the data that the query read."""
    with STORIES[request.param.name].world():
        yield Path(shutil.copytree(request.param, tmp_path / request.param.name))


def restarted(stored: Path) -> Query:
    """The query after its last batch, restored from the stored state."""
    query = Query(STORIES[stored.name], stored / "checkpoint" / "flip27")
    query.committed = json.loads((stored / "checkpoint" / "offsets" / "0").read_text().split("\n")[2])
    query.logged = query.committed
    return query


def test_the_newest_release_stores_every_story() -> None:
    assert {path.name for path in RELEASES[-1].iterdir()} == set(STORIES)


def test_the_newest_release_stores_every_format_of_documents() -> None:
    documents = RELEASES[-1].glob("*/checkpoint/flip27/*/checkpoints/*.json")
    assert {json.loads(file.read_text())["format"] for file in documents} == set(FORMATS)


@pytest.mark.parametrize("stored", STORED, indirect=True)
def test_a_query_continues_from_stored_state_S67(stored: Path) -> None:
    assert restarted(stored).rest() == STORIES[stored.name].next_rows


@pytest.mark.parametrize("stored", STORED, indirect=True)
def test_a_stored_savepoint_is_complete_and_a_query_continues_from_it_S67(stored: Path) -> None:
    assert verify(str(stored / "saved")).is_whole
    fork = Query(STORIES[stored.name], stored / "fork", savepoint=str(stored / "saved"))
    assert fork.rest() == STORIES[stored.name].next_rows


@pytest.mark.parametrize("place", ["checkpoint", "saved"])
@pytest.mark.parametrize("stored", STORED, indirect=True)
def test_every_view_reads_the_stored_state(stored: Path, place: str) -> None:
    rows = {view: view_rows(view, find_lineages(str(stored / place), {})) for view in VIEWS}
    assert [view for view in ("source", "checkpoints", "splits") if not rows[view]] == []


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("name", STORIES)
def test_every_run_of_a_story_stores_the_same(name: str, tmp_path: Path) -> None:
    make(name, tmp_path / "first")
    make(name, tmp_path / "second")
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


def shape(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """The path and type of everything in a JSON value. Names that are data all become ``*``."""
    yield at, type(value).__name__
    if isinstance(value, dict):
        for name, item in value.items():
            yield from shape(item, f"{at}.{name if name.isidentifier() and len(name) < 30 else '*'}")
    if isinstance(value, list):
        for item in value:
            yield from shape(item, f"{at}[]")


def shapes(folder: Path) -> dict[str, set[tuple[str, str]]]:
    """The shapes of all JSON files, by the name of their folder."""
    found: dict[str, set[tuple[str, str]]] = {}
    for file in folder.rglob("*"):
        if file.suffix == ".json" and file.parent.name != "segments":
            found.setdefault(file.parent.name, set()).update(shape(json.loads(file.read_text())))
        elif file.name == "_metadata":
            found.setdefault("saved", set()).update(shape(json.loads(file.read_text())))
    return found


@pytest.mark.parametrize("name", STORIES)
def test_newly_stored_state_has_the_same_shape_as_the_newest_release(name: str, tmp_path: Path) -> None:
    """If this fails, increase the format or the state version, and create a folder for the new release."""
    make(name, tmp_path / name)
    assert shapes(tmp_path / name) == shapes(RELEASES[-1] / name)
