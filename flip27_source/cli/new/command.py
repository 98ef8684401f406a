"""``flip27 new``: creates a project for a new source, a package that passes its tests at once."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from flip27_source import __version__
from flip27_source.errors import OptionError

from ..commands import argument, command, option
from ..rendering import Answer

group = typer.Typer()

SKELETON = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    ".gitignore": "gitignore",
    "{module}/__init__.py": "init.py",
    "{module}/split.py": "split.py",
    "{module}/enumerator.py": "enumerator.py",
    "{module}/reader.py": "reader.py",
    "tests/test_{module}.py": "test.py",
}
"""Files of a project, and the templates that they are made from."""

_TAKEN = {*sys.stdlib_module_names, *keyword.kwlist, "flip27_source", "tests"}
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def new_project(name: str, parent: Path) -> list[Path]:
    """Create a project in a new folder ``parent/name``.

    Args:
        name: name of the project and of its source, such as ``my-source``.

    Returns:
        The created files.

    Raises:
        OptionError: the name is invalid, or the folder exists and is not empty.
    """
    if not _NAME.fullmatch(name):
        raise OptionError(
            f"{name!r} is not a valid name of a source",
            remedy="use lower-case words joined by hyphens, such as my-source",
        )
    if name.replace("-", "_") in _TAKEN:
        raise OptionError(
            f"{name!r} is the name of a module that Python or flip27 itself needs",
            remedy="choose another name",
        )
    folder = parent / name
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise OptionError(f"{folder} already exists", remedy="choose another name, or remove the folder")
        return list(_written(folder, name))
    except OSError as error:
        raise OptionError(
            f"{folder} cannot be created: {error}", remedy="choose another name, or another --parent"
        ) from error


def _written(folder: Path, name: str) -> Iterator[Path]:
    words = {
        "name": name,
        "module": name.replace("-", "_"),
        "title": name.title().replace("-", ""),
        "version": __version__,
    }
    templates = files(__package__) / "skeleton"
    for target, template in SKELETON.items():
        file = folder / target.format(module=words["module"])
        file.parent.mkdir(parents=True, exist_ok=True)
        text = (templates / f"{template}.tmpl").read_text(encoding="utf-8")
        file.write_text(Template(text).substitute(words), encoding="utf-8")
        yield file


@command(group, example="flip27 new my-source", answers="an object: folder, files.")
def new(
    name: Annotated[str, argument("NAME", "Name of the project and of its source: my-source.")],
    parent: Annotated[Path, option("--parent", "Folder in which the project gets its own folder.")] = Path(),
) -> Answer:
    """Create a project with an enumerator, a reader and tests of the contract, which pass at once."""
    created = new_project(name, parent)
    return Answer(
        data={"folder": str(parent / name), "files": [str(file) for file in created]},
        shown=[str(file) for file in created],
        notes=[f"cd {parent / name} && pip install -e '.[test]' && pytest"],
    )
