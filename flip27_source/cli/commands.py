"""Commands: the common part of all commands, and the options that several commands share.

Functions that return an Answer become commands of the app. Every command has ``--json``; its errors are
printed without secrets and determine its exit code.
"""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from rich.console import Console

from flip27_source.errors import Flip27Error, OptionError
from flip27_source.file_systems.secrets_in_texts import Hidden
from flip27_source.options import Options, duration_s, moment, refusal
from flip27_source.values.times import in_utc

from .app import Command
from .rendering import Answer, Rendering

DONE, REFUSED, CHECK_FAILED = 0, 1, 3
"""Exit codes; 2 is wrong usage, which Typer handles."""

CommandT = TypeVar("CommandT", bound=Callable[..., Answer])
T = TypeVar("T")


class OptionGroup:
    """Options that commands share. Each field of a subclass, a dataclass, is an option of its own."""


def command(
    group: typer.Typer, name: str | None = None, *, example: str, answers: str
) -> Callable[[CommandT], CommandT]:
    """Add a function that returns an Answer as a command, with ``--json`` in addition to its own options.

    A parameter that is an OptionGroup stands for the options of the group.

    Args:
        name: by default the name of the function.
        example: a command line. answers: what ``--json`` prints; ``--help`` and docs/cli.md show both.
    """

    def add(function: CommandT) -> CommandT:
        def run(*, as_json: bool, **values: Any) -> None:
            raise typer.Exit(_run(lambda: _called(function, values), values, as_json=as_json))

        json = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
        signature = inspect.Signature([*_parameters(function), json])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: item.annotation for name, item in signature.parameters.items()}
        run.__doc__ = function.__doc__
        run.__name__ = function.__name__
        group.command(name, cls=Command, epilog=f"Example: {example}\n\nJSON: {answers}")(run)
        return function

    return add


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, OptionGroup)


def _parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if _is_group(hints[name]):
            yield from _parameters(hints[name])
        else:
            yield parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)


def _called(function: Callable[..., T], values: dict[str, Any]) -> T:
    hints = get_type_hints(function)
    names = inspect.signature(function).parameters
    return function(
        **{name: _called(hints[name], values) if _is_group(hints[name]) else values[name] for name in names}
    )


def option(form: str, help_: str, parse: Callable[[str], Any] | None = None) -> Any:
    """An option, by its form on the command line, such as ``--limit N``.

    Args:
        parse: a parser as those of a source's options.
    """
    name, _, metavar = form.partition(" ")
    return typer.Option(name, metavar=metavar or None, help=help_, parser=_parser(parse))


def argument(metavar: str, help_: str, parse: Callable[[str], Any] | None = None) -> Any:
    return typer.Argument(metavar=metavar, help=help_, parser=_parser(parse))


def _parser(parse: Callable[[str], Any] | None) -> Callable[[Any], Any] | None:
    def parsed(value: Any) -> Any:
        if parse is None or not isinstance(value, str):  # a default
            return value
        try:
            return parse(value)
        except (ValueError, OverflowError, RecursionError) as error:
            raise typer.BadParameter(refusal(value, error)) from None

    return None if parse is None else parsed


def seconds(text: str) -> float:
    """A number of seconds, or a duration such as ``10 minutes``."""
    return duration_s(text if text.strip()[-1:].isalpha() else f"{text} s")


def instant(text: str, zone: dt.tzinfo | None = None) -> dt.datetime:
    """A time in UTC, whatever its zone; without one, it is of ``zone``, by default that of this machine."""
    return in_utc(moment(text), zone)


Lineage = Annotated[
    str | None,
    option(
        "--lineage",
        "The directory of one source of one query (its lineage), if several share the state location.",
    ),
]
Location = Annotated[
    str,
    argument(
        "LOCATION",
        "A state location, a lineage in it, a savepoint, or the checkpoint location of a query (best, "
        "since Spark's logs show which batches are complete).",
    ),
]
StateLocations = Annotated[
    list[str] | None,
    option(
        "--state LOCATION",
        "The query's stateLocation, if LOCATION is a checkpoint location that does not contain it. "
        "Repeatable, if its sources have several.",
    ),
]
Execute = Annotated[bool, option("--execute", "Make the change; without this option nothing is changed.")]
Yes = Annotated[bool, option("--yes", "Do not ask for confirmation.")]
AsJson = Annotated[bool, option("--json", "Print one JSON value, for programs.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem(OptionGroup):
    storage: Annotated[
        list[str] | None,
        option(
            "--storage NAME=VALUE",
            "An option of the file system, like storage.NAME of the source; VALUE may be JSON. Repeatable.",
        ),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """Their values, parsed like the ``storage.*`` options of a source."""
        return Options.parse(source_options(None, self.storage), ()).with_prefix("storage.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(OptionGroup):
    """A query, by the locations that it was started with."""

    state: Annotated[str, option("--state LOCATION", "The query's stateLocation.")]
    checkpoint: Annotated[
        str | None,
        option(
            "--checkpoint-location", "The query's checkpointLocation; not needed if it contains the state."
        ),
    ] = None
    lineage: Lineage = None
    files: FileSystem

    @property
    def named(self) -> dict[str, Any]:
        """The query in the form that functions of ``savepoints`` take."""
        return {
            "state": self.state,
            "checkpoint": self.checkpoint,
            "lineage": self.lineage,
            "storage_options": self.files.options,
        }


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """The values of a repeatable option ``NAME=VALUE``, by name; a value without ``=`` is wrong usage."""
    values = {}
    for text in texts or ():
        name, mark, value = text.partition("=")
        if not (mark and name):
            raise typer.BadParameter("NAME=VALUE is expected", param_hint=option)
        values[name] = value
    return values


def source_options(option: list[str] | None, storage: list[str] | None) -> dict[str, str]:
    """The values of ``--option`` and ``--storage`` as options of a source, not parsed."""
    of_storage = {f"storage.{name}": value for name, value in pairs(storage, "--storage").items()}
    return of_storage | pairs(option, "--option")


def unusable(host: str, port: int, error: Exception) -> OptionError:
    """An address at which a command cannot be reached."""
    what = f"{host} port {port} cannot be used: {error}"
    return OptionError(what, remedy="choose another --port, or end what uses it")


def some(lines: Sequence[str], most: int) -> list[str]:
    """The first lines, and how many more there are."""
    return [*lines[:most], *([f"... and {len(lines) - most} more"] if len(lines) > most else [])]


def as_code(options: dict[str, str]) -> list[str]:
    """Options of a source, each as the user writes it in Python."""
    return [f'.option("{name}", {value!r})' for name, value in options.items()]


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
    by_name: dict[str, Any] = {}
    for name, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and isinstance(value, list) and "=" in item:
                key, _, text = item.partition("=")
                by_name[key] = text
            else:
                by_name[name] = item
    return by_name
