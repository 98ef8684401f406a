"""Remarks on a frame in sentences, the same in ``watch`` and on the page of ``ui``."""

from __future__ import annotations

from collections.abc import Iterator

from rich.filesize import decimal

from flip27_source.coordination.alignment import BatchHorizon
from flip27_source.coordination.batch_sizing import SizedLimits
from flip27_source.coordination.event_time_order import EventTimeProgress
from flip27_source.event_time import moment_of
from flip27_source.file_systems.url_credentials import masked

from ..rendering import counted
from .view import Frame


def remarks(frame: Frame) -> list[str]:
    """What limits the batches, and what the watermark needs; nothing if no option is about that."""
    return [*_limited(frame), *_sized(frame.sized), *_late(frame.event_time), *_held(frame.horizon)]


def _limited(frame: Frame) -> Iterator[str]:
    """A line on what has ended the batch, if something was left for the next one."""
    if frame.limited_by:
        most = " and ".join(_amount(name, limit) for name, limit in frame.limited_by.items())
        yield f"the batch of checkpoint {frame.checkpoint_id} was ended by its limit of {most}"


def _amount(name: str, number: int) -> str:
    """A number of files, rows or bytes."""
    return decimal(number) if name == "bytes" else counted(number, name.removesuffix("s"))


def _sized(limits: SizedLimits | None) -> Iterator[str]:
    """A line on the size of the newest batch, if batches size themselves."""
    if limits is None:
        return
    amounts = ((name, getattr(limits, name)) for name in ("files", "rows", "bytes"))
    most = " or ".join(_amount(name, number) for name, number in amounts if number is not None)
    yield f"batches of {limits.target_ms / 1000:g} s: at most {most} ({limits.reason})"


def _late(progress: EventTimeProgress | None) -> Iterator[str]:
    """A line on the watermark that the backlog needs, if it is read in event-time order."""
    if progress is None:
        return
    late = f"; {counted(progress.late, 'split')} found too late" if progress.late else ""
    delay_s = progress.smallest_delay_ms / 1000
    yield f"a watermark delay of {delay_s:g} s loses nothing of the backlog{late}"


def _held(horizon: BatchHorizon | None) -> Iterator[str]:
    """A line on how far in event time the newest batch was read, if that has a limit."""
    if horizon is None:
        return
    paused = f"; {counted(horizon.paused, 'split')} paused" if horizon.paused else ""
    until = moment_of(horizon.latest_us).isoformat(timespec="seconds")
    yield f"read until {until}, as {masked(horizon.slowest)} allows{paused}"
