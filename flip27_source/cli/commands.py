"""Commands: the common part of all commands, and the options that several commands share.

Functions that return an Answer become commands of the app. Every command has ``--json``; its errors are
printed without secrets and determine its exit code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from rich.console import Console

from flip27_source.errors import Flip27Error
from flip27_source.file_systems.secrets_in_texts import Hidden
from flip27_source.options import Options, duration_s, integer, moment, refusal
from flip27_source.values.times import in_utc

from .app import Command
from .rendering import Answer, Rendering

DONE, REFUSED, CHECK_FAILED = 0, 1, 3
"""Exit codes; 2 is wrong usage, which Typer handles."""

CommandT = TypeVar("CommandT", bound=Callable[..., Answer])
T = TypeVar("T")


class OptionGroup:
    """Options that commands share. Each field of a subclass, a dataclass, is an option of its own."""


def command(group: typer.Typer, name: str, *, example: str, answers: str) -> Callable[[CommandT], CommandT]:
    """Add a function that returns an Answer as a command, with ``--json`` in addition to its own options.

    A parameter that is an OptionGroup stands for the options of the group.

    Args:
        example: a command line. answers: what ``--json`` prints; ``--help`` and docs/cli.md show both.
    """

    def add(function: CommandT) -> CommandT:
        parameters = list(_parameters(function))

        def run(*, as_json: bool, **values: Any) -> None:
            raise typer.Exit(_run(lambda: _called(function, values), values, as_json=as_json))

        json = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
        signature = inspect.Signature([*parameters, json])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: item.annotation for name, item in signature.parameters.items()}
        run.__doc__ = function.__doc__
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


def parser(parse: Callable[[str], T]) -> Callable[[Any], Any]:
    """The parser of a source's option, as the parser of an option of a command."""

    def parsed(value: Any) -> Any:
        if not isinstance(value, str):  # a default
            return value
        try:
            return parse(value)
        except (ValueError, OverflowError, RecursionError) as error:
            raise typer.BadParameter(refusal(value, error)) from None

    return parsed


def seconds(text: str) -> float:
    """A number of seconds, or a duration such as ``10 minutes``."""
    return duration_s(text if text.strip()[-1:].isalpha() else f"{text} s")


def whole_number(name: str, help_: str, *, minimum: int = 0) -> Any:
    """An option whose value is a whole number."""
    return typer.Option(name, metavar="N", parser=parser(integer(minimum=minimum)), help=help_)


def time_option(name: str, help_: str) -> Any:
    """An option whose value is a time; in UTC, whatever its zone."""
    return typer.Option(
        name,
        metavar="TIME",
        parser=parser(lambda text: in_utc(moment(text))),
        help=f"{help_} ISO 8601; times without a zone are local.",
    )


def named_values(name: str, help_: str) -> Any:
    """A repeatable option ``NAME=VALUE``; see :func:`pairs`."""
    return typer.Option(name, metavar="NAME=VALUE", help=f"{help_} Repeatable.")


Storage = Annotated[
    list[str] | None,
    named_values(
        "--storage", "An option of the file system, like storage.NAME of the source; VALUE may be JSON."
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
Execute = Annotated[
    bool, typer.Option("--execute", help="Make the change; without this option nothing is changed.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value, for programs.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem(OptionGroup):
    """The options of the file system."""

    storage: Storage = None

    @property
    def options(self) -> dict[str, Any]:
        """Their values, parsed like the ``storage.*`` options of a source."""
        return storage_options(self.storage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(OptionGroup):
    """A query, by the locations that it was started with."""

    state: Annotated[str, typer.Option("--state", help="The query's stateLocation.")]
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-location",
            help="The query's checkpointLocation; not needed if it contains the state.",
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


def storage_options(texts: list[str] | None) -> dict[str, Any]:
    """The values of ``--storage``, parsed like the source's ``storage.*`` options."""
    return Options.parse(source_options(None, texts), ()).with_prefix("storage.")


def source_options(option: list[str] | None, storage: list[str] | None) -> dict[str, str]:
    """The values of ``--option`` and ``--storage`` as options of a source, not parsed."""
    of_storage = {f"storage.{name}": value for name, value in pairs(storage, "--storage").items()}
    return of_storage | pairs(option, "--option")


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
