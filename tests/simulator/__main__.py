"""``python -m tests.simulator``: play many seeds and count defects, or log one seed."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from .simulation import LIVES, Outcome, simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="number of seeds to play")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, default=None, help="play only this seed, and print its log")
    parser.add_argument("--life", choices=sorted(LIVES), help="play only lives of this kind")
    parser.add_argument("--stop", action="store_true", help="stop at the first seed with a defect")
    given = parser.parse_args()
    logging.getLogger("flip27_source").setLevel(logging.CRITICAL)
    if given.seed is not None:
        return _tell(simulate(given.seed, given.life))
    return _play(range(given.first, given.first + given.seeds), given.life, stop=given.stop)


def _tell(outcome: Outcome) -> int:
    for line in outcome.story:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"seed {outcome.seed} ({outcome.kind}): {outcome.defect or 'no defect'}\n")
    return int(outcome.defect is not None)


def _play(seeds: range, life: str | None, *, stop: bool) -> int:
    faults: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    defects: list[Outcome] = []
    began = time.monotonic()
    for number, seed in enumerate(seeds, 1):
        outcome = simulate(seed, life)
        faults += outcome.faults
        totals.update(
            steps=outcome.steps, batches=outcome.batches, rows=outcome.rows, lost=outcome.lost,
            duplicated=outcome.duplicated, stuck=int(outcome.stuck),
        )  # fmt: skip
        if outcome.defect is not None:
            defects.append(outcome)
            sys.stdout.write(f"seed {seed} ({outcome.kind}): {outcome.defect[:300]}\n")
            if stop:
                break
        if number % 1000 == 0:
            sys.stderr.write(
                f"{number} seeds, {len(defects)} with a defect, {time.monotonic() - began:.0f} s\n"
            )
    shown = "  ".join(f"{name} {count:,}" for name, count in sorted(faults.items()))
    sys.stdout.write(
        f"seeds {number:,}  steps {totals['steps']:,}  batches {totals['batches']:,}  "
        f"rows {totals['rows']:,}\n"
        f"faults: {shown or 'none'}\n"
        f"lost {totals['lost']:,}  duplicated {totals['duplicated']:,}  stuck {totals['stuck']:,}  "
        f"seeds with a defect {len(defects):,}  ({time.monotonic() - began:.0f} s)\n"
    )
    return int(bool(defects))


if __name__ == "__main__":
    sys.exit(main())
