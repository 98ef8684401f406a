"""Hiding for commands: the same as for what is stored."""

from __future__ import annotations

from ..hiding import Hidden

__all__ = ["Hidden"]
