"""Savepoints for programs: ``flip27_source.savepoints.create(state=..., to=...)``."""

from .creation import create, stop_with_savepoint
from .management import (
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
from .requests import pending, request, withdraw
from .values import CreatedSavepoint, PendingSavepoint, RequestedSavepoint
from .whole_queries import RestoredQuery, restore_query

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
