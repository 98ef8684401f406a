"""Savepoints for programs: ``flip27_source.savepoints.create(state=..., to=...)``."""

from .create import CreatedSavepoint, create, stop_with_savepoint
from .manage import (
    DeletedSavepoint,
    SavepointDetails,
    SavepointEntry,
    Verification,
    VerifiedFile,
    delete,
    describe,
    list_savepoints,
    verify,
)
from .query import RestoredQuery, restore_query
from .requesting import request

__all__ = [
    "CreatedSavepoint",
    "DeletedSavepoint",
    "RestoredQuery",
    "SavepointDetails",
    "SavepointEntry",
    "Verification",
    "VerifiedFile",
    "create",
    "delete",
    "describe",
    "list_savepoints",
    "request",
    "restore_query",
    "stop_with_savepoint",
    "verify",
]
