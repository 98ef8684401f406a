"""Environment: what the coordinator's process takes from the world. Tests hand in their own."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..snapshots.store import Store, open_store
from .action_runner import ActionRunner
from .background import BackgroundRunner


def _on_a_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="flip27-clean-up", daemon=True)
    thread.start()
    return thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Clock, randomness, threads and storage.

    Attributes:
        now_ms: the time, milliseconds since the epoch. new_random: 16 hex digits that nobody else has.
        cores: of the executors, as far as they are known.
        new_runner: runs asynchronous work of an enumerator.
        new_actions: performs actions by the function that it is given.
        run_beside: begins work beside the batches; what it returns is joined by whoever waits for the work.
        open_store: the store at a path or URL, with the options of its file system.
    """

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    new_random: Callable[[], str] = lambda: secrets.token_hex(8)
    cores: int = os.cpu_count() or 1
    new_runner: Callable[[], BackgroundRunner] = BackgroundRunner
    new_actions: Callable[[Callable[[Any], None]], ActionRunner] = ActionRunner
    run_beside: Callable[[Callable[[], None]], threading.Thread | None] = _on_a_thread
    open_store: Callable[[str, Mapping[str, Any]], Store] = open_store
