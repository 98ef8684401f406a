"""Stories of objects that change while they are streamed, and the results that they must have."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.s3_server import S3Bucket
from tests.slow_down import SlowDown

from .objects import MOST_LIVES, Landing, Query

SHARE, LARGE_SHARE = 0.02, 0.05
"""The shares of requests that S3 refuses at first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a story.

    Attributes:
        lost, duplicated: numbers of rows.
        ignored: the names of ignored files, as the state lists them and as they should be.
        differing: objects that are missing, or have another key or content than they should.
    """

    rows: int
    lost: int
    duplicated: int
    ignored: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    differing: list[str] = field(default_factory=list)
    kills: int
    errors: int
    refused: dict[str, int]

    @property
    def is_exact(self) -> bool:
        ignored, expected = self.ignored
        return not (self.lost or self.duplicated or self.differing) and ignored == expected

    def __str__(self) -> str:
        ignored, expected = self.ignored
        return (
            f"rows {self.rows}  lost {self.lost}  duplicated {self.duplicated}  "
            f"wrongly ignored {len(set(ignored) ^ set(expected))} of {len(expected)}  "
            f"in the wrong place {len(self.differing)}  kills {self.kills}  errors {self.errors}  "
            f"refused {self.refused}"
        )


def overwritten_and_deleted(bucket: S3Bucket, proxy: SlowDown, *, objects: int, seed: int) -> Outcome:
    """With allowOverwrites and ignoreMissingFiles, every version is read once unless it is gone before."""
    chance = random.Random(seed)
    landing = Landing(bucket, "landing")
    early = [f"{number:05d}" for number in range(objects * 8 // 10)]
    late = [f"{number:05d}" for number in range(objects * 8 // 10, objects - 2)]
    landing.put(early)
    landing.put_in_parts("00000-in-parts")
    landing.put_in_parts("zzzzz-in-parts")
    query = Query.on(
        landing, bucket, chance, allowOverwrites="true", ignoreMissingFiles="true", onSplitError="ignore",
        maxFilesPerTrigger=str(objects // 5),
    )  # fmt: skip
    expected: Counter[str] = Counter()
    proxy.share = SHARE

    query.batch()
    read = sorted(query.files_read)
    for name in read:
        expected.update(landing.rows(name))
    waiting = sorted(set(landing.versions) - set(read))
    _delete(landing, chance, read)
    landing.put(_some(chance, [name for name in read if name in early]))
    changed = _some(chance, [name for name in waiting if name in early])
    landing.put(changed)
    gone = _delete(landing, chance, [name for name in waiting if name not in changed])
    landing.put(late)

    def meanwhile(planned: list[str]) -> None:
        gone.extend(_delete(landing, chance, [name for name in planned if name not in [*changed, *gone]]))

    query.batch(meanwhile)
    query.to_the_end()
    proxy.share = 0.0
    for name, versions in landing.versions.items():
        if name not in gone and (name not in read or len(versions) > 1):
            expected.update(landing.rows(name))
    return _outcome(query, proxy, expected, ignored=(query.ignored(), sorted([*changed, *gone])))


def archived(bucket: S3Bucket, proxy: SlowDown, *, objects: int, seed: int) -> Outcome:
    """With cleanSource=archive, objects are moved after reading; those overwritten since stay, unread."""
    chance = random.Random(seed)
    landing = Landing(bucket, "landing")
    names = [f"{number:05d}" for number in range(objects)]
    landing.put(names)
    query = Query.on(
        landing, bucket, chance, cleanSource="archive", sourceArchiveDir=f"s3://{bucket.name}/archive",
        maxActionAttempts="50", maxFilesPerTrigger=str(objects // 4),
    )  # fmt: skip
    proxy.share = LARGE_SHARE

    query.batch()
    read = sorted(query.files_read)
    changed = _some(chance, read)
    landing.put(changed)
    gone = _delete(landing, chance, [name for name in read if name not in changed])
    query.to_the_end()
    expected = Counter(row for name in names for row in landing.rows(name, 0))
    wanted = {f"landing/{name}": landing.rows(name) for name in changed} | {
        f"archive/landing/{name}": landing.rows(name, 0) for name in names if name not in [*changed, *gone]
    }
    for _ in range(MOST_LIVES):
        there = landing.contents("landing") | landing.contents("archive")
        differing = sorted(name for name in there | wanted if there.get(name) != wanted.get(name))
        if not differing:
            break
        query.engine.restart()  # moves that failed are tried again
        query.batch()
    return _outcome(query, proxy, expected, differing=differing)


def _some(chance: random.Random, names: Sequence[str]) -> list[str]:
    return chance.sample(names, max(1, len(names) // 20))


def _delete(landing: Landing, chance: random.Random, names: Sequence[str]) -> list[str]:
    chosen = _some(chance, names)
    landing.delete(chosen)
    return chosen


def _outcome(
    query: Query,
    proxy: SlowDown,
    expected: Counter[str],
    *,
    ignored: tuple[list[str], list[str]] = ([], []),
    differing: Sequence[str] = (),
) -> Outcome:
    query.plan_no_crashes()
    return Outcome(
        rows=query.read.total(),
        lost=(expected - query.read).total(),
        duplicated=(query.read - expected).total(),
        ignored=ignored,
        differing=list(differing),
        kills=query.kills.total(),
        errors=len(query.errors),
        refused=dict(proxy.refused),
    )
