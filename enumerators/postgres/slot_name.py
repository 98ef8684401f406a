"""The name of a query's slot if the user gives none, and of the session that reads a slot. Pure."""

from __future__ import annotations

import hashlib
import re

from flip27_source.enumerators.postgres.options import SLOT_NAME
from flip27_source.options import Options
from flip27_source.source_options import STATE_LOCATION, UID

_LONGEST = 63
_DIGEST_CHARS = 12
_PREFIX = "flip27 log "


def slot_name_of(options: Options) -> str:
    """The name that the user gives; otherwise one that depends only on the state location and the uid.

    So a slot that was created just before a crash is found again, and two queries do not share one by
    accident.
    """
    given = options[SLOT_NAME]
    if given is not None:
        return given
    uid = options[UID] or "postgres"
    digest = hashlib.sha256(f"{options[STATE_LOCATION]}\n{uid}".encode()).hexdigest()[:_DIGEST_CHARS]
    bare = re.sub(r"[^a-z0-9]+", "_", uid.lower()).strip("_")
    return f"flip27_{bare[: _LONGEST - _DIGEST_CHARS - 8]}_{digest}"


def reading_purpose(slot: str) -> str:
    """The purpose of the connection that a query keeps while it reads the slot.

    In ``pg_stat_activity`` it follows the prefix ``flip27``, so that clean-up can tell that the query runs.
    PostgreSQL truncates long names, so only the end of the slot's name is kept, which has the digest.
    """
    return f"log {slot[len(_PREFIX) - _LONGEST :]}"
