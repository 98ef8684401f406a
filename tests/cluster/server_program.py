"""A server of PostgreSQL or Kafka on its host, with sessions that write to it while a query copies it.

Its commands are lines of standard input: ``kill``, ``start``; ``end`` ends the writing; ``count`` prints how
the copy differs, as JSON. The first line of standard output has the options of the query that say where the
server is. Its arguments are the name of the query, its folder, the address of the host and a seed.
"""

from __future__ import annotations

import contextlib
import json
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from flip27_source.cli.demo.process import obey_parent
from tests.kafka_server import kafka_broker
from tests.postgres_server import postgres_server
from tests.soak.shapes import Places, Shape
from tests.soak.table_copies import WrittenTables
from tests.soak.topic_copies import TopicCopy, WrittenTopics

from .queries import QUERIES


@contextlib.contextmanager
def _written(kind: str, address: str, seed: int) -> Iterator[tuple[WrittenTables | WrittenTopics, str]]:
    """What is written, and where the server is."""
    if kind == "kafka":
        with kafka_broker(host=address) as broker:
            yield WrittenTopics(broker, seed), broker.address
    else:
        with postgres_server(host=address) as server, server.database() as database:
            yield WrittenTables(server, database, seed), json.dumps(server.options(database))


def main(name: str, root: str, address: str, seed: str) -> None:
    places = Places(root=Path(root), state=Path(root) / "state")
    kind = QUERIES[name].server
    commands: queue.Queue[str] = queue.Queue()
    obey_parent(commands.put)
    with _written(kind, address, int(seed)) as (written, where):
        given = {kind: where}
        shape: Shape = QUERIES[name](places, given)
        stop = threading.Event()
        writing = threading.Thread(target=written.write, args=(stop, places.batches))
        writing.start()
        print(json.dumps(given), flush=True)
        away = ExitStack()
        while (command := commands.get()) != "count":
            match command:
                case "kill":
                    away.enter_context(written.server_is_away())
                case "start":
                    away.close()
                    written.grow()
                case "end":
                    stop.set()
                    writing.join()
            print(json.dumps(command), flush=True)
        count = shape.count(0)
        if isinstance(written, WrittenTopics) and isinstance(shape, TopicCopy):
            count = replace(count, complaint="; ".join(written.complaints(shape.rows())))
        print(json.dumps(asdict(count)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
