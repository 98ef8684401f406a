"""The hosts of a cluster: network namespaces on one bridge, or else addresses of loopback.

The program itself runs in namespaces of its own, in which it makes the hosts: bridge, hosts and all processes
end with it, in whatever way it ends, and another run never meets them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.child_processes import ChildProcess
from tests.namespaces import restarted_in

NAMESPACES = "FLIP27_CLUSTER_NAMESPACES"
MODULE = "tests.cluster"

_UNSHARED = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_PROBE = """
mount -t tmpfs flip27-cluster /run && ip link set lo up && ip link add flip27 type bridge &&
ip netns add probe &&
ip link add probe type veth peer name eth0 netns probe && ip netns exec probe true
"""
_BRIDGE = """
set -e
mount -t tmpfs flip27-cluster /run
ip link set lo up
ip link add flip27 type bridge
ip link set flip27 up
"""
_HOST = """
set -e
ip netns add "$1"
ip link add "$1" type veth peer name eth0 netns "$1"
ip link set dev "$1" master flip27 up
ip -n "$1" addr add "$2/24" dev eth0
ip -n "$1" link set eth0 up
ip -n "$1" link set lo up
"""


def in_namespaces() -> None:
    """Restart this program where it may make network namespaces, if the machine allows that."""
    restarted_in(_UNSHARED, module=MODULE, answer=NAMESPACES, probe=_PROBE)


@dataclass(slots=True, kw_only=True, eq=False)
class Host:
    """A host: processes that run there, and its link to the others.

    Attributes:
        has_link: whether the host is a network namespace, whose link can be cut.
        clock: the library that gives processes another clock.
        clock_s: by how many seconds the clock of processes that start here differs.
    """

    name: str
    address: str
    has_link: bool
    clock: Path | None
    clock_s: int = 0

    def command(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command on this host."""
        if self.clock_s:
            command = ["env", f"LD_PRELOAD={self.clock}", f"CLOCK_S={self.clock_s}", *command]
        if self.has_link:
            return ["ip", "netns", "exec", self.name, *command]
        # Without a namespace of processes, each of them has to notice that this program has ended.
        return [*(["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []), *command]

    def cut(self) -> None:
        """Cut the link: packets are dropped in both directions, and connections stay open."""
        self._link("down")

    def join(self) -> None:
        """Join the link again."""
        self._link("up")

    def _link(self, state: str) -> None:
        subprocess.run(["ip", "link", "set", "dev", self.name, state], check=True)


class Hosts:
    """Makes hosts, each with the next address.

    Attributes:
        clock: the library that gives processes another clock; None without a C compiler.
    """

    def __init__(self, folder: Path) -> None:
        self.clock = _clock_library(folder)
        self.are_namespaces = os.environ.get(NAMESPACES) == "yes"
        self._count = 0
        if self.are_namespaces:
            subprocess.run(["sh", "-c", _BRIDGE], check=True)

    def __str__(self) -> str:
        if self.are_namespaces:
            return "network namespaces on one bridge"
        return "addresses of loopback, whose links cannot be cut (root with iproute2 has network namespaces)"

    def new(self, name: str) -> Host:
        """Make a host."""
        self._count += 1
        address = f"10.27.0.{self._count}" if self.are_namespaces else f"127.0.27.{self._count}"
        if self.are_namespaces:
            subprocess.run(["sh", "-c", _HOST, "sh", name, address], check=True)
        return Host(name=name, address=address, has_link=self.are_namespaces, clock=self.clock)


def _clock_library(folder: Path) -> Path | None:
    if shutil.which("cc") is None:
        return None
    source, library = Path(__file__).with_name("clock.c"), folder / "clock.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


class HostProcess(ChildProcess):
    """A process on a host, in a session of its own."""

    def __init__(
        self,
        host: Host,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        folder: Path | None = None,
        stdout: int | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as file:
            self.popen = subprocess.Popen(
                host.command(command),
                stdin=subprocess.PIPE,
                stdout=file if stdout is None else stdout,
                stderr=file,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
