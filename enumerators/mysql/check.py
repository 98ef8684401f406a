"""What ``flip27 check`` finds about the server, its log and the tables. Changes nothing on the server."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from flip27_source.enumerators.mysql import options as opts
from flip27_source.enumerators.mysql import server
from flip27_source.enumerators.mysql.connection import Connection, connect, doing, variable
from flip27_source.enumerators.mysql.dump import file_began
from flip27_source.enumerators.mysql.errors import ServerError
from flip27_source.enumerators.mysql.schema import schema_of
from flip27_source.enumerators.mysql.split import position_text
from flip27_source.errors import Flip27Error
from flip27_source.options import Options
from flip27_source.source_checks import Finding, failed, ok_unless, warning

LEAST_DAYS = 3
"""A log that is kept for less is deleted over a long weekend."""


def findings(options: Options) -> Iterator[Finding]:
    reads_log = options[opts.SNAPSHOT] != "only"
    try:
        with doing(options, "checking"), connect(options) as connection:
            yield from _of_server(connection, reads_log=reads_log)
            yield from _of_tables(connection, options, reads_log=reads_log)
            if reads_log:
                # A task begins with this request, too.
                end = server.log_end(connection, failovers=0)
                text = f"from {end.log}.{position_text(end.first)} to {position_text(end.end)}"
                look = partial(file_began, options, log=end.log, position=end.first)
                yield ok_unless("log", text, look)
    except ServerError as error:
        yield failed("server", error.what, error.remedy)


def _of_server(connection: Connection, *, reads_log: bool) -> Iterator[Finding]:
    version = connection.get_server_info()
    yield ok_unless("server", version, lambda: server.check_server(connection, reads_log=reads_log))
    kept_s = int(float(variable(connection, "binlog_expire_logs_seconds") or 0))
    if reads_log and 0 < kept_s < LEAST_DAYS * 86_400:
        yield warning(
            "age of the log",
            f"the server deletes its log after {kept_s} seconds, also what no query has read",
            f"SET GLOBAL binlog_expire_logs_seconds = {LEAST_DAYS * 86_400} or more, as long as a query may "
            "be down",
        )


def _of_tables(connection: Connection, options: Options, *, reads_log: bool) -> Iterator[Finding]:
    try:
        tables = server.find_tables(connection, server.named_tables(connection, options))
        if reads_log:
            server.check_logged(connection, [one.table for one in tables])
    except Flip27Error as error:
        yield failed("tables", error.what, error.remedy)
        return
    if not tables:
        yield warning("tables", "no table has a name of option tables", "create one, or correct the option")
    for found in tables:
        key = f"in chunks along {', '.join(found.cut_by)}" if found.cut_by else "as one chunk"
        text = f"{len(found.columns)} columns, read {key}"
        yield ok_unless(f"table {found.table}", text, partial(schema_of, found, options[opts.CHANGE_FORMAT]))
