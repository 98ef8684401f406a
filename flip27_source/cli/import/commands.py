"""``flip27 import``: a query starts where another system has stopped. Each module has its commands."""

from __future__ import annotations

from . import files, kafka
from .group import group

__all__ = ["files", "group", "kafka"]
