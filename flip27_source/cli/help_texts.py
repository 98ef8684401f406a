"""Commands and groups of commands whose help shows no type for a flag: ``--json``, not ``--json <bool>``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command of the app."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, ``--help`` among them."""
        return _without_types_of_flags(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """A group of commands of the app, and the app itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, ``--help`` among them."""
        return _without_types_of_flags(super().get_params(ctx))


def _without_types_of_flags(parameters: Iterable[Any]) -> list[Any]:
    # Typer adds --help and the options of completion by itself, so our declarations do not reach those.
    found = list(parameters)
    for parameter in found:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return found
