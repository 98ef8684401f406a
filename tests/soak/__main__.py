"""``make soak``: kills processes at random points under load and counts the rows that came out.

The parts, in this order: disasters of all kinds on queries of all kinds; a source that exchanges events;
tables of PostgreSQL and MariaDB; topics of Kafka; objects on S3, listed or notified; queries in the clouds;
random histories of files. If parts are named on the command line, the others are left out.
"""

from __future__ import annotations

import argparse
import functools
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.postgres_server import WHEELS
from tests.quick_moto import quick_answers
from tests.s3_server import new_bucket, s3_endpoint
from tests.slow_down import slow_down

from .clouds import CLOUDS
from .clouds import play as play_on_cloud
from .disasters import FAULT_RATE, Disasters, DriverKills, Outcome
from .faults import in_a_mount_namespace
from .mysql_disasters import mysql_disasters
from .notified_objects import notified
from .object_stories import archived, overwritten_and_deleted
from .random_files import play_many
from .shapes import SHAPES, Talking
from .table_disasters import table_disasters
from .topic_disasters import topic_disasters


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    for name, part in PARTS.items():
        parser.add_argument(f"--{name}", type=int, help=f"{part.counts} ({part.count} if no part is named)")
    parser.add_argument("--fault-rate", type=float, default=FAULT_RATE, help="the share of faults")
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES), help="the queries")
    parser.add_argument("--seed", type=int, default=None, help="the seed (default: a new one, printed)")
    parser.add_argument("--life", type=float, default=2.0, help="the longest life of a driver, in seconds")
    parser.add_argument("--spark", default=None, help="4.0, 4.1 or 4.2 (default: the newest Spark)")
    arguments = parser.parse_args()
    if arguments.spark is not None:
        on_older_spark(arguments.spark)
    named = {name: getattr(arguments, name) for name in PARTS}
    counts = named if any(named.values()) else {name: part.count for name, part in PARTS.items()}
    if counts["disasters"]:
        in_a_mount_namespace()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    logging.getLogger("gcp_storage_emulator").setLevel(logging.CRITICAL)
    logging.getLogger("flip27_source").setLevel(logging.ERROR)
    exact = [part.play(arguments, counts[name], seed) for name, part in PARTS.items() if counts[name]]
    return 0 if all(exact) else 1


