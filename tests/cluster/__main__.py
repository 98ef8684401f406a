"""``make cluster``: a query on Spark Standalone on several hosts, faults, and the rows that came out."""

from __future__ import annotations

import argparse
import functools
import logging
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.child_processes import termination_raises

from .hosts import Hosts, in_namespaces
from .queries import QUERIES
from .run import ClusterRun, drawn

MINUTES_A_FAULT = 2.0
"""The time that a fault takes on a busy machine."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="the seed (default: a new one, printed)")
    parser.add_argument("--minutes", type=float, default=None, help="how long (default: each fault once)")
    parser.add_argument("--faults", nargs="+", default=["all"], help="all, or names of faults")
    parser.add_argument("--query", default=next(iter(QUERIES)), choices=list(QUERIES), help="what is read")
    arguments = parser.parse_args()
    in_namespaces()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    logging.getLogger("flip27_source").setLevel(logging.ERROR)
    folder = Path(tempfile.mkdtemp(prefix="flip27-cluster-"))
    hosts = Hosts(folder)
    print(f"seed {seed}  hosts: {hosts}\nfolder, kept if something is wrong: {folder}", flush=True)
    with termination_raises():
        say = functools.partial(print, flush=True)
        run = ClusterRun(folder, hosts, seed=seed, query=arguments.query, say=say)
        names = list(run.faults) if arguments.faults == ["all"] else arguments.faults
        if unknown := set(names) - run.faults.keys():
            parser.error(f"no fault here: {', '.join(sorted(unknown))}; there are {', '.join(run.faults)}")
        faults = drawn(run.chance, names, arguments.minutes)
        outcome = run.play(faults, arguments.minutes or MINUTES_A_FAULT * len(names))
    for line in outcome.lines():
        print(line, flush=True)
    if outcome.is_exact:
        shutil.rmtree(folder)
    return 0 if outcome.is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
