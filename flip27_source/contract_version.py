"""The contract version: what driver and tasks have to share, as one text to compare.

Tasks unpickle classes, decode splits and write reports for the driver, so both must run the same code. A
number that somebody has to change would be forgotten, and commits between two releases have the same release
number. So the sources of the installed packages are compared, by their digest.
"""

from __future__ import annotations

import functools
import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._version import __version__
from .errors import IncompatibleStateError

FOLDER = Path(__file__).parent
"""Where this package is installed."""
_DIGITS = 12


@functools.cache
def contract_version() -> str:
    """The release number and a digest of this package's sources: ``0.2.0+6dad1d490a0a``.

    It takes 10 to 20 ms, once in a process. A wheel and a checkout of the same sources have the same one.
    """
    return f"{__version__}+{digest_of(FOLDER)}"


def check_contract(of_driver: str) -> None:
    """Refuse to work for a driver that runs other code.

    Args:
        of_driver: the driver's contract version.

    Raises:
        IncompatibleStateError: this process has another contract version.
    """
    if of_driver != contract_version():
        raise IncompatibleStateError(
            f"the driver has flip27-source {of_driver}, and host {socket.gethostname()} has "
            f"{contract_version()} in {FOLDER}: the digests after the + show that their code is not the same",
            remedy="install the same build of flip27-source on the driver and on all nodes; flip27 check "
            "--spark lists what each executor has",
        )


def digest_of(folder: Path) -> str:
    """A digest of the names and contents of all modules below a folder, which may lie in a zip archive."""
    found: Any = folder
    if not folder.is_dir():
        import zipfile

        found = zipfile.Path(str(folder.parent), f"{folder.name}/")
    digest = hashlib.sha256()
    for name, source in _sources(found, ""):
        digest.update(f"{name} {len(source)}\n".encode())
        digest.update(source)
    return digest.hexdigest()[:_DIGITS]


def _sources(folder: Any, prefix: str) -> Iterator[tuple[str, bytes]]:
    """The names and contents of the modules; ``folder`` is a Path, or a zipfile.Path, which is used alike."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            yield prefix + entry.name, entry.read_bytes()
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _sources(entry, f"{prefix}{entry.name}/")
