"""Environment variables that options name, so that secrets stay out of the query's code."""

from __future__ import annotations

import os

from .errors import OptionError


def variable_of(option: str, variable: str, *, otherwise: str | None = None) -> str:
    """The value of the environment variable that an option names.

    Args:
        option: the name of the option.
        otherwise: what the user can do instead of setting the variable.

    Raises:
        OptionError: it is not set in this process.
    """
    value = os.environ.get(variable)
    if value is None:
        raise OptionError(
            f"the environment variable {variable}, which option {option} names, is not set in this process",
            remedy=f"set {variable} on the driver and on every executor (spark.executorEnv.{variable})"
            + (f", or {otherwise}" if otherwise else ""),
        )
    return value
