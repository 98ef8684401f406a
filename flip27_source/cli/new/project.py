"""A new project: a package with a source that passes its tests at once."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template

from flip27_source import __version__
from flip27_source.errors import OptionError

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
    folder = parent / name
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(f"{folder} already exists", remedy="choose another name, or remove the folder")
    words = {
        "name": name,
        "module": name.replace("-", "_"),
        "title": name.title().replace("-", ""),
        "version": __version__,
    }
    templates = files(__package__) / "skeleton"
    made = []
    for target, template in SKELETON.items():
        file = folder / target.format(module=words["module"])
        file.parent.mkdir(parents=True, exist_ok=True)
        text = (templates / f"{template}.tmpl").read_text(encoding="utf-8")
        file.write_text(Template(text).substitute(words), encoding="utf-8")
        made.append(file)
    return made
