"""Simulation: one life of a query, determined by a seed, and the checks at its end.

While faults occur, the query may fail at any moment, with an error that says what to do. After the last fault
it must continue without help: every row that arrived is in the sink once, all state that Spark refers to is
readable, and nothing waits forever.
"""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flip27_source.coordination.checkpoints import LedgerState, Snapshot
from flip27_source.coordination.data_losses import DataLoss
from flip27_source.coordination.edit_values import EditOperation
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import Flip27Error
from flip27_source.file_systems.durable_files import TEMPORARY_PREFIX
from flip27_source.snapshots import file_names
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.documents import CheckpointDocument, StoredDocument
from flip27_source.snapshots.driver_epochs import drivers
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.report_contents import decode_stored_report
from flip27_source.snapshots.segment_files import check_packed, unpack_segment
from flip27_source.snapshots.store import LocalStore, Store
from flip27_source.snapshots.stored_lineage import StoredLineage
from flip27_source.source_options import TOLERABLE_FAILED_CHECKPOINTS
from flip27_source.testing.spark_side import as_value
from flip27_source.testing.steps import Killed
from flip27_source.values.stored_json import decode_json

from .chain_life import ChainLife
from .disk import ProcessDisk, SimulatedDisk
from .files_life import FilesLife, NeighbourLife
from .lives import STATE, CarelessLife, DefectFound, Life, TalkingLife, document_at
from .mysql_life import MysqlLife
from .objects import SimulatedObjects
from .pages_life import PagesLife
from .postgres_life import PostgresLife, SnapshotLife
from .process import Process, SuspendedCall
from .query import Query, RunningAttempt, TasksFailed, advance_forsaken
from .sizing import Sizing, check_sizes
from .topics_life import TopicsLife
from .tracks_life import TracksLife

_WRITES = frozenset(
    {"open_new", "write", "link", "rename", "remove", "make_folder", "create", "replace", "delete"}
)
_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + r"[0-9a-f]+")
_TOLERABLE = TOLERABLE_FAILED_CHECKPOINTS.name
_CALM_BATCHES = 1000
_CALM_RESTARTS = 6
_ALLOWED = "allowRolledBackCheckpoint"
LIVES: dict[str, type[Life]] = {
    "files": FilesLife,
    "talking": TalkingLife,
    "careless": CarelessLife,
    "topics": TopicsLife,
    "pages": PagesLife,
    "postgres": PostgresLife,
    "mysql": MysqlLife,
    "snapshot": SnapshotLife,
    "chain": ChainLife,
    "tracks": TracksLife,
}
"""The kinds of lives by their names."""

_NAMED = ("snapshot", "mysql", "chain", "tracks")
_DRAWN = (*(kind for kind in LIVES if kind not in _NAMED), "files", "files", "pages")
"""What a seed has if no kind is named."""

_RETAINED = 90
"""A query has the documents of so many checkpoints, unless an option says otherwise."""


@dataclass(slots=True)
class Outcome:
    """The outcome of one seed.

    Attributes:
        steps: number of calls of disks and stores.
        faults: number of faults by kind.
        defect: a violation of the guarantees; None if there is none.
        story: the log of the simulation, line by line.
    """

    seed: int
    kind: str = ""
    steps: int = 0
    batches: int = 0
    rows: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    duplicated: int = 0
    stuck: bool = False
    defect: str | None = None
    story: list[str] = field(default_factory=list)


def simulate(seed: int, life: str | None = None) -> Outcome:
    """Play one seed, of any kind of life or of one. A defect is part of the outcome and raises no error."""
    simulation = Simulation(seed, life)
    outcome = simulation.outcome
    try:
        simulation.run()
    except DefectFound as defect:
        outcome.defect = str(defect)
    except Exception as error:  # noqa: BLE001 - reported with its seed, like any other defect
        outcome.defect = f"{type(error).__name__}: {error}"
        outcome.story += traceback.format_exc().splitlines()
    finally:
        simulation.end()
    return outcome


