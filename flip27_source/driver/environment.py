"""Environment: clock, randomness, threads and storage of the coordinator's process. Tests pass their own."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..snapshots.store import Store, open_store
from .background import ActionRunner, BackgroundRunner
from .group_files import application_folder


def _on_a_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="flip27-clean-up", daemon=True)
    thread.start()
    return thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The dependencies of the coordinator's process.

    Attributes:
        now_ms: returns the time in milliseconds since the epoch; it may go back when a clock is set.
        steady_ms: returns a time in milliseconds that never goes back, to measure how long something takes.
        new_random: returns 16 unique hex digits.
        process: returns the id of this process, for messages to other drivers.
        cores: the default parallelism: the driver's cores, because those of the executors are not known.
        new_runner: creates a runner for an enumerator's asynchronous work.
        new_actions: creates a runner that performs actions with the given function.
        run_in_background: starts work; the caller joins the returned thread to wait for it.
        pause: blocks for some seconds.
        application_folder: returns the folder of this Spark application; None: there is no application, so a
            group has no other members.
        open_store: opens the store at a path or URL, with the options of its file system.
    """

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    new_random: Callable[[], str] = lambda: secrets.token_hex(8)
    process: Callable[[], int] = os.getpid
    cores: int = os.cpu_count() or 1
    new_runner: Callable[[], BackgroundRunner] = BackgroundRunner
    new_actions: Callable[[Callable[[Any], None]], ActionRunner] = ActionRunner
    run_in_background: Callable[[Callable[[], None]], threading.Thread | None] = _on_a_thread
    pause: Callable[[float], None] = time.sleep
    application_folder: Callable[[], str | None] = application_folder
    open_store: Callable[[str, Mapping[str, Any]], Store] = open_store
