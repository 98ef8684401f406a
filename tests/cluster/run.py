"""A run on a cluster: one query reads arriving files while faults strike hosts, links, processes and storage.

During a fault the query may stop, with an error that says what to do; afterwards it goes on, and in the end
every row is in its sink exactly once.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from scripts.class_archive import BRIEF_JVM
from tests.soak.disasters import DAMAGED_SPARK, OURS, PROCESS_DIED, SLOW_START, TAKEN_OVER, Outcome
from tests.soak.life import Life, ProgramEndedError, StuckError
from tests.soak.shapes import FILES_PER_BATCH, Count, Feed

from .driver_program import SPARK_STOPPED
from .environment import CHECKOUT, packed_environment
from .hosts import Host, HostProcess, Hosts
from .programs import FeedOnS3, Program, issued_credentials
from .queries import QUERIES, ArchivedOnS3, places_of
from .standalone import Daemon, Standalone, clean_environment, java

WORKERS = 3
BUCKET = "cluster"
GOES_ON_S = 600.0
FINISH_S = 900.0
BACKLOG_FILES = 12
MOST_FINISHES = 5
LONGEST_PAUSE_S = 2.0
NETWORK_TIMEOUT_S = 30
LINK_S = (3.0, 40.0)
"""How long a link is cut: shorter, or longer, than the time after which Spark gives up on a host."""
STORAGE_S = {"slow": 20.0, "failing": 30.0, "twice": 15.0, "expired": 20.0, "lossy": 30.0}
DOWN_S = (0.0, 10.0)

CLOCK_S = 300
ROWS_A_MINUTE = 700
"""More rows than a split of the source that exchanges events has read after a minute, at a batch a second."""
REPLACED_S = 100.0
"""The time in which a driver notices that another one has taken over."""

GIVEN = {"counters": "8", "pageMs": "2", "maxRowsPerSplit": "10", "taskReports": "auto"}
"""Other options of this source."""

DECOMMISSIONED_S = 10.0

DYNAMIC_ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": str(WORKERS),
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}
SOMETIMES = {"dynamic allocation": DYNAMIC_ALLOCATION, "speculation": SPECULATION}
"""Settings that a life of the driver has or has not."""

LOST_EXECUTORS = re.compile(
    r"ExecutorLostFailure|Executor heartbeat timed out|worker lost|Remote RPC client disassociated"
    r"|Command exited with code|Lost executor|Failed to connect to|FetchFailed|Could not read data from"
    r"|Failed to get broadcast|SparkFileNotFoundException|Connection from .* closed"
)


class ClusterRun:
    """A cluster, a query on it, and the faults that are drawn from a seed.

    Attributes:
        faults: the methods that play the faults, by name, as far as this machine allows them.
    """

    def __init__(
        self, root: Path, hosts: Hosts, *, seed: int, query: str, say: Callable[[str], None]
    ) -> None:
        self.root = root
        self.outcome = Outcome()
        self.chance = random.Random(seed)
        self._seed = seed
        self._say = say
        self._began = time.monotonic()
        self._query = query
        self._is_on_s3 = getattr(QUERIES[query], "is_on_s3", True)
        self._habits = random.Random(f"{seed} settings")
        self._server_kind: str | None = getattr(QUERIES[query], "server", None)
        self._storage_host = hosts.new("storage")
        self._server_host = hosts.new("server")
        self._driver_hosts = [hosts.new("driver-1"), hosts.new("driver-2")]
        self._cluster = Standalone(
            hosts.new("spark-master"), [hosts.new(f"worker-{n + 1}") for n in range(WORKERS)], root / "spark"
        )
        self._struck: list[str] = []
        self._arrived = 0
        self.faults: dict[str, Callable[[], str]] = {
            "worker-link": lambda: self._without_link(self._a_worker().host),
            "driver-link": lambda: self._without_link(self._driver_host),
            "s3-link": lambda: self._without_link(self._storage_host),
            "s3-slow": lambda: self._with_storage("slow"),
            "s3-failing": lambda: self._with_storage("failing"),
            "s3-twice": lambda: self._with_storage("twice"),
            "s3-expired": lambda: self._with_storage("expired"),
            "s3-lossy": lambda: self._with_storage("lossy"),
            "server-link": lambda: self._without_link(self._server_host),
            "server-killed": self._kill_server,
            "executor-killed": self._kill_executor,
            "worker-decommissioned": self._decommission,
            "worker-clock": lambda: self._restart(self._with_other_clock(self._a_worker())),
            "worker-killed": lambda: self._restart(self._a_worker()),
            "master-killed": lambda: self._restart(self._cluster.master),
            "driver-killed": lambda: self._kill_driver(moves=False),
            "driver-moved": lambda: self._kill_driver(moves=True),
            "driver-clock": self._move_to_other_clock,
            "driver-replaced": self._replace_driver,
        }
        if not hosts.are_namespaces:
            self._leave_out(r".*-link|driver-replaced", "no network namespaces")
        if hosts.clock is None:
            self._leave_out(r".*-clock", "no C compiler")
        if not self._is_on_s3:
            self._leave_out(r"s3-.*", "the query has nothing on S3")
        if self._server_kind is None:
            self._leave_out(r"server-.*", "the query reads no server")

    def _leave_out(self, pattern: str, why: str) -> None:
        for name in [name for name in self.faults if re.fullmatch(pattern, name)]:
            del self.faults[name]
            self.outcome.left_out.append(f"{name} ({why})")

    def play(self, faults: Iterator[str], minutes: float) -> Outcome:
        """Start everything, play the faults, and count the rows.

        Args:
            minutes: how long the faults take at most, roughly.

        Raises:
            StuckError: the query does not go on after a fault.
        """
        self._given = {**GIVEN, "rows": str(round(ROWS_A_MINUTE * (1 + minutes)))}
        stop = threading.Event()
        feeding = threading.Thread(target=self._feed, args=[stop], daemon=True)
        with contextlib.ExitStack() as stack:
            stack.callback(stop.set)
            stack.callback(self._remove_environments)
            self._start(stack)
            feeding.start()
            self._goes_on()
            self._check_where_executors_import()
            for name in faults:
                # So that the fault strikes at a random point of a batch.
                _pause(self.chance.uniform(0.0, LONGEST_PAUSE_S))
                self._strike(name)
                self._goes_on()
            stop.set()
            feeding.join()
            self._finish()
        self.outcome.seconds = time.monotonic() - self._began
        return self.outcome

    # The processes.

    def _start(self, stack: contextlib.ExitStack) -> None:
        archive = packed_environment()
        unpacked = self.root / "environment"
        unpacked.mkdir()
        subprocess.run(["tar", "xzf", archive, "-C", unpacked], check=True)
        self._places = places_of(self._query, self.root / "shared", BUCKET, {})
        self._places.root.mkdir()
        self._storage = self._program(stack, self._storage_host, "storage", BUCKET)
        endpoint = self._storage.answer()
        keys = {"storage.key": "test", "storage.secret": "test"}
        self._credentials: dict[str, str] = {}
        if getattr(QUERIES[self._query], "has_issued_credentials", False):
            keys = {}
            config = stack.enter_context(issued_credentials(self._storage, self._places.root))
            self._credentials = {"AWS_CONFIG_FILE": str(config)}
        self._where = {
            "root": str(self._places.root),
            "bucket": f"s3://{BUCKET}",
            "storage": {"storage.endpoint_url": endpoint, **keys},
        }
        if self._server_kind is not None:
            self._server = self._program(
                stack, self._server_host, "server", self._query, str(self._places.root)
            )
            self._given |= json.loads(self._server.answer())
        self._shape = QUERIES[self._query](self._places, self._given)
        stack.callback(self._cluster.close)
        self._cluster.start()
        self._archive = archive
        self._driver_host = self._driver_hosts[0]
        self._life = self._new_life(self._driver_host)
        stack.callback(self._end_life)
        self._said(f"{WORKERS} workers, {len(self._driver_hosts)} hosts for drivers, S3 at {endpoint}")

    def _program(self, stack: contextlib.ExitStack, host: Host, what: str, *arguments: str) -> Program:
        program = Program(host, what, *arguments, seed=self._seed, folder=self.root)
        stack.callback(program.kill)
        return program

    def _check_where_executors_import(self) -> None:
        found = self._life.told["started"]["imported"]
        if not all(Path(file).is_relative_to(self.root / "spark") for file in found):
            raise AssertionError(
                f"executors import flip27 from elsewhere than the packed environment: {found}"
            )
        self._said("executors import flip27 from the environment that Spark has sent")

    def _remove_environments(self) -> None:
        """Remove what is large; logs and the query's folders stay."""
        shutil.rmtree(self.root / "environment", ignore_errors=True)
        for host in self._driver_hosts:
            shutil.rmtree(self.root / host.name, ignore_errors=True)

    def _end_life(self) -> None:
        self._life.end()

    def _new_life(self, host: Host) -> Life:
        self.outcome.lives += 1
        folder = self.root / host.name
        folder.mkdir(exist_ok=True)
        if not (folder / "environment").exists():
            (folder / "environment").symlink_to(self.root / "environment")
        habits = [name for name in SOMETIMES if self._habits.random() < 0.3]
        settings = self._settings(host)
        for name in habits:
            settings |= SOMETIMES[name]
        self._said(f"  a driver starts on {host.name}{''.join(f', with {name}' for name in habits)}")
        asked = {**self._where, "query": self._query, "given": self._given, "settings": settings}
        environment = {
            **clean_environment(host, folder),
            **self._credentials,
            "PYTHONPATH": str(CHECKOUT),
            "PYSPARK_PYTHON": "./environment/bin/python",
            "SPARK_LAUNCHER_OPTS": BRIEF_JVM,
            "SPARK_SUBMIT_OPTS": java(folder),
        }
        command = [sys.executable, "-m", "tests.cluster.driver_program", json.dumps(asked)]
        child = HostProcess(
            host, command, log=self.root / f"{host.name}.log", environment=environment, folder=folder,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        return Life(child, [self._query])

    def _settings(self, host: Host) -> dict[str, str]:
        return {
            "spark.master": self._cluster.url,
            "spark.archives": f"{self._archive}#environment",
            "spark.driver.host": host.address,
            "spark.driver.bindAddress": host.address,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": str(WORKERS),
            "spark.decommission.enabled": "true",
            "spark.executor.extraJavaOptions": java(self.root / "spark"),
            **{f"spark.executorEnv.{name}": value for name, value in self._credentials.items()},
            "spark.local.dir": str(self.root / host.name / "local"),
            "spark.network.timeout": f"{NETWORK_TIMEOUT_S}s",
            "spark.network.timeoutInterval": "10s",
            "spark.executor.heartbeatInterval": "5s",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.noDataProgressEventInterval": "300",
        }

    def _feed(self, stop: threading.Event) -> None:
        """Write small files of consecutive numbers, while the query is not far behind."""
        if not self._shape.feeds:
            return
        feed = self._new_feed()
        while not stop.wait(0.05):
            if feed.files < BACKLOG_FILES + FILES_PER_BATCH * self._places.batches():
                feed.write(1 << 62)
                self._arrived = feed.numbers

    def _new_feed(self) -> Feed:
        chance, landing = random.Random(f"{self._seed} feed"), self._places.landing("a")
        return FeedOnS3(self._storage, landing, chance) if self._is_on_s3 else Feed(landing, chance)

    # Faults.

    def _strike(self, name: str) -> None:
        self._struck.append(name)
        kind = self.outcome.kills if name.endswith(("-killed", "-moved")) else self.outcome.faults
        kind[name] += 1
        number = self.outcome.kills.total() + self.outcome.faults.total()
        began = time.monotonic()
        what = self.faults[name]()
        self._said(f"fault {number}: {name}: {what}  {time.monotonic() - began:.0f} s")

    def _a_worker(self) -> Daemon:
        return self.chance.choice(self._cluster.workers)

    def _without_link(self, host: Host) -> str:
        host.cut()
        try:
            _pause(self.chance.uniform(*LINK_S))
        finally:
            host.join()
        return f"the link of {host.name} was cut"

    def _with_storage(self, fault: str) -> str:
        self._storage.tell(fault)
        try:
            _pause(STORAGE_S[fault])
        finally:
            self._storage.tell("sound")
        return "for some time"

    def _kill_server(self) -> str:
        self._told_the_server("kill")
        _pause(self.chance.uniform(*DOWN_S))
        self._told_the_server("start")
        return "it was started again"

    def _told_the_server(self, command: str) -> Any:
        """What the program on the server's host answers."""
        self._server.tell(command)
        return json.loads(self._server.answer())

    def _kill_executor(self) -> str:
        executors = self._cluster.executors()
        if not executors:
            return "there was none"
        pid = self.chance.choice(sorted(executors))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
        return f"on {executors[pid].host.name}"

    def _restart(self, daemon: Daemon) -> str:
        daemon.kill()
        _pause(self.chance.uniform(*DOWN_S))
        if daemon is self._cluster.master:
            self._cluster.start_master()
        else:
            self._cluster.start_worker(daemon)
        return f"{daemon.host.name} was started again"

    def _kill_driver(self, *, moves: bool) -> str:
        self._life.end()
        self._judge()
        if moves:
            self._driver_host = self._other_driver_host()
        self._life = self._new_life(self._driver_host)
        return f"started on {self._driver_host.name}"

    def _other_driver_host(self) -> Host:
        (other,) = [host for host in self._driver_hosts if host is not self._driver_host]
        return other

    def _decommission(self) -> str:
        worker = self._a_worker()
        worker.decommission()
        _pause(DECOMMISSIONED_S)
        return self._restart(worker)

    def _with_other_clock(self, daemon: Daemon) -> Daemon:
        self._change_clock(daemon.host)
        return daemon

    def _change_clock(self, host: Host) -> None:
        host.clock_s = self.chance.choice(
            [clock for clock in (-CLOCK_S, 0, CLOCK_S) if clock != host.clock_s]
        )
        self._said(f"  the clock of {host.name} differs by {host.clock_s} s")

    def _move_to_other_clock(self) -> str:
        self._change_clock(self._other_driver_host())
        return self._kill_driver(moves=True)

    def _replace_driver(self) -> str:
        """Start a driver on the other host while the first is cut off and goes on working."""
        first, cut_off = self._life, self._driver_host
        first.tell("once")
        self._driver_host = self._other_driver_host()
        cut_off.cut()
        try:
            self._life = self._new_life(self._driver_host)
            self._goes_on(clears=False)
        finally:
            cut_off.join()
        try:
            first.wait_until_all_have_ended(REPLACED_S)
        except StuckError:
            # The master gives the executors of an application to others if its driver is away for long, and
            # Spark's driver then waits for executors for ever, with a batch that cannot end.
            self.outcome.errors["Spark: the replaced driver waits for executors"] += 1
        except ProgramEndedError:
            pass
        first.end()
        self._judge(first)
        return f"the driver on {cut_off.name}, cut off, was replaced by one on {self._driver_host.name}"

    # What follows.

    def _goes_on(self, *, clears: bool = True) -> None:
        """Wait until the query has committed further batches.

        Args:
            clears: whether errors that come later have nothing to do with the faults so far.

        Raises:
            StuckError: it has not within the deadline.
        """
        now_s, batches, began = time.time(), self._places.batches(), time.monotonic()
        while not (
            self._life.all_are_alive(now_s + self._driver_host.clock_s) and self._places.batches() > batches
        ):
            self._judge()
            if self._life.child.popen.poll() is not None:
                self._start_again()
            if time.monotonic() > began + GOES_ON_S:
                raise StuckError(f"the query does not go on\n{self._life.child.log_tail(60)}")
            _pause(0.1)
        self._judge()
        if clears:
            self._struck.clear()
        self._cluster.remove_environments()
        self._said(
            f"  went on with batch {self._places.batches() - 1} after {time.monotonic() - began:.0f} s"
        )

    def _start_again(self) -> None:
        """Start the driver again after its program has ended, as whoever operates it does."""
        code = self._life.child.popen.returncode
        self._life.end()
        self._judge()
        kind = "Spark: the driver's Spark has ended"
        if self._struck:
            self.outcome.errors[kind] += 1
        else:
            self.outcome.unexplained.append(f"{kind}, code {code}: {self._life.child.log_tail(40)}")
        self._said(f"  the driver has ended with code {code}, and is started again")
        self._life = self._new_life(self._driver_host)

    def _judge(self, life: Life | None = None) -> None:
        ended = (life or self._life).ended
        while ended:
            error = ended.pop(0).error
            kind = self._kind_of(error)
            if kind is None:
                self.outcome.unexplained.append(f"after {self._struck or 'no fault'}: {error}")
                self._said(f"UNEXPLAINED: {error[:300]}")
            else:
                self.outcome.errors[kind] += 1
                self._said(f"  the query ended: {kind}")

    def _kind_of(self, error: str) -> str | None:
        """What has ended the query; None if no fault explains it or the error does not say what to do."""
        ours = OURS.search(error)
        if ours is not None:
            return ours[1] if self._struck and "What to do:" in error else None
        at_any_time = {
            "Spark: a Python process started too slowly": SLOW_START,
            "Spark: a collection of its own is damaged": DAMAGED_SPARK,
        }
        after_faults = {
            "Spark: the SparkContext was stopped": SPARK_STOPPED,
            "Spark: another driver": TAKEN_OVER,
            "Spark: executors were lost": LOST_EXECUTORS,
            "Spark: a process died": PROCESS_DIED,
        }
        kinds = {**at_any_time, **(after_faults if self._struck else {})}
        return next((kind for kind, pattern in kinds.items() if pattern.search(error)), None)

    def _finish(self) -> None:
        self._struck.append("the end")
        if self._server_kind is not None:
            self._told_the_server("end")
        for _ in range(MOST_FINISHES):
            with contextlib.suppress(ProgramEndedError):
                if self._life.finish(FINISH_S):
                    break
            self._start_again()
        else:
            raise StuckError(f"the query does not end: {self._life.child.log_tail(60)}")
        self._life.end()
        self._judge()
        if isinstance(self._shape, ArchivedOnS3):
            self._storage.tell("files")
            self._shape.files = json.loads(self._storage.answer())
        self.outcome.counts[self._query] = (
            self._shape.count(self._arrived)
            if self._server_kind is None
            else Count(**self._told_the_server("count"))
        )
        self.outcome.batches = self._places.batches()

    def _said(self, text: Any) -> None:
        self._say(f"{time.monotonic() - self._began:6.0f} s  {text}")


def drawn(chance: random.Random, names: Sequence[str], minutes: float | None) -> Iterator[str]:
    """Names at random until the time is over; without a time, each once."""
    if minutes is None:
        yield from chance.sample(list(names), len(names))
        return
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        yield chance.choice(list(names))


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)
