"""What a user can do about an error of the server, by its code. Pure."""

from __future__ import annotations

_QUERY_CANCELED = "57014"
_NO_PRIVILEGE = "42501"
_TOO_MANY = "53300"
_FULL = "53400"
_NO_OBJECT = "42704"
_READ_ONLY = "25006"


def remedy_of(sqlstate: str | None, said: str, *, user: str | None) -> str | None:
    """The remedy; None if none is known.

    Args:
        said: the message, in the language of the server.
        user: the role of the query.
    """
    role = user or "<role>"
    if sqlstate == _NO_PRIVILEGE:
        if "replication" in said.lower():
            return f"ALTER ROLE {role} REPLICATION; (on a managed server, the role that it has for this)"
        return f"GRANT SELECT ON <table> TO {role}; and GRANT USAGE ON SCHEMA <schema> TO {role};"
    if sqlstate == _QUERY_CANCELED:
        return (
            "set statementTimeout to a longer time or to 0 if the server's own statement_timeout allows it; "
            "a smaller "
            "snapshotChunkRows or maxBytesPerTrigger makes statements shorter"
        )
    if sqlstate == _TOO_MANY:
        return "raise max_connections, or run fewer tasks at once (option parallelism)"
    if sqlstate == _FULL:
        return "raise max_replication_slots, or drop a slot that nobody reads (pg_replication_slots)"
    if sqlstate == _NO_OBJECT and "publication" in said.lower():
        return (
            "this server does not give changes that were made while the publication was missing: make it, "
            "drop the "
            "slot, and start with a new stateLocation, whose snapshot has all rows"
        )
    if sqlstate == _READ_ONLY:
        return "connect to the primary: the server is a standby, or default_transaction_read_only is set"
    return None
