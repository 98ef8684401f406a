"""``make fuzz``: reads random files here and with Spark, and reports the differences.

make fuzz ARGS="--format csv --cases 1000 --seed 7"
make fuzz ARGS="--format csv --seed 7 --case 12"      runs one case again, with a full report
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import sys

from pyspark.sql import SparkSession

from scripts.class_archive import BRIEF_JVM
from tests.spark.jvm import remember_names

from .run import FORMATS, Fuzz, Tally, case_of
from .spark_side import quiet
from .story import story

_PROGRESS = 100


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--format", choices=FORMATS, action="append", help="the reader (default: all)")
    parser.add_argument("--cases", type=int, default=1000, help="the number of cases of each format")
    parser.add_argument("--seed", type=int, default=None, help="the seed (default: a new one, printed)")
    parser.add_argument("--case", type=int, default=None, help="run only the case with this number")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--shrink", type=int, default=5, help="how many mismatches of each format to shrink")
    arguments = parser.parse_args()
    faulthandler.enable()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    formats = arguments.format or FORMATS
    print(f"seed {seed}", flush=True)
    session = _session()
    try:
        with quiet(session):
            fuzz = Fuzz(session, shrinks=arguments.shrink, tell=lambda text: print(f"\n{text}\n", flush=True))
            if arguments.case is not None:
                case = case_of(formats[0], seed, arguments.case)
                found = fuzz.compared(case)
                print(story(case, found))
                return 1 if found.mismatches else 0
            numbers = range(arguments.first, arguments.first + arguments.cases)
            return max([_many(fuzz, name, seed, numbers) for name in formats], default=0)
    finally:
        session.stop()


def _many(fuzz: Fuzz, format_name: str, seed: int, numbers: range) -> int:
    print(f"\n{format_name}", flush=True)
    tally = Tally()
    try:
        for number in range(numbers.start, numbers.stop, _PROGRESS):
            fuzz.run(format_name, seed, range(number, min(number + _PROGRESS, numbers.stop)), tally)
            print(
                f"  {tally.cases} cases, {tally.files} files, {tally.seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    except KeyboardInterrupt:
        print("interrupted")
    print("\n".join(tally.lines()), flush=True)
    return 1 if tally.unknown else 0


def _session() -> SparkSession:
    remember_names()
    return (
        SparkSession.builder.master("local[2]")
        .appName("flip27-source fuzz")
        # For thousands of small jobs the second compiler costs more than it gains.
        .config("spark.driver.extraJavaOptions", BRIEF_JVM)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


if __name__ == "__main__":
    sys.exit(main())