def on_older_spark(line: str) -> None:
    """Restart this program with an older version of Spark, unless it already runs with it."""
    compat = ["bash", "scripts/compat.sh", "--python", "--spark", line]
    python = subprocess.run(compat, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")[-2]
    if python != sys.executable:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python
        os.execv(python, [python, "-m", "tests.soak", *sys.argv[1:]])


def _disasters(arguments: argparse.Namespace, kills: int, seed: int) -> bool:
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # our faults must not truncate compiled modules
    chosen = {"shapes": arguments.shapes, "fault_rate": arguments.fault_rate}
    return _exact(lambda folder, say: Disasters(folder, seed=seed, kills=kills, say=say, **chosen).run())


def _talkative(arguments: argparse.Namespace, kills: int, seed: int) -> bool:
    chosen = {"shapes": [Talking.name], "fault_rate": 0.0, "longest_pause_s": arguments.life}
    return _exact(lambda folder, say: DriverKills(folder, seed=seed, kills=kills, say=say, **chosen).run())


def _tables(_: argparse.Namespace, kills: int, seed: int) -> bool:
    version = random.Random(seed).choice([v for v, wheel in WHEELS.items() if find_spec(wheel)])
    print(f"PostgreSQL {version}", flush=True)

    def play(folder: Path, say: Callable[[str], None]) -> Outcome:
        with table_disasters(folder, version=version, seed=seed, kills=kills, say=say) as disasters:
            return disasters.run()

    return _exact(play)


def _mysql(_: argparse.Namespace, kills: int, seed: int) -> bool:
    def play(folder: Path, say: Callable[[str], None]) -> Outcome:
        with mysql_disasters(folder, seed=seed, kills=kills, say=say) as disasters:
            return disasters.run()

    return _exact(play)


def _topics(_: argparse.Namespace, kills: int, seed: int) -> bool:
    def play(folder: Path, say: Callable[[str], None]) -> Outcome:
        with topic_disasters(folder, seed=seed, kills=kills, say=say) as disasters:
            return disasters.run()

    return _exact(play)


def _exact(play: Callable[..., Outcome]) -> bool:
    """Whether nothing was lost, duplicated or unexplained in a new folder; otherwise the folder is kept."""
    folder = Path(tempfile.mkdtemp(prefix="flip27-soak-"))
    print(f"folder, kept if something is wrong: {folder}", flush=True)
    outcome = play(folder, say=functools.partial(print, flush=True))
    for line in outcome.lines():
        print(line, flush=True)
    if outcome.is_exact:
        shutil.rmtree(folder)
    return outcome.is_exact


def _objects(_: argparse.Namespace, objects: int, seed: int) -> bool:
    exact = True
    with s3_endpoint() as endpoint, slow_down(endpoint, seed=seed, stubborn=0.1) as proxy:
        # Archiving an object takes six requests.
        for story, count in ((overwritten_and_deleted, objects), (archived, max(objects // 10, 100))):
            began = time.monotonic()
            outcome = story(new_bucket(proxy.url), proxy, objects=count, seed=seed)
            exact = exact and outcome.is_exact
            print(f"{story.__name__}: {outcome}  {time.monotonic() - began:.0f} s", flush=True)
    return exact


def _notified(_: argparse.Namespace, objects: int, seed: int) -> bool:
    began = time.monotonic()
    with s3_endpoint() as endpoint, quick_answers(endpoint) as quick:
        outcome = notified(
            new_bucket(quick.url), objects=objects, seed=seed, say=functools.partial(print, flush=True)
        )
    each = ", ".join(f"{kind} {count / objects:.2f}" for kind, count in quick.requests.most_common())
    print(f"{outcome}  {time.monotonic() - began:.0f} s", flush=True)
    print(f"  requests for each object: {each}", flush=True)
    return outcome.is_exact


def _clouds(_: argparse.Namespace, kills: int, seed: int) -> bool:
    folder = Path(tempfile.mkdtemp(prefix="flip27-soak-"))
    print(f"folder, kept if something is wrong: {folder}", flush=True)
    say = functools.partial(print, flush=True)
    outcomes = [play_on_cloud(cloud, folder / cloud, kills=kills, seed=seed, say=say) for cloud in CLOUDS]
    is_exact = all(outcome.is_exact for outcome in outcomes)
    if is_exact:
        shutil.rmtree(folder)
    return is_exact


def _histories(_: argparse.Namespace, count: int, seed: int) -> bool:
    began = time.monotonic()
    play_many(count, seed)
    print(f"{count} histories of files: rows out equal rows in  {time.monotonic() - began:.0f} s", flush=True)
    return True


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the soak: how many kills or objects it has by default, and what is counted."""

    play: Callable[[argparse.Namespace, int, int], bool]
    count: int
    counts: str


PARTS = {
    "disasters": Part(_disasters, 60, "kills of processes"),
    "kills": Part(_talkative, 100, "kills of drivers of a source that exchanges events"),
    "postgres": Part(_tables, 50, "kills while tables of PostgreSQL are copied"),
    "mysql": Part(_mysql, 50, "kills while tables of MariaDB are copied"),
    "kafka": Part(_topics, 50, "kills while topics of Kafka are copied"),
    "objects": Part(_objects, 10_000, "objects on S3"),
    "notified": Part(_notified, 10_000, "objects that events name, 100000 for the long form"),
    "clouds": Part(_clouds, 50, "kills of drivers on S3, and as many on Azure and on GCS"),
    "histories": Part(_histories, 2_000, "random histories of files"),
}


if __name__ == "__main__":
    sys.exit(main())
