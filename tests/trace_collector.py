"""A collector of traces that tests run: it receives OTLP over HTTP on this machine, shows them as text."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.deadline import until

_ORDER = ("plan", "write", "task", "commit", "savepoint", "actions")
_SHOWN = (
    "source", "checkpoint", "repeated", "splits", "batch_id", "subtask", "attempt", "rows", "actions",
    "failed", "complete", "savepoint",
)  # fmt: skip


class Collector:
    """What the collector has received.

    Attributes:
        spans: the spans, in the order in which they came. resources: the attributes of their processes.
        bodies: the requests, as bytes.
        answers: while it is not set, requests wait for their answers.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()
        self.status = 200
        self.url = ""

    def received(self, body: bytes) -> None:
        self.bodies.append(body)
        request = ExportTraceServiceRequest.FromString(body)
        for of_process in request.resource_spans:
            self.resources.append(values(of_process.resource.attributes))
            for of_scope in of_process.scope_spans:
                self.spans += of_scope.spans

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def tree(self, *roots: str) -> str:
        """The traces, in the order of their beginnings, once this many spans of these names are there.

        Args:
            roots: the spans without a parent that have to be there, in any order; a name for each.
        """
        wanted = sorted(roots)
        until(lambda: sorted(span.name for span in self.spans if not span.parent_span_id) == wanted,
              lambda: self.names)  # fmt: skip
        return tree(self.spans)


def tree(spans: list[Span]) -> str:
    """Traces as text: a span a line, its parts indented, traces separated by an empty line."""
    traces: dict[bytes, list[Span]] = {}
    for span in sorted(spans, key=lambda span: span.start_time_unix_nano):
        traces.setdefault(span.trace_id, []).append(span)
    return "\n\n".join("\n".join(_lines(spans)) for spans in traces.values())


def _lines(spans: list[Span]) -> Iterator[str]:
    ids = {span.span_id for span in spans}
    orphans = [span for span in spans if span.parent_span_id and span.parent_span_id not in ids]
    if orphans:
        yield "(a span that was not received)"
        yield from _under(orphans, spans)
    yield from _under([span for span in spans if not span.parent_span_id], spans, depth=0)


def _under(some: list[Span], spans: list[Span], depth: int = 1) -> Iterator[str]:
    for span in sorted(some, key=_place):
        yield "  " * depth + line_of(span)
        yield from _under([part for part in spans if part.parent_span_id == span.span_id], spans, depth + 1)


def _place(span: Span) -> tuple[Any, ...]:
    """Tasks run at the same time; everything else has an order."""
    known = values(span.attributes)
    rank = _ORDER.index(span.name) if span.name in _ORDER else -1
    return rank, known.get("flip27.subtask", 0), known.get("flip27.attempt", 0), span.start_time_unix_nano


def line_of(span: Span) -> str:
    known = values(span.attributes)
    shown = [f"{name}={known[f'flip27.{name}']}" for name in _SHOWN if f"flip27.{name}" in known]
    if span.status.code == Status.STATUS_CODE_ERROR:
        shown.append(f"error={known['error.type']}")
    return " ".join([span.name, *shown])


def values(attributes: Any) -> dict[str, Any]:
    """Attributes by their names."""
    return {item.key: getattr(item.value, str(item.value.WhichOneof("value"))) for item in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector, as long as the block runs."""
    collector = Collector()

    class Receives(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.asked.set()
            collector.answers.wait()
            if collector.status == 200:
                collector.received(body)
            self.send_response(collector.status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receives) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            collector.answers.set()
            server.shutdown()
            thread.join()
