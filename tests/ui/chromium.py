"""Chromium without a window, for tests of pages: Debian's package, driven by Playwright.

On first use the package, and the libraries that this machine lacks, are unpacked into the virtual
environment, where they stay: nothing is installed, and nothing else on the machine changes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
INSTALL_DEADLINE_S = 900


@contextmanager
def browser() -> Iterator[Any]:
    """A browser of Playwright (its synchronous API)."""
    from playwright.sync_api import sync_playwright

    root = _home()
    libraries = sorted({file.parent for file in root.glob("usr/lib/**/*.so*")})
    environment = {"LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)), "PATH": os.defpath, "TZ": "UTC"}
    program = root / "usr/lib/chromium/chromium-headless-shell"
    with sync_playwright() as playwright:
        # The sandbox needs rights that containers do not give; the pages are our own.
        started = playwright.chromium.launch(
            executable_path=str(program), env=environment, chromium_sandbox=False
        )
        try:
            yield started
        finally:
            started.close()


def _home() -> Path:
    """The folder with the unpacked packages; made if it is missing."""
    home = Path(sys.prefix) / "chromium"
    with open(home.with_name(f"{home.name}.lock"), "w") as lock:
        # Two test processes may want to install it at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            _install(home)
    return home


def _install(home: Path) -> None:
    made = home.with_name(f"{home.name}.incomplete")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    needed = _finished(["apt-get", "--simulate", "install", "--no-install-recommends", *PACKAGES], made)
    missing = [line.split()[1] for line in needed.splitlines() if line.startswith("Inst ")]
    _finished(["apt-get", "download", *missing], made)
    for package in sorted(made.glob("*.deb")):
        _finished(["dpkg-deb", "--extract", str(package), str(made)], made)
        package.unlink()
    made.rename(home)


def _finished(command: Sequence[str], cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=INSTALL_DEADLINE_S
    )
    if done.returncode:
        raise RuntimeError(f"Chromium cannot be unpacked: {command[0]}: {done.stderr[-2000:]}")
    return done.stdout
