"""A program that runs a query over text files, without Spark, until it is killed: python -m ... ROOT

For each line of its standard input it lands a file of that name, reads it in a batch, and writes its number.
It continues where Spark's logs say that the last one has stopped.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from tests.snapshots.spark_logs import FileQuery, log_batch, log_commit


def main(root: str) -> None:
    query = FileQuery(Path(root))
    logged = sorted((query.checkpoint / "offsets").glob("*"), key=lambda file: int(file.name))
    at = json.loads(logged[-1].read_text().splitlines()[-1]) if logged else query.at
    holder = CoordinatorHolder(query.source, Boundedness.CONTINUOUS_UNBOUNDED)
    for number, name in enumerate(sys.stdin, len(logged)):
        query.land(name.strip())
        before = at
        while at == before:
            at = holder.latest_offset(at, None)
        log_batch(query.checkpoint, number, at)
        log_commit(query.checkpoint, number)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
