"""The files of a table that Spark's file sink has written, according to the sink's own log."""

from __future__ import annotations

import json
from pathlib import Path


def committed_files(lake: Path) -> list[str]:
    """The files that Spark's file sink has committed. Others were left by batches that did not complete."""
    names: dict[str, None] = {}
    logs = [p for p in (lake / "_spark_metadata").iterdir() if not p.name.startswith(".")]
    compacts = [int(p.stem) for p in logs if p.suffix == ".compact"]
    newest = max(compacts, default=-1)
    for path in logs:
        number = int(path.stem)
        if number < newest or (number == newest and path.suffix != ".compact"):
            continue
        for line in path.read_text().splitlines()[1:]:
            names[json.loads(line)["path"].removeprefix("file://")] = None
    return list(names)
