"""The common part of the tests' object stores: an empty bucket or container for one test."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import fsspec


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStorage:
    """An empty bucket or container, and the fsspec options that give access to it."""

    protocol: ClassVar[str]

    name: str
    storage_options: dict[str, Any]

    @classmethod
    def new(cls, **more: Any) -> Self:
        """A new bucket or container."""
        made = cls(name=f"bucket-{uuid.uuid4().hex[:12]}", **more)
        made.file_system.mkdir(made.name)
        return made

    @property
    def file_system(self) -> Any:
        return fsspec.filesystem(self.protocol, **self.storage_options)

    @property
    def url(self) -> str:
        return f"{self.protocol}://{self.name}"

    @property
    def options(self) -> dict[str, str]:
        """The storage options as options of a source."""
        return {
            f"storage.{key}": value if isinstance(value, str) else json.dumps(value)
            for key, value in self.storage_options.items()
        }
