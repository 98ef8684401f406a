"""``flip27 new``: creates a project for a new source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..answers import Answer
from ..commands import command
from .project import new_project

group = typer.Typer()


@command(
    group,
    "new",
    example="flip27 new my-source",
    answers="an object: folder, files.",
)
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the project and of its source: my-source.")
    ],
    parent: Annotated[
        Path, typer.Option("--parent", help="Folder in which the project gets its own folder.")
    ] = Path(),
) -> Answer:
    """Create a project with an enumerator, a reader and tests of the contract, which pass at once."""
    made = new_project(name, parent)
    return Answer(
        data={"folder": str(parent / name), "files": [str(file) for file in made]},
        shown=[str(file) for file in made],
        notes=[f"cd {parent / name} && pip install -e '.[test]' && pytest"],
    )
