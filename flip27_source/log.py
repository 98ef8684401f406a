"""The logger of the library, which everything that runs in Spark's processes logs to.

Each record says what it is about: its attribute ``flip27`` has the ids of the source, the checkpoint and the
task, and its attributes ``trace_id`` and ``span_id`` those of option ``tracing``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from .errors import OptionError

LOG = logging.getLogger("flip27_source")

LEVEL_VARIABLE = "FLIP27_LOG_LEVEL"
_OF_SPANS = ("trace_id", "span_id")
_ids: ContextVar[Mapping[str, Any]] = ContextVar("flip27_ids", default=MappingProxyType({}))


@contextmanager
def about(ids: Mapping[str, Any]) -> Iterator[None]:
    """Records of the block, and of threads that copy its context, have these ids, and those of outer blocks.

    Args:
        ids: they are read when a record is made, so they may change meanwhile.
    """
    token = _ids.set(ids)
    try:
        yield
    finally:
        _ids.reset(token)


def ids_of_records() -> Mapping[str, Any]:
    """The ids that records have here."""
    return _ids.get()


def set_ids_of_records(ids: Mapping[str, Any]) -> None:
    """As :func:`about`, until it is set again: for generators, whose blocks may end in any order."""
    _ids.set(ids)


class _NamesIds(logging.Filter):
    """Adds the ids to each record, and to texts those that the record has not given itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        ids, given = _ids.get(), getattr(record, "flip27", {})
        record.flip27 = {**ids, **given}
        for name in _OF_SPANS:
            setattr(record, name, ids.get(name))
        shown = " ".join(f"{name}={value}" for name, value in ids.items() if name not in given)
        record.flip27_ids = shown and f" [{shown}]"
        return True


LOG.addFilter(_NamesIds())


def apply_log_level() -> None:
    """Set the log level to FLIP27_LOG_LEVEL, if it is set; without other handlers, log to standard error.

    Spark starts the processes of a source and does not configure Python's logging there.

    Raises:
        OptionError: FLIP27_LOG_LEVEL is not a level of Python's logging.
    """
    level = os.environ.get(LEVEL_VARIABLE, "")
    if not level:
        return
    try:
        LOG.setLevel(level.upper())
    except ValueError as error:
        raise OptionError(
            f"the environment variable {LEVEL_VARIABLE} is {level!r}, which is not a Python logging level",
            remedy=f"set {LEVEL_VARIABLE} to DEBUG, INFO, WARNING or ERROR, or unset it",
        ) from error
    if not LOG.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(
            logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s%(flip27_ids)s")
        )
        LOG.addHandler(handler)
