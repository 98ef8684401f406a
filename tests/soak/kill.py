"""Runs the soak's program, kills its processes at random points, and counts the rows that came out."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds

from flip27_source.cli.demo.folder import committed_files
from tests.child_processes import ChildProcess
from tests.spark.streams import Folders

from .processes import parent_of

DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a soak. ``audit`` is what the source itself says about its events."""

    kills: int
    batches: int
    rows: int
    lost: int
    duplicated: int
    audit: str

    @property
    def is_exact(self) -> bool:
        return self.lost == 0 and self.duplicated == 0 and self.audit.endswith("anomalies=0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """A query with its settings, and how it is killed.

    Attributes:
        longest_life_s: the upper limit of the random duration of a life, mostly from its first batch on.
        quick: options of the last life, which runs to the end.
    """

    root: Path
    options: Mapping[str, str]
    settings: Mapping[str, str]
    quick: Mapping[str, str]
    longest_life_s: float = 2.0

    def life(self, after: Callable[[ChildProcess], bool], *, last: bool = False) -> bool:
        """Run the program, and call ``after`` once it has started. Return whether the program finished.

        ``after`` returns whether it killed the program.
        """
        options = {**self.options, **(self.quick if last else {})}
        arguments = [str(self.root), json.dumps(options), json.dumps(dict(self.settings))]
        log = self.root.parent / "soak.log"
        with ChildProcess("tests.soak.program", arguments, log=log, stdout=-1) as child:
            started = child.stdout.readline()
            if started != b"started\n":
                raise AssertionError(f"the program did not start: {started!r}\n{child.log_tail(60)}")
            if after(child):
                return False
            with _deadline(child):
                said = child.stdout.readline()
            if not said.startswith(b"finished"):
                raise AssertionError(f"the program did not finish\n{child.log_tail(60)}")
            return True

    def driver_kills(self, kills: int, chance: random.Random) -> int:
        """Kill the driver this often at random points, or until it finishes; return the number of kills."""
        killed = 0

        def kill(child: ChildProcess) -> bool:
            # Most lives make progress before they end; some end while they are still recovering.
            if chance.random() < 0.8:
                self.wait_for_an_offset(child)
            threading.Event().wait(chance.uniform(0.0, self.longest_life_s))  # the random point
            if child.popen.poll() is not None:
                return False
            os.killpg(child.popen.pid, signal.SIGKILL)
            return True

        while killed < kills:
            if self.life(kill):
                return killed
            killed += 1
        self.life(lambda _: False, last=True)
        return killed

    def wait_for_an_offset(self, child: ChildProcess) -> None:
        """Wait until the running life has planned a new batch."""
        offsets = Folders(self.root).checkpoint / "offsets"

        def newest() -> int:
            names = os.listdir(offsets) if offsets.exists() else []
            return max((int(name) for name in names if name.isdigit()), default=-1)

        before, deadline = newest(), time.monotonic() + DEADLINE_S
        while newest() == before and child.popen.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"the program plans no batch\n{child.log_tail(60)}")
            time.sleep(0.02)

    def outcome(self, kills: int) -> Outcome:
        """Count the rows in the lake, in the files that Spark's own log names."""
        folders = Folders(self.root)
        expected = int(self.options["counters"]) * int(self.options["rows"])
        found: Counter[tuple[str, int]] = Counter()
        audit = ""
        for row in ds.dataset(committed_files(folders.lake)).to_table().to_pylist():
            if row["split"] == "audit":
                audit += row["words"]
            else:
                found[row["split"], row["number"]] += 1
        return Outcome(
            kills=kills,
            batches=1 + max(int(n) for n in os.listdir(folders.checkpoint / "commits") if n.isdigit()),
            rows=found.total(),
            lost=expected - len(found),
            duplicated=found.total() - len(found),
            audit=audit,
        )


def reported_attempts(root: Path) -> Counter[int]:
    """How many of the valid reports were written by attempts of each number."""
    reports = Folders(root).state.glob("*/reports/*.json")
    return Counter(json.loads(p.read_text())["report"]["metrics"]["attempt_number"] for p in reports)


def kill_worker_then_executor(child: ChildProcess, folder: Path) -> None:
    """Kill a Python worker, and then an executor's JVM, in which tasks of a batch hang."""
    os.kill(_announced(child, folder / "worker"), signal.SIGKILL)
    daemon = parent_of(_announced(child, folder / "executor"))
    os.kill(parent_of(daemon), signal.SIGKILL)


def _announced(child: ChildProcess, file: Path) -> int:
    deadline = time.monotonic() + DEADLINE_S
    while not file.exists():
        if time.monotonic() > deadline or child.popen.poll() is not None:
            raise AssertionError(f"no task hangs as {file.name}\n{child.log_tail(60)}")
        time.sleep(0.02)
    return int(file.read_text())


class _deadline:  # noqa: N801 - used like a function
    """Kills a child that does not end in time, so that a read of its output ends."""

    def __init__(self, child: ChildProcess) -> None:
        self._timer = threading.Timer(DEADLINE_S, child.kill)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
