"""``python -m tests.golden.make FOLDER`` creates the state of every story; FOLDER is named after the version.

Never recreate an existing folder: what a release has stored does not change.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from flip27_source import savepoints
from tests.golden.stories import STORIES, Query
from tests.snapshots.spark_logs import log_batch, log_commit


def make(name: str, folder: Path) -> None:
    """Play a story; create its ``checkpoint``, with the state, and a savepoint ``saved`` in ``folder``."""
    story = STORIES[name]
    story.world()
    checkpoint = folder / "checkpoint"
    query = Query(story, checkpoint / "flip27")
    story.play(query)
    log_batch(checkpoint, 0, query.committed)
    log_commit(checkpoint, 0)
    made = savepoints.create(state=str(checkpoint / "flip27"), to=str(folder))
    Path(made.directory).rename(folder / "saved")


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True)
    socket.gethostname = lambda: "executor-1"  # reports contain the name of the host
    for name in STORIES:
        make(name, folder / name)


if __name__ == "__main__":
    main()
