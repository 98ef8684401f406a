"""Runs many cases and reports the results."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from .case import Case
from .comparison import Compared, Mismatch, Side, compare, write_files
from .csv_cases import csv_case
from .differences import DIFFERENCES, Difference
from .json_cases import json_case
from .orc_cases import orc_case
from .other_sides import WholeFiles, http_case, http_side, native_side
from .our_side import OurSide, RefusedError, machine_in
from .parquet_cases import parquet_case
from .parsed_side import ParsedSide
from .spark_side import SparkSide, Theirs, small_jobs
from .story import story
from .surroundings import surrounded
from .text_cases import text_case
from .texts import REGIONS
from .written_cases import arrow_case, avro_case

Maker = Callable[[random.Random, str], Case]

_NOT_BY_LINES = ("enforceSchema", "multiLine")
"""Options that ``parsed`` refuses by name, as its own tests check; here there would be nothing to compare."""
_MOST_TRIES = 150
_MOST_FILES_ALONE = 8


def parsed_case(make: Maker) -> Maker:
    """A maker of cases with a schema, and without our own columns."""

    def made(rng: random.Random, name: str) -> Case:
        case = make(rng, name)
        while case.columns is None:
            case = make(rng, name)
        options = {option: text for option, text in case.options.items() if option not in _NOT_BY_LINES}
        return replace(case, options=options, own_options={}, own_columns=(), side="parsed")

    return made


def native_case(rng: random.Random, name: str) -> Case:
    """Make a case of any format that Spark reads, for a native read, in many cases without a schema."""
    make = rng.choice((csv_case, json_case, text_case, parquet_case, orc_case))
    case = make(rng, name)
    while case.columns is None:
        case = make(rng, name)
    if make is not text_case and rng.random() < 0.25:
        case = replace(case, files=case.files[:_MOST_FILES_ALONE], columns=None)
    return replace(case, own_options={}, own_columns=(), side="native")


MAKERS: Mapping[str, Maker] = {
    "csv": csv_case, "json": json_case, "text": text_case, "parquet": parquet_case, "orc": orc_case,
    "avro": avro_case, "arrow": arrow_case, "parsed-csv": parsed_case(csv_case),
    "parsed-json": parsed_case(json_case), "http": http_case(json_case), "native": native_case,
}  # fmt: skip
FORMATS = tuple(MAKERS)

_SAME_JVM_ZONE = 10
_READERS = 2
"""The number of Spark sessions that read at the same time."""


def case_of(format_name: str, seed: int, number: int) -> Case:
    """Make a case, which is always the same for the same seed and number."""
    name = f"--format {format_name} --seed {seed} --case {number}"
    rng = random.Random(f"{format_name} {seed} {number}")
    # Cases that are read at the same time mostly have the same zone of the JVM, so that none has to wait.
    jvm_zone = random.Random(f"{seed} {number // _SAME_JVM_ZONE}").choice(REGIONS)
    return surrounded(rng, MAKERS[format_name](rng, name), jvm_zone)


@dataclass(slots=True)
class Tally:
    """The counted results of some cases.

    Attributes:
        failures: the number of files that neither side can read.
        known: the number of cases that show each declared difference, by its name.
        unknown: the number of cases with other mismatches, by the kind of the first.
    """

    cases: int = 0
    files: int = 0
    cells: int = 0
    again: int = 0
    failures: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """The lines of a report for people."""
        rate = 60 * self.cases / self.seconds if self.seconds else 0
        yield (
            f"cases {self.cases}  files {self.files}  cells {self.cells}  cells read again {self.again}  "
            f"unreadable on both sides {self.failures}  {self.seconds:.0f} s ({rate:.0f} cases a minute)"
        )
        for title, counted in (
            ("options refused here", self.refused), ("known differences", self.known), ("MISMATCHES",
            self.unknown),
        ):  # fmt: skip
            yield f"{title}: {sum(counted.values())}"
            yield from (f"  {count:6}  {name}" for name, count in counted.most_common())


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A case that Spark is reading, unless ``ours`` already tells that the case is refused."""

    case: Case
    folder: Path
    ours: Side | Compared
    theirs: Future[Theirs] | None


