"""Hiding secrets in the output of commands, as in stored texts."""

from __future__ import annotations

from ..file_systems.secrets_in_texts import Hidden

__all__ = ["Hidden"]
