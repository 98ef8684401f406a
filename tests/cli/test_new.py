"""``flip27 new``: it makes a project that passes its own tests at once."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from flip27_source.cli.new.command import SKELETON, new_project
from flip27_source.errors import OptionError
from tests.cli.command_line import flip27


def install(project: Path, site: Path) -> None:
    """Register the entry points of pyproject.toml, as ``pip install -e`` does."""
    metadata = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    info = site / f"{metadata['name'].replace('-', '_')}-{metadata['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {metadata['name']}\nVersion: {metadata['version']}\n"
    )
    lines = []
    for group, points in metadata["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


def pytest_in(project: Path, site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(project)])}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow  # it starts another Spark; the tests below need none
def test_a_new_project_passes_its_own_tests_in_spark_too(tmp_path: Path) -> None:
    said = flip27("new", "my-source", "--parent", str(tmp_path))
    assert said.code == 0
    project = tmp_path / "my-source"
    assert {str(file.relative_to(project)) for file in project.rglob("*") if file.is_file()} == {
        name.format(module="my_source") for name in SKELETON
    }
    install(project, tmp_path / "site")
    done = pytest_in(project, tmp_path / "site")
    assert "6 passed" in done.stdout, done.stdout + done.stderr


MISTAKES = {
    "what was found is forgotten": ("enumerator.py", {"set(position or ())": "set()"}),
    "rows in another order each time": (
        "reader.py",
        {
            "class BrokenReader": "READS = []\n\n\nclass BrokenReader",
            "with open(": "READS.append(1)\n        with open(",
            "for line in lines:": "for line in list(lines)[:: (-1) ** len(READS)]:",
        },
    ),
    "a second attempt reads less": (
        "reader.py",
        {"for line in lines:": "for line in list(lines)[self.context.attempt_number :]:"},
    ),
}


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(name, marks=pytest.mark.slow if number else []) for number, name in enumerate(MISTAKES)],
)
def test_the_tests_of_a_new_project_name_a_broken_law(tmp_path: Path, mistake: str) -> None:
    name, changes = MISTAKES[mistake]
    new_project("broken", tmp_path)
    file = tmp_path / "broken" / "broken" / name
    for right, wrong in changes.items():
        code = file.read_text()
        assert right in code
        file.write_text(code.replace(right, wrong))
    install(tmp_path / "broken", tmp_path / "site")
    done = pytest_in(tmp_path / "broken", tmp_path / "site", "-k", "laws or despite_crashes")
    assert " failed" in done.stdout
    assert "broken law" in done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *(
            (name, "not a valid name")
            for name in ("", "My-Source", "my_source", "-x", "my source", "../x", "1st")
        ),
        *((name, "the name of a module that") for name in ("json", "class", "flip27-source")),
        ("x" * 300, "cannot be created: .*File name too long"),
    ],
)
def test_an_invalid_name_is_refused_and_nothing_is_created(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=said):
        new_project(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_non_empty_folder_is_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / "my-source").mkdir()
    (tmp_path / "my-source" / "mine.py").write_text("# mine")
    with pytest.raises(OptionError, match="my-source already exists"):
        new_project("my-source", tmp_path)
    assert [file.name for file in (tmp_path / "my-source").iterdir()] == ["mine.py"]
