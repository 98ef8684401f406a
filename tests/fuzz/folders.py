"""Cases whose files are in partition directories."""

from __future__ import annotations

import random
from dataclasses import replace
from urllib.parse import quote

from .case import Case
from .texts import FLAVOURS, SCALARS, calm, random_type, text_of

PARTITION = "part"
_SAFE = " !$&'()*+,-.;@_~"


def in_folders(rng: random.Random, case: Case) -> Case:
    """Move each file to a directory of a partition column, which is new or also in the files."""
    known = dict(case.columns or ())
    in_files = [name for name, kind in known.items() if kind.partition("(")[0] in (*SCALARS, "decimal")]
    if case.columns is None:
        in_files = ["c0", "k"]
    # Spark's text reader has only one column.
    is_in_files = in_files and case.format != "text" and rng.random() < 0.4
    partition = rng.choice(in_files) if is_in_files else PARTITION
    kind = known.get(partition) or random_type(rng)
    if kind == "binary":
        partition, kind = PARTITION, "string"
    flavour = rng.choice(FLAVOURS[:6])
    values = [
        "__HIVE_DEFAULT_PARTITION__"
        if rng.random() < 0.1
        else quote((calm(text_of(rng, kind, flavour).encode()).decode() or "x")[:60], safe=_SAFE)
        for _ in range(2)
    ]
    files = tuple(replace(file, path=f"{partition}={rng.choice(values)}/{file.path}") for file in case.files)  # type: ignore[type-var]
    columns = None if case.columns is None else tuple((known | {partition: kind}).items())
    return replace(case, files=files, columns=columns)
