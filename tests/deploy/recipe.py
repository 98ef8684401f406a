"""Runs the commands of a recipe as they are written there, each on the host that its block names.

A host is an address of loopback with a folder of its own, in which its /opt is. A block that begins with
```` ```bash workers ```` runs on every host whose name begins with this word; one without a word runs in the
folder of the repository.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.wheel_test import NOT_SOURCE
from tests.child_processes import living_processes
from tests.pages.running import REPOSITORY

TIMEOUT_S = 900
"""For one block. The blocks wait for conditions by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A page of deploy/ with commands.

    Args:
        below: a folder for the hosts, for what they share, and for the repository that the page speaks of.
        hosts: the address of each host, by name.
        environment: variables of every host.
    """

    page: str
    below: Path
    hosts: dict[str, str]
    environment: dict[str, str]

    def run(self) -> None:
        """Run all blocks; an error contains what the block has printed."""
        text = (REPOSITORY / self.page).read_text()
        for name, commands in re.findall(r"^```bash *(\S*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            hosts = [host for host in self.hosts if name and host.startswith(name)]
            assert hosts or not name, f"{self.page}: there is no host {name}"
            for host in hosts or [""]:
                self._run(commands, host)

    @property
    def repository(self) -> Path:
        """A copy of this repository, because builds leave files in it."""
        copy = self.below / "repository"
        if not copy.exists():
            shutil.copytree(REPOSITORY, copy, symlinks=True, ignore=NOT_SOURCE)
        return copy

    def folder(self, host: str) -> Path:
        """The disk of a host."""
        return self.below / "hosts" / host

    def _run(self, commands: str, host: str) -> None:
        own = {}
        if host:
            self.folder(host).mkdir(parents=True, exist_ok=True)
            own = dict.fromkeys(("HOST", "SPARK_LOCAL_IP"), self.hosts[host])
            own |= {
                name: str(self.folder(host))
                for name in ("SPARK_PID_DIR", "SPARK_LOG_DIR", "SPARK_LOCAL_DIRS")
            }
            own["SPARK_IDENT_STRING"] = host
        output = self.below / "output"
        # A file, because what the block leaves running would keep a pipe open.
        with output.open("w") as file:
            bash = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", self._moved(commands, host)],
                env={**self.environment, **own},
                cwd=self.folder(host) if host else self.repository,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip
        with contextlib.suppress(subprocess.TimeoutExpired):
            bash.wait(TIMEOUT_S)
        if bash.returncode != 0:
            logs = [output, *self.below.glob("hosts/*/opt/flip27/*.log")]
            tails = [f"{log}:\n{log.read_text(errors='replace')[-4000:]}" for log in logs]
            raise AssertionError("\n".join([f"{host or 'build'}: {commands}", *tails]))

    def _moved(self, text: str, host: str) -> str:
        text = re.sub(r"(?<![\w.])/srv/", f"{self.below}/srv/", text)
        return re.sub(r"(?<![\w.])/opt/", f"{self.folder(host)}/opt/", text)


@contextlib.contextmanager
def all_killed(mark: str, value: str) -> Iterator[None]:
    """On exit, kill every process that has this value in its environment: those that a recipe has left."""
    try:
        yield
    finally:
        for pid in living_processes():
            with contextlib.suppress(OSError):
                if f"{mark}={value}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)