class Fuzz:
    """Runs one case after the other. Spark reads the next ones while the current one is compared.

    Args:
        shrinks: how many mismatches to shrink and report, at most one of each kind.
        tell: called with the report of each of them.
    """

    def __init__(
        self, spark: SparkSession, *, shrinks: int = 5, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._sides = [SparkSide(spark) for _ in range(_READERS)]
        # For cases that are read while others are being read: a session has one time zone at a time.
        self._beside = SparkSide(spark)
        self._parsing = small_jobs(spark)
        self._shrinks = shrinks
        self._tell = tell

    def run(self, format_name: str, seed: int, numbers: range, tally: Tally | None = None) -> Tally:
        """Read the cases with these numbers."""
        return self.run_cases((case_of(format_name, seed, number) for number in numbers), tally)

    def run_cases(self, cases: Iterable[Case], tally: Tally | None = None) -> Tally:
        """Read these cases, and add the results to ``tally``."""
        tally = tally or Tally()
        began = time.monotonic() - tally.seconds
        for case, found in self._all(cases):
            self._count(case, found, tally)
            tally.seconds = time.monotonic() - began
        return tally

    def compared(self, case: Case) -> Compared:
        """Read and compare one case."""
        with ThreadPoolExecutor(1) as reader:
            return self._ended(self._begun(case, reader, self._beside))[1]

    def _all(self, cases: Iterable[Case]) -> Iterator[tuple[Case, Compared]]:
        """Read and compare all cases, in temporary folders."""
        under_way: deque[_UnderWay] = deque()
        with ExitStack() as stack:
            readers = [stack.enter_context(ThreadPoolExecutor(1)) for _ in self._sides]
            for number, case in enumerate(cases):
                side = number % len(readers)
                under_way.append(self._begun(case, readers[side], self._sides[side]))
                if len(under_way) > 2 * len(readers):
                    yield self._ended(under_way.popleft())
            while under_way:
                yield self._ended(under_way.popleft())

    def _begun(self, case: Case, reader: Executor, side: SparkSide) -> _UnderWay:
        folder = Path(tempfile.mkdtemp(prefix="flip27-fuzz-"))
        write_files(case, folder)
        try:
            with machine_in(case.machine_zone):
                ours = self._our_side(case, folder)
        except RefusedError as error:
            return _UnderWay(case, folder, Compared(refused=str(error)), None)
        if isinstance(ours, WholeFiles) and ours.theirs is not None:
            return _UnderWay(case, folder, ours, reader.submit(lambda: ours.theirs))
        return _UnderWay(case, folder, ours, reader.submit(side.read, case, folder))

    def _our_side(self, case: Case, folder: Path) -> Side:
        match case.side:
            case "parsed":
                return ParsedSide(case, folder, self._parsing)
            case "native":
                return native_side(case, folder, self._parsing)
            case "http":
                return http_side(case)
        return OurSide(case, folder)

    def _ended(self, begun: _UnderWay) -> tuple[Case, Compared]:
        try:
            if begun.theirs is None or isinstance(begun.ours, Compared):
                return begun.case, begun.ours  # type: ignore[return-value]
            theirs = begun.theirs.result()
            with machine_in(begun.case.machine_zone):
                return begun.case, compare(begun.case, begun.ours, theirs)
        finally:
            shutil.rmtree(begun.folder)

    def _count(self, case: Case, found: Compared, tally: Tally) -> None:
        tally.cases += 1
        if found.refused is not None:
            tally.refused[found.refused.partition("\n")[0][:100]] += 1
            return
        tally.files += len(case.files)
        tally.cells += found.cells
        tally.again += found.again
        tally.failures += found.failures
        known, unknown = self._judged(case, found)
        tally.known.update(known)
        for mismatch in unknown[:1]:
            kind = f"{mismatch.kind} {mismatch.column_type}".rstrip()
            tally.unknown[kind] += 1
            if tally.unknown[kind] == 1 and self._shrinks > 0:
                self._shrinks -= 1
                self._tell(self._story(case, mismatch))

    def _story(self, case: Case, mismatch: Mismatch) -> str:
        small, left = shrunk(case, mismatch, self._unknown)
        return story(small, self.compared(small), left)

    def _unknown(self, case: Case) -> list[Mismatch]:
        return self._judged(case, self.compared(case))[1]

    def _judged(self, case: Case, found: Compared) -> tuple[list[str], list[Mismatch]]:
        """The names of the declared differences that a case shows, and all other mismatches."""
        names = {_told_by_itself(case, mismatch) for mismatch in found.mismatches} - {None}
        known = [name for name in names if name is not None]
        unknown = [one for one in found.mismatches if _told_by_itself(case, one) is None]
        if unknown:
            case = _with_files_of(case, unknown)
        neutral, applied = case, list[Difference]()
        for difference in DIFFERENCES if unknown else ():
            without = difference.neutral(case)
            if without == case:
                continue
            neutral, applied = difference.neutral(neutral), [*applied, difference]
            left = self._left(without)
            gone = [one for one in unknown if _place(one) not in left and difference.shows(case, one)]
            if gone:
                known.append(difference.name)
                unknown = [one for one in unknown if one not in gone]
        if unknown and len(applied) > 1:
            # Two differences in one place can hide each other, so remove the causes of all.
            left = self._left(neutral)
            gone = [
                one
                for one in unknown
                if _place(one) not in left and any(difference.shows(case, one) for difference in applied)
            ]
            known += ["several in one place"] if gone else []
            unknown = [one for one in unknown if one not in gone]
        return known, unknown

    def _left(self, case: Case) -> set[tuple[str, str, str]]:
        return {_place(one) for one in self.compared(case).mismatches}


def _with_files_of(case: Case, mismatches: list[Mismatch]) -> Case:
    """The case with only the files of the mismatches, which is faster to read again."""
    paths = {mismatch.file for mismatch in mismatches}
    if not paths <= {file.path for file in case.files}:
        return case
    return replace(case, files=tuple(file for file in case.files if file.path in paths))


def _told_by_itself(case: Case, mismatch: Mismatch) -> str | None:
    for difference in DIFFERENCES:
        if (
            difference.is_told_by_itself
            and case.reader in difference.readers
            and difference.shows(case, mismatch)
        ):
            return difference.name
    return None


def _place(mismatch: Mismatch) -> tuple[str, str, str]:
    return mismatch.kind, mismatch.file, mismatch.column


def shrunk(
    case: Case, mismatch: Mismatch, unknown: Callable[[Case], list[Mismatch]], tries: int = _MOST_TRIES
) -> tuple[Case, Mismatch]:
    """The smallest case found with a mismatch of the same kind, and that mismatch.

    Args:
        unknown: returns the mismatches of a case that are not due to declared differences.
        tries: the largest number of cases to read.
    """
    smaller = case.smaller()
    while tries:
        candidate = next(smaller, None)
        if candidate is None:
            break
        tries -= 1
        if candidate == case:
            continue
        alike = mismatch.kind, mismatch.column_type
        same = [one for one in unknown(candidate) if (one.kind, one.column_type) == alike]
        if same:
            case, mismatch = candidate, same[0]
            smaller = case.smaller()
    return case, mismatch
