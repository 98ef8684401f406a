"""Debian's packages for tests, unpacked into the virtual environment, where they stay.

They are not installed, so no service starts and nothing else on the machine changes.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

INSTALL_DEADLINE_S = 900


def unpacked(name: str, install: Callable[[Path], None]) -> Path:
    """The folder of this name; if it is missing, ``install`` fills a new one."""
    home = Path(sys.prefix) / name
    with open(home.with_name(f"{home.name}.lock"), "w") as lock:
        # Two test processes may want to install it at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            made = home.with_name(f"{home.name}.incomplete")
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            install(made)
            made.rename(home)
    return home


def unpack(packages: Sequence[str], *, into: Path, downloads: Path) -> None:
    """Download packages to a folder, and unpack them into another one."""
    finished(["apt-get", "download", *packages], cwd=downloads)
    for package in sorted(downloads.glob("*.deb")):
        finished(["dpkg-deb", "--extract", package, into], cwd=downloads)
        package.unlink()


def finished(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    given: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """What a command has printed; ``given``: its standard input.

    Raises:
        RuntimeError: it has failed.
    """
    done = subprocess.run(
        command,
        cwd=cwd,
        input=given,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_DEADLINE_S,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} has failed in {cwd}:\n{done.stderr[-2000:]}")
    return done.stdout
