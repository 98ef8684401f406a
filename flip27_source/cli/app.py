"""The Typer app: the commands, and how a command line becomes an exit code.

A command's package is imported when its command is called: what it needs (pyarrow, fsspec, Spark) takes far
longer to import than the list of commands takes to print.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from flip27_source._version import __version__

_COMPLETING = "_FLIP27_COMPLETE"
"""Set by a shell that requests completions of a line."""

COMMANDS = {
    "demo": "Stream files while the query is killed with SIGKILL, and count every row; "
    "needs pyspark and Java.",
    "export-metrics": "Serve the metrics of queries to Prometheus from their states, also while the queries "
    "do not run.",
    "new": "Create a project with an enumerator, a reader and tests of the contract, which pass at once.",
    "check": "Check for causes of failing queries: versions, Java, locations, rights, savepoint, listing, "
    "schema.",
    "retire": "Remove what a query leaves that will not run again; a dry run without --execute.",
    "tune": "Put bytecode into pyspark.zip and py4j.zip, so that Spark's Python processes do not compile "
    "them.",
    "ui": "Show on a web page whether sources run, what failed, the backlog, batches, splits and "
    "checkpoints.",
    "watch": "Show backlog, rows per second, lag, batches and tasks (subtasks) of a source; Ctrl-C ends it.",
}
"""The commands, each in ``<name>/command.py``, with their summaries in the list of commands."""

GROUPS = {
    "state": "Inspect the stored state of sources; read-only.",
    "savepoint": "Create, inspect, verify and delete savepoints.",
    "edit": "Change the state of a source: skip, replay, rewind and more. A dry run without --execute.",
    "import": "Prepare a query that continues where another system has stopped: Spark's Kafka and file "
    "sources, consumer groups, lists of files.",
    "export": "Let Spark's file source continue where a flip27 query has stopped.",
    "notifications": "Create, inspect and drop the queue of discovery=notifications. A dry run without "
    "--execute.",
    "postgres": "Drop the slot and publication of a PostgreSQL query that will not run again. A dry run "
    "without --execute.",
}
"""The groups of commands, each in ``<name>/commands.py``, with their summaries in the list of commands."""

_PACKAGES = {"import": "imports", "export-metrics": "export_metrics"}
"""The packages of commands whose names Python does not allow for packages."""


class _FlagsWithoutTypes:
    """The help shows no type for a flag: ``--json``, not ``--json <bool>``."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        # Typer adds --help and the options of completion by itself, so our declarations do not reach those.
        for parameter in parameters:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
        return parameters


class Command(_FlagsWithoutTypes, TyperCommand):
    """A command of the app."""


class CommandGroup(_FlagsWithoutTypes, TyperGroup):
    """A group of commands of the app, and the app itself."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return 0 if done, 1 if refused or wrong, 2 for wrong usage, 3 if a check failed."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        app_for(words)(args=arguments, prog_name="flip27")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def app_for(words: Sequence[str]) -> typer.Typer:
    """The app for one command line: it lists all commands, but only the called one is imported."""
    if _COMPLETING in os.environ:
        return whole_app()
    # No option of the app itself takes a value.
    called = next((word for word in words if not word.startswith("-")), None)
    return _app([] if called is None else [called])


def whole_app() -> typer.Typer:
    return _app([*COMMANDS, *GROUPS])


def _app(imported: Iterable[str]) -> typer.Typer:
    app = typer.Typer(
        cls=CommandGroup,
        name="flip27",
        help="Inspect, save and change the state of flip27 sources, and check whether a machine is ready for "
        "them.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # they may show local variables, which may hold secrets
    )
    app.callback()(_root)
    for name, summary in COMMANDS.items():
        if name in imported:
            package = _PACKAGES.get(name, name)
            app.add_typer(importlib.import_module(f".{package}.command", __package__).group)
        else:
            app.command(name, help=summary, cls=Command)(_not_imported)
    for name, summary in GROUPS.items():
        if name in imported:
            group = importlib.import_module(f".{_PACKAGES.get(name, name)}.commands", __package__).group
        else:
            group = typer.Typer()
            group.callback()(_not_imported)
        app.add_typer(group, name=name, help=summary, cls=CommandGroup)
    return app


def _not_imported() -> None:
    raise AssertionError("a command is called whose package app_for has not imported")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
