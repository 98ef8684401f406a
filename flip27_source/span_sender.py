"""SpanSender: passes spans to OpenTelemetry's exporter, on a thread of its own.

Nobody waits for it: OpenTelemetry is imported on that thread, spans that a collector does not take are
dropped, and a failure is a warning in the log, once. Spans are sent when they end, because Spark kills most
of its processes.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from .errors import Flip27Error, RegistryError
from .log import LOG
from .optional_packages import needed

if TYPE_CHECKING:
    from .spans import Span

MOST_WAITING = 2048
"""Maximum number of spans that wait to be sent; further ones are dropped."""
MOST_AT_ONCE = 512
LONGEST_WAIT_S = 1.0
"""How long a process that is about to end waits for the collector, at most."""
LONGEST_IMPORT_S = 10.0
"""How long it waits for the import of OpenTelemetry before, at most."""
_NOT_TAKEN = "look at the collector, and at OTEL_EXPORTER_OTLP_ENDPOINT in this process"
_THREAD = "flip27-spans"

Export = Callable[[list["Span"]], bool]


class SpanSender:
    """The spans of this process that are to be sent.

    Args:
        connect: returns what exports spans, and returns whether the collector has them. Runs on the thread.
    """

    def __init__(self, connect: Callable[[], Export]) -> None:
        self._connect = connect
        self._changed = threading.Condition()
        self._waiting: deque[Span] = deque()
        self._sending = 0
        self._is_started = self._is_connected = False
        # Nobody waits for a collector that does not answer.
        self._is_given_up = False
        self._has_warned = False
        self.dropped = 0

    def send(self, span: Span) -> None:
        """Send a span that has ended, at some time. Runs on any thread."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self.dropped += 1
                return
            self._waiting.append(span)
            self._changed.notify_all()
        self.start()

    def start(self) -> None:
        """Start the thread, which imports OpenTelemetry, unless it was started."""
        with self._changed:
            is_started, self._is_started = self._is_started, True
        if not is_started:
            try:
                threading.Thread(target=self._run, name=_THREAD, daemon=True).start()
            except RuntimeError as error:  # the process may not have more threads
                self._sent(error)

    def flush(self) -> None:
        """Wait until all spans are sent. A collector that did not answer in time is not waited for again,
        until it has taken spans.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_connected or self._is_given_up, LONGEST_IMPORT_S)
            is_over = self._changed.wait_for(lambda: self.is_idle or self._is_given_up, LONGEST_WAIT_S)
            self._is_given_up |= not is_over

    @property
    def is_idle(self) -> bool:
        """Whether no span waits or is being sent."""
        return not self._waiting and self._sending == 0

    def _run(self) -> None:
        try:
            export = self._connect()
        except Exception as error:  # noqa: BLE001 - whatever it is, the query goes on without spans
            self._sent(error)
            return
        with self._changed:
            self._is_connected = True
            self._changed.notify_all()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                spans = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
                self._sending = len(spans)
            try:
                self._sent(None if export(spans) else _NOT_TAKEN)
            except Exception as error:  # noqa: BLE001 - as above
                self._sent(error)

    def _sent(self, error: Exception | str | None) -> None:
        """The collector has taken spans, or has not."""
        with self._changed:
            self.dropped += 0 if error is None else self._sending
            self._sending = 0
            self._is_given_up = error is not None
            self._changed.notify_all()
        if error is not None and not self._has_warned:
            # The text of an error of a package may have the headers of a request.
            known = error if isinstance(error, str | Flip27Error) else type(error).__name__
            LOG.warning("spans cannot be sent and are dropped, and the query goes on without them: %s", known)
        self._has_warned = error is not None


@functools.cache
def sender() -> SpanSender:
    """The sender of this process."""
    return SpanSender(_connected)


def _connected() -> Export:
    with needed("opentelemetry-sdk", by="option tracing", extra="otel"):
        from .otel_spans import OpenTelemetrySpans
    return OpenTelemetrySpans(quiet=_THREAD).export


def check_installed() -> None:
    """Find the packages that sending needs, without the time that their import takes.

    Raises:
        RegistryError: they are not installed.
    """
    with needed("opentelemetry-sdk", by="option tracing", extra="otel"):
        import opentelemetry.sdk  # noqa: F401 - a namespace: its modules are imported by the thread
    exporter_entry()


def exporter_entry() -> EntryPoint | None:
    """The exporter that the variables name; None if they want none.

    Raises:
        RegistryError: it is not installed.
    """
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").partition(",")[0].strip() or "otlp"
    if name == "none":
        return None
    if name == "otlp":
        for_all = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
        protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or for_all
        name = "otlp_proto_grpc" if protocol.strip() == "grpc" else "otlp_proto_http"
    found = entry_points(group="opentelemetry_traces_exporter", name=name)
    if not found:
        raise RegistryError(
            f"option tracing needs OpenTelemetry's exporter {name}, which is not installed",
            remedy="pip install 'flip27-source[otel]' on the driver and on every executor node; for gRPC "
            "also opentelemetry-exporter-otlp-proto-grpc; or name another exporter by OTEL_TRACES_EXPORTER",
        )
    return next(iter(found))
