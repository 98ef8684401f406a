"""The errors of stores: a name is missing, or a call failed."""

from __future__ import annotations

from ..errors import MissingStateError, StateLocationError


def not_exclusive(location: str, name: str) -> StateLocationError:
    """The file system lacks exclusive creation, which exactly-once reports need."""
    return StateLocationError(
        f"the file system of the state location {location} cannot create {name} only if it does not exist, "
        "which reports of subtasks, claims of savepoints and inferred schemas need",
        remedy="use a local disk with hard links, S3, GCS or Azure",
    )


def missing(location: str, name: str) -> MissingStateError:
    """A name does not exist."""
    return MissingStateError(
        f"{name} is missing from the state location {location}",
        remedy="restore it from a backup (the state location belongs to the query's checkpoint: "
        "copy, move and restore both together), or start again with a new checkpoint location",
    )


def failed(verb: str, location: str, name: str, error: Exception) -> StateLocationError:
    """A call to the file system failed."""
    return StateLocationError(
        f"cannot {verb} {name} in the state location {location}: {error}",
        remedy="check that the location exists, has free space, and that the driver's user may read and "
        "write there",
    )
