"""Bytecode in the archives of a Spark distribution, from which its Python processes import pyspark and py4j.

Python cannot add bytecode to an archive when it imports a module from it. The archives have none, so every
process compiles what it imports.
"""

from __future__ import annotations

import compileall
import importlib.util
import io
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from py_compile import PycInvalidationMode

from flip27_source.errors import OptionError
from flip27_source.file_systems.durable_files import DurableFiles

_TESTS = re.compile(r"(^|/)tests/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An archive of modules: ``pyspark.zip`` or ``py4j-*-src.zip``.

    Attributes:
        modules: the number of its modules, without pyspark's own tests.
        compiled: how many of them have bytecode of this version of Python.
        size_bytes: the size of the file.
    """

    path: Path
    modules: int
    compiled: int
    size_bytes: int

    @property
    def is_complete(self) -> bool:
        """Whether every module has bytecode, so that none is compiled when it is imported."""
        return self.compiled == self.modules


def spark_home() -> Path:
    """SPARK_HOME, or else the installed package pyspark, as Spark's own launcher finds it.

    Raises:
        OptionError: there is neither.
    """
    named = os.environ.get("SPARK_HOME")
    if named:
        return Path(named)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise OptionError(
            "SPARK_HOME is not set, and the package pyspark is not installed",
            remedy="name the folder of the Spark distribution: --spark-home",
        )
    return Path(spec.origin).parent


def archives_of(home: Path) -> list[Archive]:
    """The archives of a Spark home; none if its Python processes import installed packages.

    Raises:
        OptionError: an archive is damaged.
    """
    return [archive_at(path) for path in sorted((home / "python" / "lib").glob("*.zip"))]


def archive_at(path: Path) -> Archive:
    """What an archive contains.

    Raises:
        OptionError: the archive is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            modules = list(_modules(archive))
            compiled = sum(_has_bytecode(archive, name) for name in modules)
    except (OSError, zipfile.BadZipFile, zlib.error) as error:
        raise OptionError(f"{path} cannot be read: {error}", remedy="install Spark again") from None
    return Archive(path=path, modules=len(modules), compiled=compiled, size_bytes=path.stat().st_size)


def add_bytecode(archive: Archive) -> Archive:
    """Replace the file with one that also has bytecode of this version of Python for every module.

    Processes that have opened the old file continue to read it.

    Raises:
        OSError: the file cannot be written.
    """
    target = archive.path.resolve()
    DurableFiles(str(target.parent)).replace(str(target), _with_bytecode(archive.path))
    return archive_at(archive.path)


def _with_bytecode(path: Path) -> bytes:
    made = io.BytesIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        zipfile.ZipFile(path) as old,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        old.extractall(folder)
        compileall.compile_dir(
            folder,
            stripdir=folder,
            prependdir=str(path),
            rx=_TESTS,
            quiet=2,
            legacy=True,
            force=True,
            workers=0,
            # Without times: an archive stores them in steps of two seconds, in local time.
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )
        for entry in old.infolist():
            if not entry.filename.endswith(".pyc"):
                new.writestr(entry, old.read(entry))
        for name in _modules(old):
            compiled = Path(folder, _bytecode_name(name))
            if compiled.exists():
                # Not compressed: every process reads it.
                new.writestr(_bytecode_name(name), compiled.read_bytes(), zipfile.ZIP_STORED)
    return made.getvalue()


def _modules(archive: zipfile.ZipFile) -> Iterator[str]:
    for name in archive.namelist():
        if name.endswith(".py") and not _TESTS.search(name):
            yield name


def _has_bytecode(archive: zipfile.ZipFile, module: str) -> bool:
    try:
        with archive.open(_bytecode_name(module)) as file:
            return file.read(len(importlib.util.MAGIC_NUMBER)) == importlib.util.MAGIC_NUMBER
    except KeyError:
        return False


def _bytecode_name(module: str) -> str:
    return str(PurePosixPath(module).with_suffix(".pyc"))
