"""Spans: what a batch, a task, a restore or a savepoint did, and when. Option ``tracing`` records them.

Only the standard library is needed to record them; ``span_sender`` passes them to OpenTelemetry, on a thread
of its own. A span has numbers, ids and names of classes, and never the text of an error, the name of a file
or the value of an option: these may have data or secrets in them.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .span_sender import sender

_CURRENT: ContextVar[Span | None] = ContextVar("flip27_span", default=None)


class Span:
    """A span, from its beginning on.

    Args:
        trace_id: 32 hex digits; None as long as the trace is not known: until :meth:`join`, this span and its
            parts wait.
        parent_id: the span that this one is part of, 16 hex digits.
        attributes: their names, with underscores in place of dots; those that are None are left out.

    Attributes:
        start_ns, end_ns: nanoseconds since the epoch; end_ns is 0 before the end.
        error: the name of the class of the error with which it ended.
    """

    def __init__(
        self, name: str, trace_id: str | None = None, parent_id: str | None = None, **attributes: object
    ) -> None:
        self.name = name
        self.trace_id = trace_id
        self.parent_id = parent_id
        self.span_id = secrets.token_hex(8)
        self.attributes = attributes
        self.start_ns = time.time_ns()
        self.end_ns = 0
        self.error: str | None = None
        self._began_ns = time.perf_counter_ns()
        self._waiting: list[Span] = []

    @classmethod
    def within(cls, traceparent: str, name: str, **attributes: object) -> Span:
        """A part of a span of another process (W3C Trace Context)."""
        _version, trace_id, parent_id, _flags = traceparent.split("-")
        return cls(name, trace_id, parent_id, **attributes)

    @property
    def traceparent(self) -> str:
        """This span, for its parts in other processes."""
        return f"00-{self.trace_id}-{self.span_id}-01"

    def join(self, trace_id: str) -> None:
        """The trace of this span is known now."""
        self.trace_id = trace_id
        for span in self._waiting:
            span.trace_id = trace_id
            sender().send(span)
        self._waiting.clear()

    @contextmanager
    def of_block(self) -> Iterator[None]:
        """The span ends with the block, and with its error."""
        token = _CURRENT.set(self)
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            _CURRENT.reset(token)
            self.end(error)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """The block is a part of this span."""
        span = Span(name, self.trace_id, self.span_id)
        try:
            with span.of_block():
                yield
        finally:
            self._waiting += span._waiting
            if self.trace_id is not None:
                self.join(self.trace_id)

    def end(self, error: BaseException | None = None) -> None:
        """The span ends now, and is sent as soon as its trace is known."""
        self.error = None if error is None else type(error).__name__
        self.end_ns = self.start_ns + time.perf_counter_ns() - self._began_ns
        self._waiting.append(self)
        if self.trace_id is not None:
            self.join(self.trace_id)


def add_to_current(**attributes: object) -> None:
    """Attributes of the span whose block this is in; nothing if there is none."""
    current = _CURRENT.get()
    if current is not None:
        current.attributes |= attributes


@contextmanager
def part_of_current(name: str) -> Iterator[None]:
    """A part of the span whose block this is in; nothing if there is none."""
    current = _CURRENT.get()
    if current is None:
        yield
        return
    with current.part(name):
        yield


def trace_id_of(text: str) -> str:
    """The id of the trace of what a text names: every process derives the same one."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def new_trace_id() -> str:
    """The id of a trace of its own."""
    return secrets.token_hex(16)
