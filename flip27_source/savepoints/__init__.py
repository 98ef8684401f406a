"""Savepoints for programs: ``flip27_source.savepoints.create(state=..., to=...)``."""

from .create import create, stop_with_savepoint
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
from .requesting import pending, request, withdraw
from .values import CreatedSavepoint, PendingSavepoint, RequestedSavepoint

__all__ = [
    "CreatedSavepoint",
    "DeletedSavepoint",
    "PendingSavepoint",
    "RequestedSavepoint",
    "RestoredQuery",
    "SavepointDetails",
    "SavepointEntry",
    "Verification",
    "VerifiedFile",
    "create",
    "delete",
    "describe",
    "list_savepoints",
    "pending",
    "request",
    "restore_query",
    "stop_with_savepoint",
    "verify",
    "withdraw",
]
