"""Landing folders of a simulation: a real folder, or a file system in memory that misbehaves."""

from __future__ import annotations

import io
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.spec import AbstractFileSystem

PROTOCOL = "flip27sim"
OUT_OF_REACH = "the credentials have expired"

NAMES = (
    "a", "b.txt", "a::b", "a.txt::b.txt", "http:", "C:x", "~", "$HOME", "%20", "a b", "#", "a#0-5", "a@1",
    "?", "*", "[a]", "{a,b}", "a,b", "x=1", "new\nline", "esc\x1b[0m", "é", "e\u0301", "日本", "-rf",
    "back\\slash", "a?x=1", "a+b", "ü" * 120,
)  # fmt: skip
"""File names that are special elsewhere."""


class Landing(ABC):
    """The folder in which files arrive."""

    path: str
    archive: str
    """The options ``path`` and ``sourceArchiveDir`` of the source."""

    gone: Mapping[str, int] = {}
    """The files that were cleaned, with the step at which each disappeared, if that is known."""

    @abstractmethod
    def put(self, name: str, content: bytes, modified_s: int) -> None:
        """Move a whole file in."""

    @abstractmethod
    def names(self) -> set[str]:
        """The names of the existing files."""

    @abstractmethod
    def archived(self) -> set[str]:
        """The archived files, by their names in the landing folder."""

    def overwritten(self) -> set[str]:
        """The files in the archive that were there before a copy and have other bytes now."""
        return set()


