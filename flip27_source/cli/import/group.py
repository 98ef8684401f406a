"""The group ``flip27 import``, to which each module adds its commands."""

from __future__ import annotations

import typer

group = typer.Typer(no_args_is_help=True)
