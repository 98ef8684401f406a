"""Random histories, drawn by hypothesis, of a landing folder and of the query that streams it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from flip27_source.testing import Step, Victim

COMPRESSIONS = ("", "", ".gz", ".bz2", ".zst")
FORMATS = ("json", "csv", "text", "parquet", "orc", "avro", "arrow")
LINES = FORMATS[:3]
STRATEGIES = ("exact", "nameCursor", "modifiedCursor")
ROUND_S = 500
"""The time between the modification times of orderly rounds; allowedLateness is twice that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file that is moved into the folder.

    Attributes:
        place: the place of its name among those of its round.
        folder: a folder below the landing folder.
        rows: the number of rows.
        wide: whether each row has some 40 KiB, so that a file of lines is cut into ranges.
        age_s: how many seconds before the last moment of its round it was modified.
    """

    place: int
    folder: str
    rows: int
    wide: bool
    compression: str
    age_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """A process is killed at a step."""

    step: Step
    nth: int
    victim: Victim


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The query restarts, files arrive, some that were read are overwritten, batches run, and processes die.

    Attributes:
        overwritten: indexes of the files that were read and are overwritten, if the options allow it.
        batches: the number of batches that run; None to run until nothing is new.
        strategy: ``seenFiles`` after the restart at the beginning of the round; None for no restart.
        parallelism: the parallelism after each restart.
        bounded: whether the query restarts with Trigger.AvailableNow.
    """

    files: tuple[NewFile, ...]
    overwritten: tuple[int, ...]
    batches: int | None
    crashes: tuple[Crash, ...]
    strategy: str | None
    parallelism: int
    bounded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The whole life of a folder and of its query.

    Attributes:
        orderly: whether names and times grow from round to round, as cursors require.
    """

    format: str
    options: dict[str, str] = field(default_factory=dict)
    orderly: bool
    rounds: tuple[Round, ...]

    @property
    def may_be_overwritten(self) -> bool:
        return self.options.get("allowOverwrites") == "true"


def _new_files(format: str, *, folders: tuple[str, ...]) -> st.SearchStrategy[NewFile]:
    return st.builds(
        NewFile,
        place=st.integers(0, 99),
        folder=st.sampled_from(folders),
        rows=st.one_of(st.integers(0, 5), st.integers(30, 60)),
        wide=st.booleans(),
        compression=st.sampled_from(COMPRESSIONS if format in LINES else ("",)),
        age_s=st.integers(0, ROUND_S - 1),
    )


def _crash(step: Step, nth: int, alone: bool) -> Crash:
    victim = Victim.EXECUTOR if alone and step.is_of_a_task else Victim.DRIVER
    return Crash(step=step, nth=nth, victim=victim)


_CRASHES = st.builds(_crash, st.sampled_from(list(Step)), st.integers(1, 3), st.booleans())
_LIMITS = {
    "maxFilesPerTrigger": st.sampled_from(["1", "2", "5"]),
    "maxBytesPerTrigger": st.sampled_from(["1", "5k", "2m"]),
    "taskReports": st.just("always"),
    "onSplitError": st.sampled_from(["quarantine", "ignore"]),
    "ignoreMissingFiles": st.just("true"),
    "retainedCheckpoints": st.just("2"),
}


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw options that can be combined, and the rounds."""
    format = draw(st.sampled_from(FORMATS))
    sizes = {"maxPartitionBytes": st.sampled_from(["1", "1m", "128m"])}
    options = draw(st.fixed_dictionaries(sizes, optional=_LIMITS))
    orderly = draw(st.booleans())
    options |= draw(
        st.sampled_from([{}, {"fileOrder": "name"}, {"fileOrder": "size"}, {"latestFirst": "true"}])
    )
    strategies: tuple[str, ...] = ("exact",)
    folders: tuple[str, ...] = ("",)
    if orderly:
        strategies = STRATEGIES
        options["backfillInterval"] = draw(st.sampled_from(["off", "1ms", "1d"]))
        options["allowedLateness"] = f"{2 * ROUND_S}s"
    else:
        special = ({}, {"allowOverwrites": "true"}, {"cleanSource": "delete"}, {"cleanSource": "archive"})
        options |= draw(st.sampled_from(special))
        if draw(st.booleans()):
            options["recursiveFileLookup"], folders = "true", ("", "a", "a/b", "day=1")
    files = st.lists(_new_files(format, folders=folders), min_size=1, max_size=6)
    rounds = st.builds(
        Round,
        files=files.map(tuple),
        overwritten=st.sampled_from([(0,), (1, 3), ()]),
        batches=st.sampled_from([None, 1, 2]),
        crashes=st.lists(_CRASHES, max_size=3).map(tuple),
        strategy=st.one_of(st.none(), st.sampled_from(strategies)),
        parallelism=st.integers(1, 4),
        bounded=st.booleans(),
    )
    found = draw(st.lists(rounds, min_size=2, max_size=4))
    return History(format=format, options=options, orderly=orderly, rounds=tuple(found))
