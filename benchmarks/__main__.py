"""``make bench``: flip27 side by side with Spark's own file source, in one run."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.child_processes import termination_raises

from . import tuned
from .cases import BY_NAME, CASES, Bench, run_cases
from .data import DataCache
from .progress import Progress
from .report import Report, machine, now, render, save
from .sizes import FULL, QUICK

_RESULTS = Path(__file__).parent / "results"


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; targets are not enforced")
    parser.add_argument("--only", action="append", choices=BY_NAME, help="only this case; may be repeated")
    parser.add_argument("--rounds", type=int, help=f"measured rounds (default {FULL.rounds})")
    parser.add_argument(
        "--slow-rounds", type=int, help="rounds of Spark in cases where one takes over a minute (default 1)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(tempfile.gettempdir()) / "flip27-bench-data",
        help="the folder in which the data is created once (default: %(default)s)",
    )
    parser.add_argument("--results", type=Path, default=_RESULTS, help="the folder of the JSON file")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a Spark setting for both sides"
    )
    parser.add_argument(
        "--tuned",
        action="store_true",
        help="use the settings that docs/deployment.md recommends, on both sides",
    )
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 if all cases ran and, unless ``--quick`` is given, reached their targets."""
    arguments = parse(words)
    asked = {"rounds": arguments.rounds, "slow_rounds": arguments.slow_rounds}
    sizes = dataclasses.replace(
        QUICK if arguments.quick else FULL, **{name: value for name, value in asked.items() if value}
    )
    conf = (tuned.CONF if arguments.tuned else {}) | dict(pair.split("=", 1) for pair in arguments.conf)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # or the S3 server logs each request
    console = Console()
    began, load = now(), os.getloadavg()
    bench = Bench(sizes=sizes, data=DataCache(arguments.data), conf=conf, say=Progress(console).say)
    cases = [case for case in CASES if not arguments.only or case.name in arguments.only]
    with contextlib.ExitStack() as stack:
        stack.enter_context(termination_raises())
        if arguments.tuned:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="flip27-bench-"))
            os.environ["SPARK_HOME"] = str(tuned.spark_home(Path(folder)))
        outcomes = list(run_cases(bench, cases))
    report = Report(
        format=1,
        began=began,
        quick=arguments.quick,
        tuned=arguments.tuned,
        machine=machine(load),
        conf=conf,
        outcomes=outcomes,
    )
    file = save(report, arguments.results)
    render(console, outcomes, enforced=sizes.enforces_targets)
    console.print(f"load before {load[0]:.1f}, after {report.machine.load_after[0]:.1f}; details: {file}")
    if any(outcome.failure for outcome in outcomes):
        return 1
    return int(sizes.enforces_targets and not all(outcome.reached for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
