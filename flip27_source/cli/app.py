"""The Typer app: the groups of commands, and how a command line becomes an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from flip27_source import __version__

from .check import command as check_command
from .demo import command as demo_command
from .edit import commands as edit_commands
from .new import command as new_command
from .savepoint import commands as savepoint_commands
from .state import commands as state_commands
from .watch import command as watch_command

app = typer.Typer(
    name="flip27",
    help="Inspect, save and change the state of flip27 sources, and check that a machine is ready for them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they would show local variables, which may contain secrets
)
for one_command in (demo_command, new_command, check_command, watch_command):
    app.add_typer(one_command.group)
app.add_typer(state_commands.group, name="state")
app.add_typer(savepoint_commands.group, name="savepoint")
app.add_typer(edit_commands.group, name="edit")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; return its exit code: 0 done, 1 refused, 2 wrong usage, 3 failed check."""
    try:
        app(args=arguments, prog_name="flip27")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
