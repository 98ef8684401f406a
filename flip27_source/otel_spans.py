"""OpenTelemetrySpans: exports spans as OpenTelemetry's own environment variables say.

This is the only module that imports OpenTelemetry for spans; ``span_sender`` imports it on its thread.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import EntryPoint
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision

from ._version import __version__
from .span_sender import exporter_entry
from .spans import Span

_OWN_SESSION = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
)
"""OpenTelemetry's variables that name what makes the session."""
_MOST_READ = 4096
SCOPE = "flip27_source"
"""Name of the tracer (OpenTelemetry's instrumentation scope), and of the service if no variable names one."""


class _GivenIds(IdGenerator):
    """The ids of the span that is exported."""

    span: Span

    def generate_trace_id(self) -> int:
        return int(str(self.span.trace_id), 16)

    def generate_span_id(self) -> int:
        return int(self.span.span_id, 16)


class _Ended(SpanProcessor):
    """The spans that have ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def _made(entry: EntryPoint) -> SpanExporter:
    kind: Callable[..., SpanExporter] = entry.load()
    has_own_session = any(os.environ.get(name) for name in _OWN_SESSION)
    if entry.name == "otlp_proto_http" and not has_own_session:
        with suppress(ImportError, TypeError):  # another version need not use requests
            return kind(session=_session())
    return kind()


def _session() -> Any:
    """A session that bounds answers: requests reads each to its end, and some collector's has none."""
    import requests

    class Bounded(requests.Session):
        def send(self, request: Any, **options: Any) -> Any:
            response = super().send(request, **options | {"stream": True})
            with response:  # one that is read to its end leaves its connection to the next request
                response.raw.read(_MOST_READ)
            if response.is_redirect and not options.get("allow_redirects", True):
                # The exporter would count the spans as sent.
                raise requests.TooManyRedirects("the collector sends elsewhere")
            return response

    return Bounded()


class OpenTelemetrySpans:
    """Exports spans.

    Args:
        quiet: the name of the thread whose failures the exporter does not log.

    Raises:
        RegistryError: the exporter that a variable names is not installed.
        Exception: any of the exporter, for example for a variable that it cannot read.
    """

    def __init__(self, quiet: str) -> None:
        entry = exporter_entry()
        self._exporter: SpanExporter | None = None if entry is None else _made(entry)
        # It would log each attempt, with parts of the requests.
        logger = logging.getLogger(type(self._exporter).__module__)
        logger.addFilter(lambda record: record.threadName != quiet)
        resource = Resource.create({"host.name": socket.gethostname()})
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: SCOPE}))
        self._ids = _GivenIds()
        self._ended = _Ended()
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(self._ended)
        self._tracer = self._provider.get_tracer(SCOPE, __version__)

    def export(self, spans: list[Span]) -> bool:
        """Whether the collector has the spans now; those that are not sampled are left out."""
        self._ended.spans.clear()
        for span in spans:
            self._make(span)
        ended = self._ended.spans
        if self._exporter is None or not ended:
            return True
        return self._exporter.export(ended) is SpanExportResult.SUCCESS

    def _make(self, span: Span) -> None:
        self._ids.span = span
        given: dict[str, Any] = {k: v for k, v in span.attributes.items() if v is not None}
        made = self._tracer.start_span(
            span.name,
            self._context_of(span),
            attributes={f"flip27.{name}": value for name, value in given.items()},
            start_time=span.start_ns,
        )
        if span.error is not None:
            made.set_attribute("error.type", span.error)
            made.set_status(trace.Status(trace.StatusCode.ERROR, span.error))
        made.end(span.end_ns)

    def _context_of(self, span: Span) -> Context:
        """What the span is part of. Every process decides alike, by the trace's id, whether it is sampled."""
        if span.parent_id is None:
            return Context()
        trace_id = int(str(span.trace_id), 16)
        decision = self._provider.sampler.should_sample(None, trace_id, span.name).decision
        is_sampled = decision is Decision.RECORD_AND_SAMPLE
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if is_sampled else trace.TraceFlags.DEFAULT)
        parent = trace.SpanContext(trace_id, int(span.parent_id, 16), is_remote=True, trace_flags=flags)
        return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())
