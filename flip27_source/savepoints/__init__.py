"""Savepoints for programs: ``flip27_source.savepoints.create(state=..., to=...)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flip27_source.values.lazy_names import lazy_names

if TYPE_CHECKING:
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
    from .running_queries import (
        CreatedSavepoint,
        PendingSavepoint,
        RequestedSavepoint,
        pending,
        request,
        withdraw,
    )
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

__getattr__ = lazy_names(
    __name__,
    {
        "creation": ("create", "stop_with_savepoint"),
        "management": (
            "DeletedSavepoint",
            "SavepointDetails",
            "SavepointEntry",
            "Verification",
            "VerifiedFile",
            "delete",
            "describe",
            "list_savepoints",
            "verify",
        ),
        "running_queries": (
            "CreatedSavepoint",
            "PendingSavepoint",
            "RequestedSavepoint",
            "pending",
            "request",
            "withdraw",
        ),
        "whole_queries": ("RestoredQuery", "restore_query"),
    },
)
