"""The common part of the tests' object stores: an empty bucket or container for one test."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStorage:
    """An empty bucket or container, and the fsspec options that give access to it."""

    name: str
    storage_options: dict[str, Any]

    @property
    def options(self) -> dict[str, str]:
        """The storage options as options of a source."""
        return {
            f"storage.{key}": value if isinstance(value, str) else json.dumps(value)
            for key, value in self.storage_options.items()
        }
