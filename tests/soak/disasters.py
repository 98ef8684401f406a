"""Disasters on real Spark: processes are killed and the disk of the state fails while queries run.

The simulator (``tests.simulator``) plays far more of them, without Spark; this is its
counterpart. During a disaster a query may fail, with an error that says what to do. When it is over, the
query continues at its next start, and in the end every row is in its sink exactly once.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from .faults import FaultyDisk
from .life import Life, StuckError
from .processes import PROGRAMS, living, wait_for_one_at_work
from .shapes import BACKLOG_FILES, FILES_PER_BATCH, SHAPES, Count, Feed, Places, Shape

VICTIMS = {"coordinator": 28, "worker": 26, "planner": 22, "driver": 13, "jvm": 11}
"""How many of 100 kills hit each process. The last two end a life, and a new one takes most of the time."""

TWO_DRIVERS = "two drivers"
FAULT_RATE = 0.25
SHAPES_OF_A_LIFE = 2
LIVES_ALONE_S = 60.0
FINISH_S = 1800.0

OURS = re.compile(r"flip27_source\.[\w.]+\.(\w+): (.*)")
TAKEN_OVER = re.compile(
    r"CONCURRENT_STREAM_LOG_UPDATE|Race while writing batch|Multiple streaming queries are concurrently using"
)
PROCESS_DIED = re.compile(
    r"Python worker exited unexpectedly|EOFException|Broken pipe|Connection reset|ClosedChannelException"
    r"|Python worker process terminated|Connection refused|Premature EOF|worker is dead"
)
SLOW_START = re.compile(r"Python worker failed to connect back")
"""Spark waits 10 s for a Python process that it starts, which may be too short for a busy machine."""

DAMAGED_SPARK = re.compile(r"Task serialization failed: \S*IllegalState\S*: Illegal size \d+ of collection")
"""Two threads have damaged a Scala collection inside Spark: that session cannot run another job."""


@dataclass(slots=True)
class Outcome:
    """The result of the disasters.

    Attributes:
        left_out: faults that cannot be caused on this machine.
        told: further lines for the report.
        errors: how often queries ended with errors that a disaster explains, by kind of error.
        unexplained: errors that no disaster explains, or that do not say what to do.
    """

    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    lives: int = 0
    batches: int = 0
    counts: dict[str, Count] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def lost(self) -> int:
        return sum(count.lost for count in self.counts.values())

    @property
    def duplicated(self) -> int:
        return sum(count.duplicated for count in self.counts.values())

    @property
    def is_exact(self) -> bool:
        complaints = [count.complaint for count in self.counts.values() if count.complaint]
        return not (self.lost or self.duplicated or complaints or self.unexplained)

    def lines(self) -> Iterator[str]:
        """The lines of a report for people."""
        yield f"kills {self.kills.total()}: {_listed(self.kills)}"
        yield f"faults {self.faults.total()}: {_listed(self.faults)}"
        yield from (f"left out: {what}" for what in self.left_out)
        yield f"queries that ended {self.errors.total()}: {_listed(self.errors)}"
        for name, count in self.counts.items():
            told = f"  {count.complaint}" if count.complaint else ""
            yield f"{name}: rows {count.rows}  lost {count.lost}  duplicated {count.duplicated}{told}"
        yield from self.told
        yield from (f"unexplained: {text}" for text in self.unexplained)
        yield (
            f"lives {self.lives}  batches {self.batches}  "
            f"rows {sum(count.rows for count in self.counts.values())}  "
            f"lost {self.lost}  duplicated {self.duplicated}  unexplained {len(self.unexplained)}  "
            f"{self.seconds:.0f} s"
        )


def _listed(counter: Counter[str]) -> str:
    return "  ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"


class Disasters:
    """A given number of kills, with faults between and around them, on the queries of ``shapes``."""

    victims: ClassVar[Mapping[str, int]] = VICTIMS

    def __init__(
        self,
        root: Path,
        *,
        seed: int,
        kills: int,
        shapes: Sequence[str] = tuple(SHAPES),
        fault_rate: float = FAULT_RATE,
        longest_pause_s: float = 2.0,
        given: Mapping[str, str] | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.root = root
        self.kills = kills
        self.fault_rate = fault_rate
        self.longest_pause_s = longest_pause_s
        self.chance = random.Random(seed)
        self.outcome = Outcome()
        self._say = say
        self._disk = FaultyDisk(root / "disk")
        self._given = {"counters": "8", "rows": str(400 * max(kills, 3)), "pageMs": "2",
                       "maxRowsPerSplit": "100", "taskReports": "auto", **(given or {})}  # fmt: skip
        self._shapes = {
            name: self._shape(name, Places(root=root / name, state=self._disk.folder / name))
            for name in shapes
        }
        self._feeds = {
            name: [
                Feed(shape.places.landing(feed), random.Random(f"{seed} {name} {feed}"))
                for feed in shape.feeds
            ]
            for name, shape in self._shapes.items()
        }
        self._living: list[Life] = []
        self._was_killed = False
        self._is_faulty = False
        self._has_two_drivers = False
        self._kinds = self._fault_kinds()

    def _shape(self, name: str, places: Places) -> Shape:
        """Create the query with this name."""
        return SHAPES[name](places, self._given)

    def run(self, moves: Iterable[str] | None = None) -> Outcome:
        """Play all disasters and count the rows.

        Args:
            moves: victims and faults in their order; if None, they are chosen at random.

        Raises:
            StuckError: a query makes no progress.
        """
        began = time.monotonic()
        stop = threading.Event()
        writer = threading.Thread(target=self._write, args=[stop], daemon=True)
        writer.start()
        try:
            life = self._new_life()
            for move in self._drawn() if moves is None else moves:
                # Most lives make progress before they end; some end while they are still recovering.
                if moves is not None or self.chance.random() < 0.8:
                    life = self._continued(life)
                _pause(self.chance.uniform(0.0, self.longest_pause_s))
                life = self._move(life, move, inside=(0, 0, 1, 2) if moves is None else (0,))
            self._wait_for_progress(life)
            stop.set()
            writer.join()
            self._finish(life)
        finally:
            stop.set()
            for life in list(self._living):
                life.end()
            self._disk.close()
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    def _drawn(self) -> Iterator[str]:
        while self.outcome.kills.total() < self.kills:
            if self.chance.random() < self.fault_rate:
                yield self.chance.choice([*self._kinds, TWO_DRIVERS])
            else:
                yield self._victim()

    def _victim(self) -> str:
        return self.chance.choices(list(self.victims), list(self.victims.values()))[0]

    def _move(self, life: Life, move: str, *, inside: Sequence[int]) -> Life:
        """Play a kill or a fault; return the life that runs afterwards.

        Args:
            inside: the numbers of kills that a fault may contain, of which one is chosen.
        """
        if move == TWO_DRIVERS:
            return self._two_drivers(life)
        return (
            self._kill(life, move)
            if move in self.victims
            else self._fault(life, move, self.chance.choice(inside))
        )

    # Lives.

    def _new_life(self, shapes: Sequence[str] = ()) -> Life:
        names = list(shapes) or self.chance.sample(
            list(self._shapes), min(SHAPES_OF_A_LIFE, len(self._shapes))
        )
        # With one attempt, a task that dies ends the query; with several, the task is repeated.
        master = self.chance.choice(("local[2]", "local[2,4]"))
        life = Life.start(
            root=self.root,
            state=self._disk.folder,
            shapes=names,
            given=self._given,
            settings={"spark.master": master},
        )
        self._living.append(life)
        self.outcome.lives += 1
        self._was_killed = False
        return life

    def _end(self, life: Life) -> None:
        life.end()
        self._living.remove(life)
        self._judge(life)

    def _wait_for_progress(self, life: Life) -> None:
        life.wait_until_all_are_alive(time.time())
        self._judge(life)
        self._is_faulty = False

    def _continued(self, life: Life) -> Life:
        """Wait until all queries make progress; return the life, or a new one if its Spark is damaged."""
        try:
            self._wait_for_progress(life)
        except StuckError:
            if not life.ended or not all(DAMAGED_SPARK.search(ended.error) for ended in life.ended):
                raise
            self._end(life)
            life = self._new_life(life.shapes)
            self._wait_for_progress(life)
        return life

    def _write(self, stop: threading.Event) -> None:
        """Write files while the queries that read them run and are not far behind."""
        while not stop.wait(0.05):
            for name in {name for life in list(self._living) for name in life.shapes}:
                most = BACKLOG_FILES + FILES_PER_BATCH * self._shapes[name].places.batches()
                for feed in self._feeds[name]:
                    if feed.files < most:
                        feed.write(1 << 62)

    def _finish(self, life: Life) -> None:
        """Read everything to its end, and count it."""
        for feeds in self._feeds.values():
            arrived = max((feed.numbers for feed in feeds), default=0)
            for feed in feeds:
                while feed.numbers < arrived:
                    feed.write(arrived)
        if set(life.shapes) != set(self._shapes):
            self._end(life)
            life = self._new_life(list(self._shapes))
        if not life.finish(FINISH_S):
            raise StuckError(f"not all queries have ended: {[ended.error for ended in life.ended]}")
        self._end(life)
        for name, shape in self._shapes.items():
            arrived = max((feed.numbers for feed in self._feeds[name]), default=0)
            self.outcome.counts[name] = shape.count(arrived)
            self.outcome.batches += shape.places.batches()

    # Kills.

    def _kill(self, life: Life, victim: str) -> Life:
        if victim in PROGRAMS:
            self._kill_one(life, victim)
            return life
        if victim == "driver":
            life.signal(signal.SIGKILL)
        elif not self._kill_jvm(life):
            return life
        self._killed(victim, life)
        self._end(life)
        return self._new_life()

    def _kill_one(self, life: Life, role: str) -> None:
        if role == "planner":
            # A planner works only at the start of a query.
            life.tell(f"restart {self.chance.choice(life.shapes)}")
        if role == "coordinator":
            pid = self.chance.choice(living(life.child, role) or [None])
        else:
            pid = wait_for_one_at_work(life.child, role, most_s=10.0)
            _pause(self.chance.uniform(0.0, 0.1))
        if pid is not None:
            self._was_killed = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self._killed(role, life)

    def _kill_jvm(self, life: Life) -> bool:
        if life.jvm is None:
            return False
        os.kill(life.jvm, signal.SIGKILL)
        if left := life.wait_for_its_processes(LIVES_ALONE_S):
            self.outcome.unexplained.append(f"{len(left)} processes are still running without their JVM")
        return True

    def _killed(self, victim: str, life: Life) -> None:
        self.outcome.kills[victim] += 1
        number = self.outcome.kills.total()
        self._say(f"kill {number} of {self.kills}: {victim} of {', '.join(life.shapes)}")

    # Faults.

    def _fault_kinds(self) -> dict[str, Callable[[Life], AbstractContextManager[str]]]:
        disk, chance = self._disk, self.chance
        kinds: dict[str, Callable[[Life], AbstractContextManager[str]]] = {
            "file size limit": lambda _: disk.limited(chance, self._processes_that_store)
        }
        if os.geteuid() != 0 or shutil.which("setpriv"):
            kinds["permissions"] = lambda life: disk.permissions(
                chance, [self._shapes[name].places.state for name in life.shapes]
            )
        else:
            self.outcome.left_out.append("permissions (root, and no setpriv)")
        if disk.has_mount:
            kinds["full disk"] = lambda _: disk.full(chance)
            kinds["read-only"] = lambda _: disk.read_only(chance)
        else:
            self.outcome.left_out.append("full disk, read-only (nothing can be mounted here)")
        return kinds

    def _fault(self, life: Life, kind: str, kills: int) -> Life:
        with self._kinds[kind](life) as what:
            self._is_faulty = True
            self.outcome.faults[kind] += 1
            self._say(f"fault: {kind}: {what}")
            life.wait_for_an_error(self.chance.uniform(0.5, 8.0))
            for _ in range(kills):
                life = self._kill(life, self._victim())
                life.wait_for_an_error(self.chance.uniform(0.0, 12.0))
        self._judge(life)
        # Only triggers that begin from here on have to succeed.
        self._wait_for_progress(life)
        return life

    def _processes_that_store(self) -> list[int]:
        return [
            pid for life in list(self._living) for role in ("coordinator", "worker")
            for pid in living(life.child, role)
        ]  # fmt: skip

    def _two_drivers(self, first: Life) -> Life:
        """Stop a driver with SIGSTOP, let another one take over its queries, and resume the first one."""
        # A query that has planned nothing yet would take over from the second driver when it is resumed.
        self._wait_for_progress(first)
        self.outcome.faults[TWO_DRIVERS] += 1
        self._say(f"fault: {TWO_DRIVERS} of {', '.join(first.shapes)}")
        first.tell("once")
        first.signal(signal.SIGSTOP)
        second = self._new_life(first.shapes)
        self._wait_for_progress(second)
        _pause(self.chance.uniform(0.0, 4.0))
        self._has_two_drivers = True
        first.signal(signal.SIGCONT)
        first.wait_until_all_have_ended()
        self._end(first)
        self._wait_for_progress(second)
        self._has_two_drivers = False
        return second

    # Errors.

    def _judge(self, life: Life) -> None:
        while life.ended:
            ended = life.ended.pop(0)
            kind = self._kind_of(ended.error)
            if kind is None:
                self.outcome.unexplained.append(f"{ended.shape}: {ended.error}")
                self._say(f"UNEXPLAINED: {ended.shape}: {ended.error}")
            else:
                self.outcome.errors[kind] += 1
                said = " ".join(_said(ended.error).split())
                self._say(f"  {ended.shape} ended: {kind}: {said[:200]}")

    def _kind_of(self, error: str) -> str | None:
        """What has caused an error; None if no disaster explains it."""
        ours = OURS.search(error)
        if ours is not None:
            allowed = {"StateLocationError"} if self._is_faulty else set()
            # The driver that took over archives the files of complete batches.
            allowed |= {"StaleDriverError", "FileMissingError"} if self._has_two_drivers else set()
            return ours[1] if ours[1] in allowed and "What to do:" in error else None
        if TAKEN_OVER.search(error):
            return "Spark: another driver" if self._has_two_drivers else None
        if SLOW_START.search(error):
            return "Spark: a Python process started too slowly"
        if DAMAGED_SPARK.search(error):
            return "Spark: a collection of its own is damaged"
        if PROCESS_DIED.search(error):
            return "Spark: a process died" if self._was_killed else None
        return None


class DriverKills(Disasters):
    """Kills of drivers alone, at random points of their lives."""

    victims: ClassVar[Mapping[str, int]] = {"driver": 1}


def _said(error: str) -> str:
    ours = OURS.search(error)
    if ours is not None:
        return ours[2]
    return error.partition("terminated with exception: ")[2] or error


def _pause(seconds: float) -> None:
    """Wait, so that what follows happens at a random point."""
    threading.Event().wait(seconds)
