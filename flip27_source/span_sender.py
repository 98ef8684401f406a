"""SpanSender: passes spans to OpenTelemetry's exporter, on a thread of its own.

Nobody waits for it: OpenTelemetry is imported on that thread, spans that a collector does not take are dropped
and counted, and every failure is a warning in the log, once. Spans are sent when they end, because most
processes of Spark are killed at the end.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .errors import Flip27Error, RegistryError
from .log import LOG
from .optional_packages import needed

if TYPE_CHECKING:
    from .spans import Span

MOST_WAITING = 2048
"""Maximum number of spans that wait to be sent; further ones are dropped."""
MOST_AT_ONCE = 512
LONGEST_WAIT_S = 1.0
"""How long a process that is about to end waits for its spans to be sent, at most."""
_THREAD = "flip27-spans"
_SCOPE = "flip27_source"

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
        self._is_started = False
        # Nobody waits for a collector that does not answer.
        self._is_given_up = False
        self._warned = False
        self.dropped = 0

    def send(self, span: Span) -> None:
        """Send a span that has ended, at some time. Runs on any thread."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self.dropped += 1
                return
            self._waiting.append(span)
            self._changed.notify_all()
            if not self._is_started:
                self._is_started = True
                threading.Thread(target=self._run, name=_THREAD, daemon=True).start()

    def flush(self, timeout_s: float = LONGEST_WAIT_S) -> None:
        """Wait until all spans are sent. A collector that did not answer in time is not waited for again,
        until it has taken spans.
        """
        with self._changed:
            done = self._changed.wait_for(
                lambda: self._is_given_up or not (self._waiting or self._sending), timeout_s
            )
            self._is_given_up |= not done

    def _run(self) -> None:
        export: Export | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                spans = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
                self._sending = len(spans)
            error: BaseException | None = None
            try:
                export = export or self._connect()
                is_sent = export(spans)
            except Exception as raised:  # noqa: BLE001 - whatever it is, the query goes on without spans
                is_sent, error = False, raised
            self._sent(is_sent, error)

    def _sent(self, is_sent: bool, error: BaseException | None) -> None:
        with self._changed:
            self.dropped += 0 if is_sent else self._sending
            self._sending = 0
            self._is_given_up = not is_sent
            self._changed.notify_all()
        if not is_sent and not self._warned:
            LOG.warning(
                "spans cannot be sent to the collector and are dropped; the query goes on without them: %s",
                (error if isinstance(error, Flip27Error) else type(error).__name__)
                if error is not None
                else "look at OTEL_EXPORTER_OTLP_ENDPOINT in this process, and at the collector",
            )
        self._warned = not is_sent


@functools.cache
def sender() -> SpanSender:
    """The sender of this process."""
    return SpanSender(opentelemetry_export)


def check_installed() -> None:
    """Find what :func:`opentelemetry_export` imports.

    Raises:
        RegistryError: it is not installed, or a variable names an exporter that is not.
    """
    with needed("opentelemetry-sdk", by="option tracing", extra="otel"):
        import opentelemetry.sdk  # noqa: F401 - only whether it is there
    _exporter_entry()


def _exporter_entry() -> Any:
    """The entry point of the exporter that the standard variables name; None for none at all."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").partition(",")[0].strip() or "otlp"
    if name == "none":
        return None
    if name == "otlp":
        protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(
            "OTEL_EXPORTER_OTLP_PROTOCOL", ""
        )
        name = "otlp_proto_grpc" if protocol.strip() == "grpc" else "otlp_proto_http"
    found = entry_points(group="opentelemetry_traces_exporter", name=name)
    if not found:
        raise RegistryError(
            f"option tracing needs OpenTelemetry's exporter {name}, which is not installed",
            remedy="pip install 'flip27-source[otel]' on the driver and on every executor node; for gRPC also "
            "opentelemetry-exporter-otlp-proto-grpc; or set OTEL_TRACES_EXPORTER to an exporter that is installed",
        )
    return next(iter(found))


def opentelemetry_export() -> Export:
    """An exporter, and all else, as OpenTelemetry's own environment variables say.

    Raises:
        Exception: any, of the packages of OpenTelemetry.
    """
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.trace.id_generator import IdGenerator

    entry = _exporter_entry()
    if entry is None:
        return lambda _spans: True
    exporter = entry.load()()
    # Its own errors would be in the log for each attempt, with parts of the requests.
    logging.getLogger(type(exporter).__module__).addFilter(lambda record: record.threadName != _THREAD)
    ended: list[ReadableSpan] = []

    class Ended(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            ended.append(span)

    class Given(IdGenerator):
        trace_id = span_id = ""

        def generate_trace_id(self) -> int:
            return int(self.trace_id, 16)

        def generate_span_id(self) -> int:
            return int(self.span_id, 16)

    resource = Resource.create({"host.name": socket.gethostname()})
    if str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: _SCOPE}))
    ids = Given()
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(Ended())
    tracer = provider.get_tracer(_SCOPE, __version__)

    def context_of(span: Span) -> Context:
        """What the span is part of. Each process decides by the trace's id, and alike, whether it is sampled."""
        if span.parent_id is None:
            return Context()
        trace_id = int(str(span.trace_id), 16)
        is_sampled = provider.sampler.should_sample(None, trace_id, span.name).decision.is_sampled()
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if is_sampled else trace.TraceFlags.DEFAULT)
        parent = trace.SpanContext(trace_id, int(span.parent_id, 16), is_remote=True, trace_flags=flags)
        return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())

    def export(spans: list[Span]) -> bool:
        ended.clear()
        for span in spans:
            ids.trace_id, ids.span_id = str(span.trace_id), span.span_id
            attributes: dict[str, Any] = {
                f"flip27.{name}": value for name, value in span.attributes.items() if value is not None
            }
            made = tracer.start_span(
                span.name, context_of(span), attributes=attributes, start_time=span.start_ns
            )
            if span.error is not None:
                made.set_attribute("error.type", span.error)
                made.set_status(trace.Status(trace.StatusCode.ERROR, span.error))
            made.end(span.end_ns)
        return not ended or exporter.export(ended) is SpanExportResult.SUCCESS

    return export
