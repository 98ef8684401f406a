"""Cases whose files are in partition directories."""

from __future__ import annotations

import random
from dataclasses import replace
from urllib.parse import quote

from .case import Case
from .texts import FLAVOURS, calm, random_type, text_of

PARTITION = "part"
_SAFE = " !$&'()*+,-.;@_~"


def in_folders(rng: random.Random, case: Case) -> Case:
    """Add a partition column to the case, and move each file to one of its directories."""
    kind = random_type(rng)
    if kind == "binary":
        kind = "string"
    flavour = rng.choice(FLAVOURS[:6])
    values = [
        "__HIVE_DEFAULT_PARTITION__"
        if rng.random() < 0.1
        else quote((calm(text_of(rng, kind, flavour).encode()).decode() or "x")[:60], safe=_SAFE)
        for _ in range(2)
    ]
    files = tuple(replace(file, path=f"{PARTITION}={rng.choice(values)}/{file.path}") for file in case.files)  # type: ignore[type-var]
    columns = None if case.columns is None else (*case.columns, (PARTITION, kind))
    return replace(case, files=files, columns=columns)
