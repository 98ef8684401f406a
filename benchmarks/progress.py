"""Progress of a benchmark: a line at the start and end of each step, with the time that has passed."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console


class Progress:
    """Prints each line at once, whether or not there is a terminal.

    Args:
        clock: returns seconds from an arbitrary start.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._began = clock()

    def say(self, line: str) -> None:
        """Print a line."""
        minutes, seconds = divmod(int(self._clock() - self._began), 60)
        hours, minutes = divmod(minutes, 60)
        passed = f"{hours}:{minutes:02}:{seconds:02}"
        self._console.print(f"{passed}  {line}", style="dim", highlight=False, markup=False, soft_wrap=True)
