"""Savepoints for programs: ``flip27_source.savepoints.create(state=..., to=...)``."""

from .create import CreatedSavepoint, create, stop_with_savepoint

__all__ = ["CreatedSavepoint", "create", "stop_with_savepoint"]
