"""What stores say when something is not there or cannot be done."""

from __future__ import annotations

from ..errors import MissingStateError, StateLocationError


def not_exclusive(location: str, name: str) -> StateLocationError:
    """The file system cannot do what exactly-once reports need."""
    return StateLocationError(
        f"the file system of the state location {location} cannot create {name} only where it is absent, "
        "and reports of subtasks, claims of savepoints and schemas that were found out need that",
        remedy="use a local disk with hard links, S3, GCS or Azure",
    )


def missing(location: str, name: str) -> MissingStateError:
    """A name is not there."""
    return MissingStateError(
        f"{name} is missing from the state location {location}",
        remedy="restore it from a backup (the state location belongs to the query's checkpoint: "
        "copy, move and restore both together), or start afresh with a new checkpoint location",
    )


def failed(verb: str, location: str, name: str, error: Exception) -> StateLocationError:
    """A call to the file system failed."""
    return StateLocationError(
        f"cannot {verb} {name} in the state location {location}: {error}",
        remedy="check that the location exists, has room, and that the driver's user may read "
        "and write there",
    )
