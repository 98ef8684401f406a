"""Horizons: what bounds the batches of a run in event time from outside of its splits, and its I/O.

That is the group of the source, whose members are other processes, and its replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..coordination.checkpoints import PendingCheckpoint
from ..coordination.groups import Group, Member
from ..coordination.horizon import SetsHorizon
from ..coordination.replay import Replay
from ..log import LOG
from ..source import Source
from ..source_options import ALIGNMENT_GROUP, ALIGNMENT_TIMEOUT, MAX_EVENT_TIME_DRIFT, REPLAY_SPEED
from .background import BackgroundRunner
from .environment import Environment
from .group_files import GroupFiles

_BEATS = 4
"""How often a member shows within ``alignmentTimeout`` that it is alive."""

_LEAST_TIMEOUT_S = 1.0
"""A shorter one is for splits: a source shows no more often that it is alive."""

_PAUSE_S = 0.2


@dataclass(eq=False, repr=False)
class Horizons:
    """The group of one source, from a restored state on, and its replay, which is that of the whole run."""

    _environment: Environment
    _group: Group | None
    _replay: Replay | None
    _files: GroupFiles | None = None
    _beats: BackgroundRunner | None = None
    _has_warned: bool = field(default=False, init=False)

    @classmethod
    def of(cls, source: Source, environment: Environment, before: Horizons | None) -> Horizons:
        """A member joins its group here; a replay goes on that has begun in this run.

        Args:
            before: those of a state that was restored before in this run.

        Raises:
            OptionError: a group is named, and there is no place for its records.
        """
        options = source.options
        steady_ms = environment.steady_ms()
        name, drift_s, speed = options[ALIGNMENT_GROUP], options[MAX_EVENT_TIME_DRIFT], options[REPLAY_SPEED]
        timeout_s = max(options[ALIGNMENT_TIMEOUT], _LEAST_TIMEOUT_S)
        application = None if name is None else environment.application_folder()
        group = files = beats = None
        if name is not None and application is not None:
            run = environment.new_random()
            drift_us = None if drift_s is None else round(drift_s * 1_000_000)
            group = Group(run, source.uid, steady_ms, drift_us, round(timeout_s * 1000))
            files, beats = GroupFiles(application, name, run), environment.new_runner()
        replay = None
        if speed is not None:
            replay = None if before is None else before._replay
            replay = replay or Replay(speed, (steady_ms, environment.now_ms() * 1000))
            replay.others = tuple if group is None else group.paces
            replay.timeout_ms = round(timeout_s * 1000)
        horizons = cls(environment, group, replay, files, beats)
        if beats is not None:
            beats.repeat(horizons._beat, timeout_s / _BEATS)
        return horizons

    @property
    def all(self) -> Sequence[SetsHorizon]:
        return [one for one in (self._group, self._replay) if one is not None]

    def before_planning(self, lineage: str | None) -> None:
        """Read what the other members have published.

        ``lineage``: of the checkpoints; None before the first one.
        """
        if self._group is None or self._files is None:
            return
        self._group.lineage = lineage
        records: list[Member] = []
        with self._warning():
            records = self._files.read()
        self._group.seen(records, self._environment.steady_ms())

    def planned(self, pending: PendingCheckpoint[Any] | None, lineage: str | None) -> None:
        """A batch was planned and is durable, or nothing was planned: publish where this member is.

        ``lineage``: as for :meth:`before_planning`.
        """
        if self._group is not None and self._files is not None:
            self._group.lineage = lineage
            pace = None if self._replay is None else self._replay.own
            with self._warning():
                self._files.write(self._group.record(self._environment.steady_ms(), pace))
        if self.all and pending is not None and not pending.snapshot.plan.assignments:
            # A run that ends once all is read goes on with batches without data, but not one after the other.
            self._environment.pause(_PAUSE_S)

    def close(self) -> None:
        """Leave the group."""
        if self._beats is not None:
            self._beats.close()
        if self._files is not None:
            self._files.close()

    def _beat(self) -> None:
        """On a thread, so also while a batch takes long, or while the query waits for its trigger."""
        assert self._files is not None, "only a member shows that it is alive"
        with self._warning():
            self._files.beat(self._environment.steady_ms())

    @contextmanager
    def _warning(self) -> Iterator[None]:
        """Without its folder a group has no members: nobody waits for another."""
        try:
            yield
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                LOG.warning("the records of the %s cannot be kept: %s", ALIGNMENT_GROUP.name, error)
