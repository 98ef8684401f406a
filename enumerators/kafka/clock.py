"""Clock: the time that the enumerator uses; tests and the simulator have clocks of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A clock.

    Attributes:
        now_s: seconds since an arbitrary moment; never goes back.
        wait_s: waits for the given number of seconds.
    """

    now_s: Callable[[], float] = time.monotonic
    wait_s: Callable[[float], None] = time.sleep
