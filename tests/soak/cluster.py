"""A Spark cluster of two hosts on this machine, because speculation never runs a copy on the same host."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from flip27_source.cli.demo.process import spark_environment
from tests.deadline import until
from tests.spark_home import quick_spark_home

DEADLINE_S = 120
HOSTS = ("127.0.0.2", "127.0.0.3")


@contextlib.contextmanager
def two_hosts(folder: Path, programs: Mapping[str, Path] | None = None) -> Iterator[str]:
    """Start a master, and a worker of one core on each host; yield the master's URL and stop all on exit.

    Args:
        programs: for hosts that have their own, the folder in which programs are found first.
    """
    with contextlib.ExitStack() as processes:
        master = folder / "master.log"
        processes.enter_context(
            _daemon(master, "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        )
        url = _logged(master, r"Starting Spark master at (spark://\S+)")
        for host in HOSTS:
            log = folder / f"worker-{host}.log"
            options = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            work = ["--work-dir", str(folder / host)]
            first = (programs or {}).get(host)
            processes.enter_context(_daemon(log, "worker.Worker", *options, *work, url, first=first))
            _logged(log, r"(Successfully registered)")
        yield url


@contextlib.contextmanager
def _daemon(log: Path, what: str, *arguments: str, first: Path | None = None) -> Iterator[None]:
    home = quick_spark_home()
    environment = spark_environment()
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments],
            env=environment
            | {
                "PATH": os.pathsep.join(str(path) for path in (first, environment["PATH"]) if path),
                "SPARK_HOME": str(home),
                "SPARK_NO_DAEMONIZE": "1",
                "SPARK_DAEMON_JAVA_OPTS": os.environ.get("SPARK_SUBMIT_OPTS", ""),
            },
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _logged(log: Path, pattern: str) -> str:
    def found() -> list[str]:
        return re.findall(pattern, log.read_text(errors="replace"))

    until(lambda: bool(found()), lambda: f"{log.name}, {pattern}: {log.read_text()[-2000:]}", DEADLINE_S)
    return found()[0]
