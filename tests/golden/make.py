"""``python -m tests.golden.make FOLDER`` creates the state of the stories that FOLDER lacks.

FOLDER is named after the version. What it has stays: what a release has stored does not change.
"""

from __future__ import annotations

import random
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flip27_source import savepoints
from tests.golden.stories import STORIES, Query
from tests.golden.worlds import AT
from tests.snapshots.spark_logs import log_batch, log_commit


def make(name: str, folder: Path) -> None:
    """Play a story; create its ``checkpoint``, with the state, and a savepoint ``saved`` in ``folder``."""
    story = STORIES[name]
    checkpoint = folder / "checkpoint"
    with _fixed_surroundings(), story.world():
        query = Query(story, checkpoint / "flip27")
        story.play(query)
        log_batch(checkpoint, 0, query.committed)
        log_commit(checkpoint, 0)
        made = savepoints.create(state=str(checkpoint / "flip27"), to=str(folder))
    Path(made.directory).rename(folder / "saved")


@contextmanager
def _fixed_surroundings() -> Iterator[None]:
    """Fix what is stored and is not the query's: names, times and random ids."""
    ids = random.Random(27)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(socket, "gethostname", lambda: "executor-1")
        patches.setattr(time, "time", AT.timestamp)
        patches.setattr(time, "time_ns", lambda: int(AT.timestamp()) * 1_000_000_000)
        patches.setattr(time, "monotonic", lambda: 0.0)
        patches.setattr(uuid, "uuid4", lambda: uuid.UUID(int=ids.getrandbits(128)))
        yield


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    for name in STORIES:
        if not (folder / name).exists():
            make(name, folder / name)


if __name__ == "__main__":
    main()