class Simulation:
    """One life of a query; see the module.

    Attributes:
        random: decides everything.
        now_ms: the wall clock, which people set back and forth. steady_ms: the time that has passed.
        result_lost: probability that a task succeeds and its result is lost.
        copies: probability, at each row, that a task gets a speculative copy.
        count: number of processes so far, for their names.
    """

    def __init__(self, seed: int, life: str | None = None) -> None:
        self.random = draw = random.Random(seed)
        self.now_ms = 1_700_000_000_000
        self.steady_ms = 0
        self.count = 0
        self.outcome = Outcome(seed)
        self.is_calm = False
        self.kill_rate = draw.choice((0.0, 0.001, 0.005, 0.02))
        self.error_rate = draw.choice((0.0, 0.0, 0.002, 0.01))
        self.short_rate = draw.choice((0.0, 0.2))
        self.unsynced_rate = draw.choice((0.0, 0.0, 0.2))
        self.outage_rate = draw.choice((0.0, 0.0, 0.05))
        self.result_lost = draw.choice((0.0, 0.1))
        self.copies = draw.choice((0.0, 0.2))
        self.is_read_only = False
        self.disk = SimulatedDisk(seed)
        self.bucket = SimulatedObjects(seed) if draw.random() < 0.3 else None
        self.processes: list[Process] = []
        self.stopped: list[SuspendedCall] = []
        self.zombies: list[Any] = []
        self.folder: Path | None = None
        self.latest_ms = self.now_ms
        self.set_forward_ms = 0
        self.changes_options = draw.random() < 0.7
        self.cycle_began = 0
        self.planned_from: dict[str, int] = {}
        self.outcome.kind = draw.choice(_DRAWN) if life is None else life
        self.sizing = Sizing(seed, self.outcome.kind)
        # A generator of its own: the other decisions of a seed are the same with and without it.
        self._tolerance = random.Random(f"tolerance {seed}")
        self.life: Life = LIVES[self.outcome.kind](self)
        self.neighbour: tuple[Life, Query] | None = None

    def run(self) -> None:
        """Play the seed.

        Raises:
            DefectFound: a guarantee is violated.
        """
        draw = self.random
        self._begin(self.life)
        if draw.random() < 0.15:
            # Another source of the same query, with the same state location and the default name.
            life, query = self.life, self.query
            self.life = NeighbourLife(self)
            self._begin(self.life)
            self.neighbour = (life, query)
        moves = (
            [self.arrive] * 4
            + [self.run_batch] * 10
            + [self.restart, self.run_available_now, self.cut_power, self.fill_disk, self.make_read_only]
            + [self.repair] * 4
            + [self.stop_query, self.suspend, self.wake, self.pass_some_time, self.step_clock]
            + [self.ask] * 4
            + [self.ask_nonsense, self.roll_back]
        )
        for _ in range(draw.randint(6, 36)):
            draw.choice(moves)()
            self._turn_to_the_neighbour()
        for _ in range(1 if self.neighbour is None else 2):
            self.calm()
            self.life.check()
            self.life.check_savepoints()
            self.check_state()
            self._turn_to_the_neighbour(1.0)

    def _begin(self, life: Life) -> None:
        life.begin()
        life.options = self._redrawn(life.options)
        self.query = Query(self, life.given(), STATE, cores=self.random.randint(1, 3))
        life.started()

    def _redrawn(self, options: dict[str, str]) -> dict[str, str]:
        """The options with other targets of batches, and with another number of tolerated failures."""
        others = {name: value for name, value in options.items() if name != _TOLERABLE}
        most = self._tolerance.choice((None, None, "1", "4"))
        return self.sizing.redraw(others if most is None else {**others, _TOLERABLE: most})

    def _turn_to_the_neighbour(self, probability: float = 0.4) -> None:
        if self.neighbour is not None and self.random.random() < probability:
            (self.life, self.query), self.neighbour = self.neighbour, (self.life, self.query)

    def end(self) -> None:
        """Remove all files of the simulation."""
        self.is_calm = True
        for call in self.stopped:
            call.resume()
        for life in (self.life, *(self.neighbour or ())[:1]):
            life.end()
        self.sizing.end()
        if self.folder is not None:
            shutil.rmtree(os.fsencode(self.folder), ignore_errors=True)
        self.outcome.batches = len(self.query.logs.commits) if hasattr(self, "query") else 0

    # The machine, as used by its processes.

    def random_hex(self) -> str:
        """16 hex digits."""
        return f"{self.random.getrandbits(64):016x}"

    def new_process(self, name: str, *, is_driver: bool) -> Process:
        process = Process(name, self, is_driver=is_driver)
        self.processes.append(process)
        return process

    def store(self, location: str, process: Process) -> Store:
        if self.bucket is not None:
            return self.bucket.seen_by(process, location)
        return LocalStore(location, _ShortWrites(self, self.disk, process))

    def disturb(self, process: Process, call: str, path: str) -> None:
        """Handle one call of one process: the process may be killed, or the call may fail."""
        self.outcome.steps += 1
        if not self.is_calm:
            self._trouble(process, call, path)
        if call in ("link", "create") and path.endswith(".alive"):
            process.signs_of_life.add(os.path.basename(path))
        if call in ("link", "create", "rename", "replace") and "/checkpoints/" in path:
            self.planned_from[os.path.basename(path)] = self.cycle_began

    def _trouble(self, process: Process, call: str, path: str) -> None:
        luck = self.random.random()
        if luck < self.kill_rate:
            self.fault("kill", f"{process} is killed before {call} {path}")
            process.kill()
            raise Killed(f"{call} {path}")
        if luck < self.kill_rate + self.error_rate:
            number = self.random.choice((errno.EIO, errno.ENOSPC, errno.EACCES))
            self.fault(errno.errorcode[number], f"{process}: {call} {path} fails")
            raise OSError(number, os.strerror(number), path)
        if call == "sync_folder" and self.random.random() < self.unsynced_rate:
            self.fault("unsynced folder", f"{process}: {path} cannot be synced")
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        if self.is_read_only and call in _WRITES:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def is_done(self) -> bool:
        """Whether work has ended; always True once faults have ended."""
        return self.is_calm or self.random.random() < 0.7

    def interrupt(self, work: Callable[[], object]) -> None:
        """Run the work of a thread, which may be suspended in the middle while its driver continues."""

        def logged() -> None:
            try:
                work()
            except Flip27Error as error:
                self.tell(f"a thread failed: {error.what}")

        if self.is_calm or self.random.random() < 0.5:
            logged()
            return
        call = SuspendedCall(logged, self.random.randint(1, 12), is_of_a_thread=True)
        if call.begin():
            self.fault("slow thread", "a thread is suspended in the middle")
            self.stopped.append(call)
        elif call.error is not None:
            raise call.error

    def fault(self, kind: str, text: str) -> None:
        """Count a fault and log it."""
        self.outcome.faults[kind] += 1
        self.tell(f"FAULT {kind}: {text}")

    def tell(self, text: str) -> None:
        # Temporary names are random; the log of a seed must not be.
        words = _TEMPORARY.sub(TEMPORARY_PREFIX, text)
        self.outcome.story.append(f"{self.outcome.steps:6d}  {words}")

    # Moves of the simulation.

    def arrive(self) -> None:
        """Add data."""
        self.life.arrive()

    def ask(self) -> None:
        """Submit a request."""
        self.life.ask()

    def ask_nonsense(self) -> None:
        """Put an invalid file among the requests."""
        self.life.ask_nonsense()

    def run_batch(self) -> bool:
        """Run one batch as far as possible; False if nothing is new."""
        query = self.query
        if query.process.is_dead:
            self.restart()
        query = self.query
        try:
            # A step of its own: what the cycle before did last has another number.
            self.outcome.steps += 1
            self.cycle_began = self.outcome.steps
            if not query.logs.has_uncommitted and not query.trigger():
                self.tell("nothing is new")
                self.life.rested()
                return False
            tasks = query.partitions()
            rows = query.run_stage(tasks)
            if self.life.is_repeatable and self.random.random() < 0.1:
                again = query.run_stage(tasks)  # foreachBatch with a further action
                if not self.life.repeats(rows, again):
                    raise DefectFound(f"another action of one batch saw other rows: {rows} and {again}")
            query.finish(rows)
            self.sizing.let_pass(self.pass_time, len(rows))
            self.tell(
                f"batch {query.logs.next_batch_id - 1} is committed: {len(rows)} rows of {len(tasks)} tasks"
            )
            self._check_line()
            self._check_refused()
            self.survive("after the commit log")
        except _PowerCut:
            self.cut_power()
        except Killed as killed:
            self.tell(f"the driver died: {killed.where}")
            query.kill()
        except TasksFailed as failed:
            self._ended(failed, failed.__cause__)
        except Flip27Error as error:
            self._ended(error, error)
        if query.stages_differ is not None:
            raise DefectFound(query.stages_differ)
        return True

    def restart(self, boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED) -> None:
        """Kill the driver and start a new one, perhaps with other options."""
        query, cores = self.query, self.query.cores
        query.kill()
        self.tell(f"the query is restarted, {boundedness}")
        if self.changes_options and not self.is_calm and self.random.random() < 0.5:
            self.life.redraw()
            self.life.options = self._redrawn(self.life.options)
            cores = self.random.randint(1, 3)
        query.change(self.life.given(), cores=cores, boundedness=boundedness)
        try:
            query.start()
            self.life.started()
        except Flip27Error as error:
            self._has_a_remedy(error)
            self.tell(f"the driver does not start: {error.what}")

    def run_available_now(self) -> None:
        """Start the query with Trigger.AvailableNow; it may end early."""
        self.restart(Boundedness.BOUNDED)
        for _ in range(self.random.choice((1, 20))):
            if self.query.process.is_dead or not self.run_batch():
                return

    def stop_query(self) -> None:
        """Stop the query normally; slow threads of its driver end after that."""
        holder, process = self.query.holder, self.query.process
        if process.is_dead:
            return
        self.tell("the query is stopped")
        was_calm, self.is_calm = self.is_calm, self.is_calm or self.random.random() < 0.5
        try:
            holder.close()
            self._let_threads_end()
            if self.is_calm and not self.is_read_only and process.signs_of_life:
                self._check_none_is_left(process.signs_of_life)
        except Killed:
            pass
        except Flip27Error as error:
            self._has_a_remedy(error)
        finally:
            self.is_calm = was_calm
            process.kill()

    def _let_threads_end(self) -> None:
        for call in [call for call in self.stopped if call.is_of_a_thread]:
            self.stopped.remove(call)
            call.resume()
            self._only_regular(call.error)

    def cut_power(self) -> None:
        """Cut the power: data that is not durable may be lost."""
        self.fault("power cut", "the power is cut")
        for process in self.processes:
            process.kill()
        self.processes.clear()
        self.disk.cut_power()
        self.restart()

    def roll_back(self) -> None:
        """Restore a copy of the checkpoint location, and the sink as of the same moment."""
        query, logs = self.query, self.query.logs
        if len(logs.offsets) < 2 or not self.life.can_be_rolled_back():
            return
        kept = self.random.randrange(1, len(logs.offsets))
        undone = logs.commits.difference(range(kept))
        self.fault("rolled back", f"the checkpoint location is restored: batches {sorted(undone)} are undone")
        query.kill()
        names = [Offset.from_json(as_value(text)).name for text in logs.offsets]
        # A copy from before the first data names no state.
        is_shown = names[kept - 1] is not None and len({names[number] for number in undone}) > 1
        self.query.must_refuse = is_shown and _ALLOWED not in self.life.options
        del logs.offsets[kept:]
        logs.commits &= set(range(kept))
        query.restore_sink()

    def fill_disk(self) -> None:
        """Fill the disk almost completely."""
        if self.bucket is None:
            self.disk.room_bytes = self.random.randrange(3000)
            self.fault("full disk", f"{self.disk.room_bytes} bytes are left on the disk")

    def make_read_only(self) -> None:
        self.is_read_only = True
        self.fault("read-only", "the state location is read-only")

    def repair(self) -> None:
        """Free disk space, and make the state location writable."""
        self.disk.room_bytes = None
        self.is_read_only = False

    def pass_some_time(self) -> None:
        self.pass_time(self.random.choice((1, 1000, 60_000, 4_000_000)))

    def pass_time(self, passed_ms: int) -> None:
        self.steady_ms += passed_ms
        self.set_clock(self.now_ms + passed_ms)

    def set_clock(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.latest_ms = max(self.latest_ms, now_ms)
        self.disk.now = now_ms / 1000

    def step_clock(self) -> None:
        """Somebody sets the wall clock, back or forth; it is right again when faults have ended."""
        error_ms = self.random.choice((-3_600_000, -60_000, -5000, 60_000, 86_400_000))
        self.fault("clock", f"the clock is set by {error_ms} ms")
        self._set_forward(error_ms)

    def wait(self, passed_ms: int) -> None:
        """Let time pass from the latest time that the clock has ever shown."""
        self._set_forward(self.latest_ms - self.now_ms)
        self.pass_time(passed_ms)

    def _set_forward(self, error_ms: int) -> None:
        self.set_forward_ms += max(0, error_ms)
        self.set_clock(self.now_ms + error_ms)

    def suspend(self) -> None:
        """Suspend the driver in the middle of planning; a second driver takes over."""
        query = self.query
        if query.process.is_dead or query.logs.has_uncommitted:
            return
        holder, start = query.holder, query.logs.committed
        call = SuspendedCall(lambda: holder.latest_offset(start, None), self.random.randint(1, 25))
        if call.begin():
            self.fault("zombie", f"{query.process} is suspended")
            self.stopped.append(call)
            self.query.start()
        elif isinstance(call.error, Flip27Error):
            self._ended(call.error, call.error)
        elif call.error is not None:
            self.query.kill()
        else:
            self.tell("the driver planned before it could be suspended, and its answer is lost")
            self.zombies.append((holder, start))
            self.query.start()

    def wake(self) -> None:
        """Continue a suspended driver, and let a stale driver plan a batch."""
        if self.stopped:
            call = self.stopped.pop(self.random.randrange(len(self.stopped)))
            self.tell("a suspended process continues")
            call.resume()
            self._only_regular(call.error)
        if self.zombies:
            holder, start = self.random.choice(self.zombies)
            try:
                holder.latest_offset(start, None)
            except BaseException as error:  # noqa: BLE001 - checked below
                self._only_regular(error)
        if self.query.forsaken:
            self._continue(self.query.forsaken.pop())

    def calm(self) -> None:
        """Run the query without faults until nothing is new.

        Raises:
            DefectFound: the query does not come to rest.
        """
        self.is_calm = True
        self.is_read_only = False
        self.disk.room_bytes = None
        self.result_lost = 0.0
        if self.bucket is not None:
            self.bucket.trouble = self.bucket.stale_lists = 0.0
        self.life.calm()
        self.tell("all faults have ended")
        while self.stopped or self.query.forsaken:
            self.wake()
        self.restart()
        self.run_to_the_end()
        self.restart()
        self.run_to_the_end()

    def run_to_the_end(self) -> None:
        restarts = 0
        for _ in range(_CALM_BATCHES):
            if self.life.is_refused:
                return
            if self.query.process.is_dead:
                restarts += 1
                if restarts > _CALM_RESTARTS:
                    self.outcome.stuck = True
                    raise DefectFound("the query does not continue although all faults have ended")
                self.restart()
            if not self.run_batch() and not self.query.process.is_dead:
                return
        self.outcome.stuck = True
        raise DefectFound(f"the query has not come to rest after {_CALM_BATCHES} batches")

    def survive(self, where: str) -> None:
        if self.is_calm:
            return
        if self.random.random() < self.kill_rate * 5:
            self.fault("kill", f"the driver is killed {where}")
            raise Killed(where)
        if self.random.random() < self.outage_rate:
            raise _PowerCut(where)

    def _ended(self, error: Exception, cause: BaseException | None) -> None:
        """Handle a failure of the query."""
        self.tell(f"the query fails: {error}")
        if isinstance(cause, Flip27Error):
            self._has_a_remedy(cause)
            if _ALLOWED in cause.remedy:
                self.query.must_refuse = False
                self.life.options[_ALLOWED] = "true"
        self.stop_query()

    def _has_a_remedy(self, error: Flip27Error) -> None:
        if not error.remedy:
            raise DefectFound(f"an error does not say what to do: {error}")
        self.life.failed(error)

    def _only_regular(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, Flip27Error | Killed):
            raise DefectFound(f"a zombie failed with {type(error).__name__}: {error}") from error

    def _continue(self, attempt: RunningAttempt) -> None:
        self.tell(f"{attempt.process} continues, although its result no longer counts")
        advance_forsaken(attempt)

    # The checks at the end.

    def check_rows(self, expected: Counter[str]) -> None:
        """Check that every row was delivered once.

        Raises:
            DefectFound: rows are lost or duplicated.
        """
        found = Counter(self.query.lines)
        lost, more = expected - found, found - expected
        self.outcome.rows = found.total()
        self.outcome.lost, self.outcome.duplicated = lost.total(), more.total()
        if lost or more:
            raise DefectFound(f"lost: {dict(lost)}; duplicated or foreign: {dict(more)}")
        for before, after in self.query.sink.overwritten:
            if Counter(before.rows) != Counter(after.rows):
                raise DefectFound(f"batch {before.batch_id} gave other rows when it was repeated")

    def check_state(self) -> None:
        """Check that every checkpoint that Spark refers to can be read.

        Raises:
            DefectFound: a checkpoint cannot be read.
        """
        self._check_line()
        store = self.store(STATE, self.new_process("a reader", is_driver=False))
        retained = int(self.life.given().options.get("retainedCheckpoints", "100"))
        before: StoredDocument | None = None
        snapshot: Snapshot[Any] | None = None
        for offset in self.query.offsets[-retained:]:
            try:
                document = document_at(store, offset)
                check_sizes(before, document.raw, offset.summary)
                before = document.raw
                if document.raw.event_time is not None or document.raw.horizon is not None:
                    earlier, snapshot = snapshot, self._snapshot_of(store, offset, document)
                    self.life.check_document(earlier, snapshot)
                else:
                    snapshot = None
                for segment in sorted(document.segments):
                    stored = store.read(file_names.segment_file(str(offset.lineage), segment))
                    check_packed(segment, stored, None)
            except Flip27Error as error:
                what = f"checkpoint {offset.checkpoint_id} cannot be read: {error.what}"
                raise DefectFound(what) from error

    def _snapshot_of(self, store: Store, offset: Offset, document: CheckpointDocument) -> Snapshot[Any]:
        def load(name: str) -> bytes:
            return unpack_segment(name, store.read(file_names.segment_file(str(offset.lineage), name)))

        codec = SnapshotCodec(self.query.source.enumerator_type)
        return codec.decode(document, load, with_plan=True)

    def _check_line(self) -> None:
        """Check that the state alone shows the line that Spark has committed.

        A driver that Spark does not follow may have taken over one checkpoint before the newest: the state
        does not tell whether Spark has committed that one.

        Raises:
            DefectFound: another line is found.
        """
        committed = self.query.offsets[-2:]
        if not committed or committed[-1].lineage is None:
            return
        with self.looking():
            store = self.store(self.query.state, self.new_process("a reader", is_driver=False))
            line = StoredLineage(store, committed[-1].lineage).line()
            driver = next(drivers(store, committed[-1].lineage), None)
            epoch = document_at(store, committed[-1]).raw.epoch
        planned = Offset.from_json(as_value(self.query.logs.offsets[-1])).name
        if line.newest in (committed[-1].name, planned):
            return
        names = [offset.name for offset in committed]
        if driver is None or driver.epoch <= epoch or line.newest_complete not in names:
            raise DefectFound(f"the newest checkpoint is {names[-1]}, but the state shows {line.newest}")

    def _check_refused(self) -> None:
        """Check that an older copy of the checkpoint location is used only with the option that allows it.

        Raises:
            DefectFound: the state shows that it is older, and the query has committed a batch.
        """
        if self.query.must_refuse:
            raise DefectFound("an older copy of the checkpoint location was used")
        if self.random.random() < 0.5:
            self.life.options.pop(_ALLOWED, None)

    def _check_none_is_left(self, signs_of_life: set[str]) -> None:
        """Check that a stopped driver has left no renewal files."""
        logged = [Offset.from_json(as_value(text)) for text in self.query.logs.offsets]
        for lineage in sorted({offset.lineage for offset in logged if offset.lineage is not None}):
            left = signs_of_life.intersection(self.listed(STATE, f"{lineage}/{file_names.DRIVERS}"))
            if left:
                raise DefectFound(f"the query has stopped, but {sorted(left)} still exist")

    @contextmanager
    def looking(self) -> Iterator[None]:
        """No faults, and no outdated listings, while the simulation itself looks at what is stored."""
        bucket = self.bucket or SimulatedObjects(0)
        before = self.is_calm, bucket.trouble, bucket.stale_lists
        self.is_calm, bucket.trouble, bucket.stale_lists = True, 0.0, 0.0
        try:
            yield
        finally:
            self.is_calm, bucket.trouble, bucket.stale_lists = before

    def listed(self, location: str, folder: str) -> list[str]:
        """The current names in a folder."""
        with self.looking():
            return self.store(location, self.new_process("a reader", is_driver=False)).list(folder)

    def losses(self) -> list[DataLoss]:
        """All losses that the query has reported."""
        store = self.store(STATE, self.new_process("a reader", is_driver=False))
        retained = max(_RETAINED, int(self.life.options.get("retainedCheckpoints", 0)) - 10)
        offsets = self.query.offsets[-retained:]
        ledgers = [document_at(store, offset).raw.ledger for offset in offsets]
        losses = [loss for ledger in ledgers for loss in ledger.losses]
        # A document lists twenty of the losses that it counts; those of its own batch are in the next one.
        is_cut_off = any(ledger.loss_count > len(ledger.losses) for ledger in ledgers)
        names = {offset.name for offset in (offsets if is_cut_off else offsets[-1:])}
        for lineage in {offset.lineage for offset in offsets}:
            for file in self.listed(STATE, f"{lineage}/{file_names.REPORTS}"):
                if file_names.belongs_to(file) in names:
                    path = f"{lineage}/{file_names.REPORTS}/{file}"
                    losses += decode_stored_report(path, store.read(path)).losses
        return losses

    def quarantined(self) -> list[Any]:
        """The quarantined splits of the query, which rests."""
        return list(self._ledger.quarantined)

    def live(self) -> list[Any]:
        """The live splits of the query, which rests, that its newest checkpoint has.

        No edit can name the others: whoever edits sees what is stored.
        """
        store = self.store(STATE, self.new_process("a reader", is_driver=False))
        with self.looking():
            newest = [document_at(store, offset) for offset in self.query.offsets[-1:]]
        ids = {decode_json(split)["split_id"] for stored in newest for split in stored.raw.ledger.live}
        return [split for split in self._ledger.live if split.split_id in ids]

    @property
    def _ledger(self) -> LedgerState[Any]:
        coordinator = self.query.holder.coordinator_at(self.query.logs.committed)
        return coordinator.standing(self.now_ms).ledger

    def retry_quarantined(self, split_ids: Sequence[str] | None = None) -> None:
        """Retry quarantined splits, or all of them, and run the query."""
        mailbox = self.life.requests()
        ids = (
            tuple(item.split.split_id for item in self.quarantined())
            if split_ids is None
            else tuple(split_ids)
        )
        if mailbox is None or not ids:
            return
        self.tell(f"{ids} are retried")
        mailbox.submit(self.life.edit(mailbox, EditOperation.QUARANTINE_RETRY, split_ids=ids))
        self.run_to_the_end()


class _PowerCut(Killed):
    """The power is cut in the middle of a batch."""


class _ShortWrites(ProcessDisk):
    """A disk whose writes sometimes accept fewer bytes than given."""

    def __init__(self, simulation: Simulation, disk: SimulatedDisk, process: Process) -> None:
        super().__init__(disk, process.gate)
        self._simulation = simulation

    def write(self, handle: int, data: memoryview) -> int:
        simulation = self._simulation
        if not simulation.is_calm and len(data) > 1 and simulation.random.random() < simulation.short_rate:
            simulation.outcome.faults["short write"] += 1
            data = data[: simulation.random.randrange(1, len(data))]
        return super().write(handle, data)
