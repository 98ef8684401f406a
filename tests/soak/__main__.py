"""``make soak``: kills the driver at random points under load and counts what came out."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from .kill import Soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="how often the driver is killed")
    parser.add_argument("--seed", type=int, default=None, help="of the random points; printed")
    parser.add_argument("--life", type=float, default=2.0, help="longest life of a driver, in seconds")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="flip27-soak-") as folder:
        soak = Soak(
            root=Path(folder) / "query",
            options={"counters": "8", "rows": str(1200 * max(arguments.kills, 3)), "pageMs": "2",
                     "maxRowsPerSplit": "100", "taskReports": "auto"},
            settings={},
            quick={"pageMs": "0", "maxRowsPerSplit": "20000"},
            longest_life_s=arguments.life,
        )  # fmt: skip
        soak.root.mkdir()
        began = time.monotonic()
        kills = soak.driver_kills(arguments.kills, random.Random(seed))
        outcome = soak.outcome(kills)
    seconds = time.monotonic() - began
    print(
        f"kills {outcome.kills}  batches {outcome.batches}  rows {outcome.rows}  lost {outcome.lost}  "
        f"duplicated {outcome.duplicated}  events: {outcome.audit}  {seconds:.0f} s"
    )
    return 0 if outcome.is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
