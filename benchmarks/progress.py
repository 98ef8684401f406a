"""Progress of a benchmark: a line for what begins and for what was measured, and the time that has passed."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console


class Progress:
    """Prints lines as they come; also where no terminal shows them.

    Args:
        clock: seconds, from wherever.
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