class LocalLanding(Landing):
    """A folder on this machine."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder)
        self.archive = f"{folder}-archive"
        self._beside = f"{folder}-being-written"
        os.mkdir(folder)

    def put(self, name: str, content: bytes, modified_s: int) -> None:
        with open(self._beside, "wb") as file:
            file.write(content)
        os.utime(self._beside, (modified_s, modified_s))
        os.replace(self._beside, os.path.join(self.path, name))

    def names(self) -> set[str]:
        return set(os.listdir(self.path))

    def archived(self) -> set[str]:
        folder = f"{self.archive}{self.path}"
        return set(os.listdir(folder)) if os.path.isdir(folder) else set()


class SimulatedLanding(Landing):
    """A folder in a file system in memory.

    Attributes:
        trouble: probability that a listing fails or is outdated, or a file is unreadable or truncated. If it
            is not 0, some copies lack their last byte, and others find that a process has taken their name.
        refusals: how many of the next reads are refused, as with credentials that have expired.
    """

    def __init__(self, seed: int, name: str, step: Callable[[], int]) -> None:
        self.path = f"{PROTOCOL}://bucket-{seed}-{name}/{name}"
        self.archive = f"{PROTOCOL}://bucket-{seed}-{name}/archive"
        self.gone: dict[str, int] = {}
        self._name = name
        self._step = step
        self.arrived: dict[str, bytes] = {}
        self.files: dict[str, tuple[bytes, int]] = {}
        self.left_alone: dict[str, tuple[bytes, int]] = {}
        self.listed: dict[str, tuple[bytes, int]] = {}
        self.random = random.Random(seed)
        # Drawn from a separate generator, so that the other random decisions of a seed do not change.
        self.copies = random.Random(seed)
        self.trouble = 0.0
        self.refusals = 0
        SimulatedFileSystem.landings[f"bucket-{seed}-{name}"] = self

    def put(self, name: str, content: bytes, modified_s: int) -> None:
        self.arrived[name] = content
        self.files[f"{self._root}/{name}"] = (content, modified_s)

    def names(self) -> set[str]:
        return self._below(self._root)

    def archived(self) -> set[str]:
        folder = f"{self.archive.partition('://')[2]}/{self._name}"
        found: set[str] = set()
        for copy in sorted(self._below(folder)):
            if f"{folder}/{copy}" not in self.left_alone:
                content, _ = self.files[f"{folder}/{copy}"]
                name = next((name for name in self.arrived if self._is_copy(name, copy, content)), copy)
                found.add(copy if name in found else name)
        return found

    def overwritten(self) -> set[str]:
        return {path for path, file in self.left_alone.items() if self.files.get(path) != file}

    def copy(self, source: str, target: str, *, replaces: bool) -> None:
        """Copy a file; in times of trouble the copy is spoilt, or another process has taken the name."""
        fault = self.copies.random() if self.trouble else 1.0
        if fault < 0.1:
            self.left_alone[target] = self.files[target] = (b"of another process", 0)
        if target in self.files and not replaces:
            raise FileExistsError(target)
        content, modified_s = self.files[source]
        if 0.1 <= fault < 0.2 and content:
            self.left_alone[target] = content[:-1], modified_s
            content = content[:-1]
        self.files[target] = content, modified_s

    def happens(self) -> bool:
        """Whether a fault occurs now."""
        return self.random.random() < self.trouble

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        if self.files.pop(path, None) is not None:
            self.gone[path.removeprefix(f"{self._root}/")] = self._step()

    def _is_copy(self, name: str, copy: str, content: bytes) -> bool:
        """Whether a file in the archive is that of ``name``, perhaps with a time at the end of its name."""
        return copy.startswith(name[:40]) and self.arrived[name] == content

    def _below(self, folder: str) -> set[str]:
        return {name[len(folder) + 1 :] for name in self.files if name.startswith(f"{folder}/")}

    @property
    def _root(self) -> str:
        return self.path.partition("://")[2]


class SimulatedFileSystem(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """The file system of every :class:`SimulatedLanding` in this process."""

    protocol = PROTOCOL
    cachable = False
    landings: ClassVar[dict[str, SimulatedLanding]] = {}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        landing = self._landing(path)
        files = landing.files
        if landing.happens():
            if landing.random.random() < 0.5:
                raise OSError("the listing failed")
            files = landing.listed  # as it was some time ago
        landing.listed = dict(landing.files)
        found = [self._info(name, files) for name in files if name.startswith(f"{path.rstrip('/')}/")]
        if not found and path in files:
            found = [self._info(path, files)]
        landing.random.shuffle(found)
        return found if detail else [info["name"] for info in found]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        landing = self._landing(path)
        if path in landing.files:
            return self._info(path, landing.files)
        if path.count("/") < 2:
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        landing = self._landing(path)
        if path not in landing.files:
            raise FileNotFoundError(path)
        content = landing.files[path][0][start:end]
        if landing.trouble and landing.refusals:
            landing.refusals -= 1
            raise PermissionError(f"AccessDenied: {OUT_OF_REACH}")
        if landing.happens():
            fault = landing.random.random()
            if fault < 0.3:
                landing.refusals = landing.random.randint(1, 12)
                raise PermissionError(f"AccessDenied: {OUT_OF_REACH}")
            if fault < 0.5:
                raise OSError("the file is torn")
            content = content[: landing.random.randrange(len(content) + 1)]
        return content

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        return io.BytesIO(self.cat_file(path))

    def rm_file(self, path: str) -> None:
        self._landing(path).remove(path)

    def cp_file(self, path1: str, path2: str, **conditions: Any) -> None:
        landing = self._landing(path1)
        if path1 not in landing.files:
            raise FileNotFoundError(path1)
        landing.copy(path1, path2, replaces="IfNoneMatch" not in conditions)

    def _landing(self, path: str) -> SimulatedLanding:
        return self.landings[path.partition("/")[0]]

    @staticmethod
    def _info(name: str, files: dict[str, tuple[bytes, int]]) -> dict[str, Any]:
        content, modified_s = files[name]
        return {"name": name, "size": len(content), "type": "file", "mtime": modified_s}


def register_file_system() -> None:
    """Register the protocol with fsspec."""
    fsspec.register_implementation(PROTOCOL, SimulatedFileSystem, clobber=True)
