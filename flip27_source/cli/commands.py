"""Commands: the common part of all commands. Functions that return an Answer become commands of the app.

Every command has ``--json``; its errors are printed without secrets and determine its exit code.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from rich.console import Console

from flip27_source.errors import Flip27Error
from flip27_source.options import Options

from .answers import Answer
from .help_texts import Command
from .hiding import Hidden
from .rendering import Rendering

DONE, REFUSED, CHECK_FAILED = 0, 1, 3
"""Exit codes; 2 is wrong usage, which Typer handles."""

Storage = Annotated[
    list[str] | None,
    typer.Option(
        "--storage",
        metavar="NAME=VALUE",
        help="An option of the file system, like storage.NAME of the source; VALUE may be JSON. Repeatable.",
    ),
]
Lineage = Annotated[
    str | None, typer.Option("--lineage", help="The lineage, if several queries share the state location.")
]
Location = Annotated[
    str,
    typer.Argument(
        metavar="LOCATION",
        help="A state location, a lineage in it, a savepoint, or the checkpoint location of a query (best, "
        "since Spark's logs show which batches are complete).",
    ),
]
StateLocation = Annotated[
    str | None,
    typer.Option(
        "--state",
        help="The query's stateLocation, if LOCATION is a checkpoint location that does not contain it.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value, for programs.")]

CommandT = TypeVar("CommandT", bound=Callable[..., Answer])


def command(group: typer.Typer, name: str, *, example: str, answers: str) -> Callable[[CommandT], CommandT]:
    """Add a function that returns an Answer as a command, with ``--json`` in addition to its own options.

    Args:
        example: a command line. answers: what ``--json`` prints; ``--help`` and docs/cli.md show both.
    """

    def add(function: CommandT) -> CommandT:
        hints = get_type_hints(function, include_extras=True)

        def run(*, as_json: bool, **values: Any) -> None:
            raise typer.Exit(_run(functools.partial(function, **values), values, as_json=as_json))

        own = [
            parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(function).parameters.values()
        ]
        json = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
        run.__signature__ = inspect.Signature([*own, json])  # type: ignore[attr-defined]
        run.__annotations__ = {**hints, "as_json": AsJson}
        run.__doc__ = function.__doc__
        group.command(name, cls=Command, epilog=f"Example: {example}\n\nJSON: {answers}")(run)
        return function

    return add


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """The values of a repeatable option ``NAME=VALUE``, by name; a value without ``=`` is wrong usage."""
    found = {}
    for text in texts or ():
        name, mark, value = text.partition("=")
        if not (mark and name):
            raise typer.BadParameter("NAME=VALUE is expected", param_hint=option)
        found[name] = value
    return found


def storage_options(texts: list[str] | None) -> dict[str, Any]:
    """The values of ``--storage``, parsed like the source's ``storage.*`` options."""
    given = {f"storage.{name}": value for name, value in pairs(texts, "--storage").items()}
    return Options.parse(given, ()).with_prefix("storage.")


def _run(answering: Callable[[], Answer], values: dict[str, Any], *, as_json: bool) -> int:
    rendering = Rendering(Console(), Console(stderr=True), as_json=as_json, hidden=Hidden(_by_name(values)))
    try:
        answer = answering()
        rendering.answer(answer)
    except Flip27Error as error:
        rendering.error(error)
        return REFUSED
    return answer.exit_code


def _by_name(values: dict[str, Any]) -> dict[str, Any]:
    """The values on the command line, each ``NAME=VALUE`` under its name."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and isinstance(value, list) and "=" in item:
                key, _, text = item.partition("=")
                found[key] = text
            else:
                found[name] = item
    return found
