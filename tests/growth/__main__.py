"""``make growth``: the CPU time of every reader option for one, two and four times as many rows.

Prints each case. Fails if four times the rows take more than ``--limit`` times as long as twice the rows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from .cases import Case, cases

_FEW_MS = 60.0
"""A shorter time cannot be measured reliably, so more rows are read."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make growth", description=__doc__)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--rows", type=int, default=500, help="the fewest rows (default: %(default)s)")
    parser.add_argument("--most-rows", type=int, default=8_000, help="the most rows (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=3.0, help="the largest ratio (default: %(default)s)")
    arguments = parser.parse_args()
    chosen = [case for case in cases() if arguments.only in case.name]
    slow = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in chosen:
            ratio, shown = _measured(case, Path(folder), arguments.rows, arguments.most_rows)
            is_slow = ratio > arguments.limit
            slow += is_slow
            print(f"{'SLOW' if is_slow else 'ok  '} {ratio:5.1f}  {shown}  {case.name}", flush=True)
    print(f"{len(chosen)} cases, {slow} grow faster than their input")
    return 1 if slow else 0


def _measured(case: Case, folder: Path, rows: int, most_rows: int) -> tuple[float, str]:
    """The ratio of the times at the last doubling, and the measured times as text."""
    times = [_cpu_ms(case, folder, rows), _cpu_ms(case, folder, 2 * rows)]
    sizes = [rows, 2 * rows]
    while len(times) < 3 or (times[-1] < _FEW_MS and sizes[-1] < most_rows):
        sizes.append(2 * sizes[-1])
        times.append(_cpu_ms(case, folder, sizes[-1]))
    shown = " ".join(f"{size}:{ms:.0f}ms" for size, ms in zip(sizes[-3:], times[-3:], strict=True))
    return (times[-1] / times[-2] if times[-1] >= _FEW_MS else 0.0), shown


def _cpu_ms(case: Case, folder: Path, rows: int) -> float:
    """The CPU time of the faster of two runs."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        work = case.work(Path(place) / "in", rows)
        found = []
        for _ in range(2):
            begun = time.process_time()
            work()
            found.append((time.process_time() - begun) * 1000)
    return min(found)


if __name__ == "__main__":
    sys.exit(main())
