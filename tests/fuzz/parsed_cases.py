"""Random files for ``flip27_source.parsed``: those for the readers, with the options that it supports."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from .case import Case

_NOT_BY_LINES = ("enforceSchema", "multiLine")
"""Options that ``parsed`` refuses by name, as its own tests check; here there would be nothing to compare."""


def parsed_case(make: Callable[[random.Random, str], Case]) -> Callable[[random.Random, str], Case]:
    """A maker of cases with a schema, and without partition columns and our own columns."""

    def made(rng: random.Random, name: str) -> Case:
        case = make(rng, name)
        while case.columns is None or any("/" in file.path for file in case.files):
            case = make(rng, name)
        options = {option: text for option, text in case.options.items() if option not in _NOT_BY_LINES}
        return replace(case, options=options, own_options={}, own_columns=(), is_parsed=True)

    return made
