"""Spark Standalone: a master and workers, each a process on a host, that can be killed and started again."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from pathlib import Path

from scripts.class_archive import BRIEF_JVM, java_options
from tests.deadline import until
from tests.spark_home import quick_spark_home

from .hosts import Host, HostProcess

DEADLINE_S = 300
WORKER_TIMEOUT_S = 20
FETCHED_S = 180
"""The time after which an executor has unpacked what it has fetched."""

EXECUTOR = "CoarseGrainedExecutorBackend"


def clean_environment(host: Host, temporary: Path) -> dict[str, str]:
    """The environment of Spark's processes on a host: it has Spark, and nothing of flip27 or the checkout."""
    return {
        "PATH": os.defpath,
        **{name: os.environ[name] for name in ("JAVA_HOME", "HOME") if name in os.environ},
        "TMPDIR": str(temporary),
        "SPARK_HOME": str(quick_spark_home()),
        "SPARK_LOCAL_IP": host.address,
    }


def java(temporary: Path) -> str:
    """The options of each JVM."""
    return f"{BRIEF_JVM} {java_options()} -Djava.io.tmpdir={temporary}"


class Daemon:
    """A master or worker on its host."""

    def __init__(self, host: Host, what: str, folder: Path, *options: str) -> None:
        self.host = host
        self.log = folder / f"{host.name}.log"
        self._what = what
        self._folder = folder
        self._options = options
        self._process: HostProcess | None = None

    def start(self, *more: str) -> None:
        """Start the process; its work begins a little later."""
        deploy = (
            f"-Dspark.worker.timeout={WORKER_TIMEOUT_S} -Dspark.decommission.enabled=true "
            "-Dspark.deploy.recoveryMode=FILESYSTEM "
            f"-Dspark.deploy.recoveryDirectory={self._folder / 'recovery'}"
        )
        environment = {
            **clean_environment(self.host, self._folder),
            "SPARK_LOCAL_DIRS": str(self._folder / f"{self.host.name}-local"),
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{java(self._folder)} {deploy}",
        }
        command = [f"{quick_spark_home()}/bin/spark-class", f"org.apache.spark.deploy.{self._what}", "--host"]
        command += [self.host.address, "--webui-port", "0", *self._options, *more]
        self._process = HostProcess(self.host, command, log=self.log, environment=environment)

    def decommission(self) -> None:
        """Announce that a worker ends: its executors get no further tasks."""
        if self._process is not None:
            self._process.popen.send_signal(signal.SIGPWR)

    def kill(self) -> None:
        """SIGKILL the process alone; what it has started may live on."""
        if self._process is not None:
            self._process.popen.kill()
            self._process.popen.wait()

    def close(self) -> None:
        """SIGKILL the process and what it has started."""
        if self._process is not None:
            self._process.kill()

    def members(self) -> list[int]:
        """The living processes that this one has started, as long as it lives."""
        return [] if self._process is None else self._process.members()

    def logged(self, pattern: str) -> str:
        """Wait for a line of the log; return what the pattern's group has found."""

        def found() -> list[str]:
            return re.findall(pattern, self.log.read_text(errors="replace"))

        until(lambda: bool(found()), lambda: f"{pattern}: {self.log.read_text()[-3000:]}", DEADLINE_S)
        return found()[-1]


class Standalone:
    """A master and its workers. Each has room for an executor of two drivers.

    Attributes:
        url: the URL of the master, the same after a restart.
    """

    def __init__(self, master: Host, workers: list[Host], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.master = Daemon(master, "master.Master", folder)
        self.workers = [
            Daemon(
                host, "worker.Worker", folder, "--cores", "2", "--memory", "1g",
                "--work-dir", str(folder / host.name),
            )
            for host in workers
        ]  # fmt: skip
        self.url = ""

    def start(self) -> None:
        """Start all, and wait until each worker is registered."""
        self.start_master()
        for worker in self.workers:
            self.start_worker(worker)
        for worker in self.workers:
            worker.logged("(Successfully registered)")

    def start_master(self) -> None:
        """Start the master, at the address that it had before."""
        self.master.start("--port", self.url.rpartition(":")[2] or "0")
        if not self.url:
            self.url = self.master.logged(r"Starting Spark master at (spark://\S+)")

    def start_worker(self, worker: Daemon) -> None:
        worker.start(self.url)

    def executors(self) -> dict[int, Daemon]:
        """The process ids of the executors, with their workers."""
        found = {}
        for worker in self.workers:
            for pid in worker.members():
                with contextlib.suppress(OSError):
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if EXECUTOR.encode() in command and b"java" in command.partition(b"\0")[0]:
                        found[pid] = worker
        return found

    def remove_environments(self, *, of_living: bool = False) -> None:
        """Remove what killed executors have unpacked and fetched, or all: hundreds of megabytes each."""
        used = set()
        for pid in self.executors():
            with contextlib.suppress(OSError):
                used.add(Path(f"/proc/{pid}/cwd").resolve())
        for environment in self._folder.glob("worker-*/app-*/*/environment"):
            if of_living or environment.parent.resolve() not in used:
                shutil.rmtree(environment, ignore_errors=True)
        now_s = time.time()
        for pattern in ("spark-*/*.tar.gz", "worker-*-local/*/*/*/*_cache"):
            for file in self._folder.glob(pattern):
                with contextlib.suppress(OSError):
                    if of_living or file.stat().st_mtime < now_s - FETCHED_S:
                        file.unlink()

    def close(self) -> None:
        """Kill all processes. Their logs stay."""
        for daemon in (*self.workers, self.master):
            daemon.close()
        self.remove_environments(of_living=True)
