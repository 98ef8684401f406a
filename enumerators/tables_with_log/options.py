"""The options of every source that reads tables and then their log. A source may add to their docs."""

from __future__ import annotations

from flip27_source.environment_variables import variable_of
from flip27_source.errors import OptionError
from flip27_source.options import (
    Change,
    FirstStartOption,
    NextBatchOption,
    Option,
    Options,
    ReadingOption,
    duration_s,
    integer,
    one_of,
    size_bytes,
)

DATABASE: Option[str | None] = Option(
    name="database", doc="Name of the database.", names_data=True, changes=Change.REFUSED
)
PASSWORD_ENV: Option[str | None] = ReadingOption(
    name="passwordEnv",
    default_text="no password",
    doc="Environment variable, on the driver and on every executor, that contains the password.",
)
PASSWORD: Option[str | None] = ReadingOption(
    name="password", doc="The password itself; passwordEnv keeps it out of the query's code.", secret=True
)
CONNECT_TIMEOUT: Option[float] = ReadingOption(
    name="connectTimeout",
    parse=duration_s,
    default_text="10 seconds",
    doc="Longest time to wait for a connection.",
)
CHANGE_FORMAT: Option[str] = ReadingOption(
    name="changeFormat",
    parse=one_of("typed", "envelope"),
    doc="typed: a column for each column of the table, and the columns of the change; all tables must have "
    "the same columns. envelope: key, before and after as JSON.",
)
SNAPSHOT: Option[str] = FirstStartOption(
    name="snapshot",
    parse=one_of("initial", "only", "never"),
    doc="initial: read the rows of the tables, then their changes; only: only the rows; never: only the "
    "changes.",
)
SNAPSHOT_CHUNK_ROWS: Option[int] = NextBatchOption(
    name="snapshotChunkRows",
    parse=integer(minimum=1),
    default=200_000,
    doc="Number of rows in a chunk of a table; chunks are read in parallel, each in one transaction.",
)
MAX_LOG_LAG: Option[int] = NextBatchOption(
    name="maxLogLagDuringSnapshot",
    parse=size_bytes,
    default_text="512m",
    doc="How many bytes of the log may be unread while chunks are read. Beyond that, the log is read before "
    "more chunks are, so that the server does not have to keep its log until the last chunk is read.",
)
# Declared again with defaults of these sources: a poll costs only a few short statements, and the pause after
# it delays changes; a server that fails over is unavailable for longer than three retries.
DISCOVERY_INTERVAL: Option[float] = NextBatchOption(
    name="discoveryInterval",
    parse=duration_s,
    default_text="200 milliseconds",
    doc="Pause between two requests for the end of the server's log.",
)
DISCOVERY_RETRIES: Option[int] = NextBatchOption(
    name="discoveryRetries",
    parse=integer(minimum=0),
    default=10,
    doc="How many times in a row these requests may fail, with growing pauses, before the query fails: a "
    "server is unavailable for a while when it restarts.",
)
ON_SCHEMA_CHANGE: Option[str] = ReadingOption(
    name="onSchemaChange",
    parse=one_of("evolve", "fail", "ignore"),
    doc="What to do when a table gets columns that the DataFrame does not have: evolve records them and "
    "stops the query, and a restarted query has them (needs a stateLocation); fail stops the query, also for "
    "dropped columns; ignore leaves them out. A dropped column is null with evolve and ignore. If the user "
    "gives a schema, columns that it does not have are always left out; with another changeFormat than "
    "typed, rows have whatever columns the table has.",
)


def password_of(options: Options, *, otherwise: str | None = None) -> str | None:
    """The password of the account; None if none is given.

    Args:
        otherwise: what a user can do instead of setting the variable of passwordEnv.
    """
    name = options[PASSWORD_ENV]
    if name is None:
        return options[PASSWORD]
    if options[PASSWORD] is not None:
        raise OptionError("options password and passwordEnv are both set", remedy="set passwordEnv alone")
    return variable_of(PASSWORD_ENV.name, name, otherwise=otherwise)
