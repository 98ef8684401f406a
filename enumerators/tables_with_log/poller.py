"""Polls a server over one connection, on a thread: what does not depend on the server."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from flip27_source.enumerators.tables_with_log.enumerator import RunMode
from flip27_source.errors import DataLossError, DiscoveryError
from flip27_source.options import Option, Options

LISTING_S = 10.0
"""Pause between two listings of the tables, which find new ones."""
_CUT_S = 2.0


def check_start(
    option: Option[Any], given: int, *, first: int, end: int, text: Callable[[int], str], later: str
) -> None:
    """Check that the log has the position that an option gives.

    Args:
        first, end: where the log begins and ends.
        text: writes a position as the option has it.
        later: what else a user can set if the log no longer has the position.
    """
    if given < first:
        raise DataLossError(
            f"option {option.name} is {text(given)}, and the log begins at {text(first)}",
            remedy=f"set {option.name}=earliest, or {later}; onDataLoss=report does not help",
        )
    if given > end:
        raise DiscoveryError(
            f"option {option.name} is {text(given)}, and the log ends at {text(end)}",
            remedy=f"set {option.name}=latest, or a position that the log has reached",
        )


class Closable(Protocol):
    def close(self) -> object:
        """Close it."""


StateT = TypeVar("StateT")
UncutT = TypeVar("UncutT")
TableT = TypeVar("TableT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesRequest(Generic[StateT, UncutT, TableT]):
    """What the next poll is to find out; immutable, because another thread reads it.

    Attributes:
        state: None until the first poll.
        cut: the tables of which bounds are missing.
        known: the tables that were found before.
    """

    state: StateT | None = None
    cut: tuple[UncutT, ...] = ()
    known: tuple[TableT, ...] = ()


ConnectionT = TypeVar("ConnectionT", bound=Closable)
RequestT = TypeVar("RequestT", bound=TablesRequest[Any, Any, Any])
ResultT = TypeVar("ResultT")


class ConnectedPoller(ABC, Generic[ConnectionT, RequestT, ResultT]):
    """Polls the server over one connection, which is opened again when it is lost.

    Args:
        report_data_loss: the method of the enumerator's context.
    """

    def __init__(self, options: Options, run: RunMode, *, report_data_loss: Callable[..., None]) -> None:
        self._options = options
        self._run = run
        self._report_data_loss = report_data_loss
        self._connection: ConnectionT | None = None
        self._list_after = 0.0

    def close(self) -> None:
        self._disconnect()

    def poll(self, request: RequestT) -> ResultT:
        """Query the server; if the connection is lost, the next call opens a new one."""
        try:
            if self._connection is None:
                self._connection, self._list_after = self._opened(request), 0.0
                self._greet(self._connection, request)
            return self._polled(self._connection, request)
        except BaseException:
            self._disconnect()
            raise

    @abstractmethod
    def _opened(self, request: RequestT) -> ConnectionT:
        """A new connection."""

    @abstractmethod
    def _greet(self, connection: ConnectionT, request: RequestT) -> None:
        """What is done once on each connection."""

    @abstractmethod
    def _polled(self, connection: ConnectionT, request: RequestT) -> ResultT:
        """The result of a poll."""

    @property
    def _is_listing_due(self) -> bool:
        return time.monotonic() >= self._list_after

    def _has_listed(self) -> None:
        self._list_after = time.monotonic() + LISTING_S

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _time_to_cut(self) -> Callable[[], bool]:
        """Whether there is time to cut tables: always in a bounded run, otherwise a short while from now."""
        deadline = time.monotonic() + _CUT_S
        return lambda: self._run.is_bounded or time.monotonic() < deadline
