"""Hiding for commands: the same as for what is stored."""

from __future__ import annotations

from ..file_systems.secrets_in_texts import Hidden

__all__ = ["Hidden"]
