"""The snapshot of a batch read: exported by a separate process, which keeps it while tasks read from it.

The process that plans a batch read ends before the tasks begin, and an exported snapshot ends with its
transaction. So the transaction belongs to a keeper process: this module, run as a program. It ends once
the snapshot was not read for a while, or when Spark's driver has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flip27_source.enumerators.postgres.connection import (
    connection_parameters,
    imported,
    open_session,
    place,
    row_of,
    said,
    session_settings,
)
from flip27_source.enumerators.postgres.split import TableName, parse_lsn
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import DiscoveryError
from flip27_source.options import Options

READER_PREFIX = "flip27 chunk of snapshot "
"""The beginning of the application_name of connections that read from an exported snapshot.

The name of the snapshot follows.
"""

IDLE_LIMIT_S = 300.0
_POLL_S = 2.0


def export_snapshot(options: Options, tables: Sequence[TableName]) -> tuple[str, int]:
    """Start a keeper process, and return the snapshot that it exports.

    Args:
        tables: the tables to lock against ALTER TABLE and TRUNCATE, after which the snapshot would see them
            empty.

    Returns:
        The name that ``SET TRANSACTION SNAPSHOT`` takes, and the position of the log at this time.
    """
    imported()
    # The password goes through a pipe: other users of the machine can read arguments.
    given = {
        "parameters": connection_parameters(options),
        "settings": session_settings(options),
        "idle_limit_s": IDLE_LIMIT_S,
        "tables": [quoted(table.schema, table.name) for table in tables],
        "ancestors": _ancestors(os.getpid()),
    }
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    keeper = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
        text=True,
    )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    with keeper.stdin, keeper.stdout:
        keeper.stdin.write(json.dumps(given) + "\n")
        keeper.stdin.flush()
        answer = json.loads(keeper.stdout.readline() or '{"error": "the keeper process ended"}')
    if "error" in answer:
        raise DiscoveryError(f"no snapshot could be exported from {place(options)}: {answer['error']}")
    return answer["name"], parse_lsn(answer["lsn"])


def _keep(given: dict[str, Any]) -> None:
    """Export a snapshot, print its name, and hold it as long as it is read."""
    psycopg = imported()
    try:
        holder = open_session(given["parameters"], given["settings"], purpose="snapshot")
        watcher = open_session(given["parameters"], given["settings"], purpose="snapshot")
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if given["tables"]:
            holder.execute(f"LOCK TABLE {', '.join(given['tables'])} IN ACCESS SHARE MODE")
        name, lsn = row_of(holder, "SELECT pg_export_snapshot(), pg_current_wal_insert_lsn()::text")
    except psycopg.Error as error:
        _tell({"error": said(error)})
        return
    _tell({"name": name, "lsn": lsn})
    read_at, ancestors = time.monotonic(), given["ancestors"]
    with contextlib.suppress(psycopg.Error), contextlib.closing(holder), contextlib.closing(watcher):
        while time.monotonic() - read_at < given["idle_limit_s"] and all(map(os.path.exists, ancestors)):
            time.sleep(_POLL_S)
            readers = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
            if row_of(watcher, readers, [READER_PREFIX + name])[0]:
                read_at = time.monotonic()


def _tell(answer: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    # A process that waits for the end of the output must not wait for the end of the snapshot.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ancestors(pid: int) -> list[str]:
    """The folders of the processes above this one that run Java: Spark's driver, where there is one."""
    ancestors = []
    while pid > 1:
        folder = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text().strip() == "java":
                ancestors.append(str(folder))
        try:
            # The name of a program, in brackets, may contain anything.
            pid = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return ancestors


if __name__ == "__main__":
    _keep(json.loads(sys.stdin.readline()))
