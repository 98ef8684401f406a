"""What a user can do about an error of the server, by its code. Pure."""

from __future__ import annotations

START_AGAIN = "start a query with a new stateLocation, whose snapshot has all rows"

CONNECTION_LOST = (
    "nothing is lost: the task is repeated, or the query continues at its next start; if it happens again, "
    "check the server's log"
)

_NO_PRIVILEGE = "42501"
_NO_OBJECT = "42704"

_REPLICATION = "ALTER ROLE {role} REPLICATION; (on a managed server, grant the role that it provides for "
"this)"
_SELECT = "GRANT SELECT ON <table> TO {role}; and GRANT USAGE ON SCHEMA <schema> TO {role};"
_NO_PUBLICATION = (
    "this server does not send changes that were made while the publication was missing: create it, drop the "
    "slot, and start with a new stateLocation, whose snapshot has all rows"
)
_BY_CODE = {
    "57014": (
        "set statementTimeout to a longer time, or to 0 if the server's own statement_timeout allows it; a "
        "smaller snapshotChunkRows or maxBytesPerTrigger makes statements shorter"
    ),
    "53300": "raise max_connections, or run fewer tasks at once (option parallelism)",
    "53400": "raise max_replication_slots, or drop a slot that is no longer read (pg_replication_slots)",
    "25006": "connect to the primary: the server is a standby, or default_transaction_read_only is set",
}


def alter_failover(slot: str) -> str:
    """The command that turns a slot into a failover slot."""
    return f"psql 'dbname=... replication=database' -c 'ALTER_REPLICATION_SLOT {slot} (FAILOVER true)'"


def remedy_of(sqlstate: str | None, said: str, *, user: str | None) -> str | None:
    """The remedy; None if none is known.

    Args:
        said: the message, in the language of the server.
        user: the role of the query.
    """
    if sqlstate == _NO_PRIVILEGE:
        found = _REPLICATION if "replication" in said.lower() else _SELECT
        return found.format(role=user or "<role>")
    if sqlstate == _NO_OBJECT:
        return _NO_PUBLICATION if "publication" in said.lower() else None
    return _BY_CODE.get(sqlstate or "")
