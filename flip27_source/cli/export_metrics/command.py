"""``flip27 export-metrics``: an exporter for Prometheus that reads states and outlives queries. Read-only."""

from __future__ import annotations

import re
import signal
import threading
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console

from flip27_source.errors import OptionError
from flip27_source.file_systems.paths import redacted
from flip27_source.file_systems.secrets_in_texts import Hidden
from flip27_source.log import LOG
from flip27_source.metrics import export_to_prometheus
from flip27_source.optional_packages import needed
from flip27_source.options import integer

from ..commands import DONE, REFUSED, FileSystem, command, option, seconds, source_options, unusable
from ..rendering import Answer, Hide
from ..state.rows import Place, places_of
from .states import StateMetrics

group = typer.Typer()
_NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)
_STATE_FOLDER = "flip27"


@command(
    group,
    name="export-metrics",
    example="flip27 export-metrics --checkpoint-location orders=/ckpt/orders --port 4081",
    answers="an object, and nothing is served: samples (of one look, each with name, labels, value), unread "
    "(query, error).",
)
def export_metrics(
    state: Annotated[
        list[str] | None,
        option(
            "--state LOCATION",
            "A state location, or what else `state show` takes. NAME=LOCATION names the query; otherwise "
            "the last folder does. Repeatable.",
        ),
    ] = None,
    checkpoint: Annotated[
        list[str] | None,
        option(
            "--checkpoint-location",
            "A query's checkpointLocation, or NAME=LOCATION; its state is there or at a --state. Repeatable.",
        ),
    ] = None,
    port: Annotated[int, option("--port N", "The port; 0 for any free one.", integer(minimum=0))] = 4081,
    host: Annotated[
        str, option("--host", "The address; everyone who can reach another than loopback sees the numbers.")
    ] = "127.0.0.1",
    interval: Annotated[
        float, option("--interval SECONDS", "Pause between two looks at a state; at least 1.", seconds)
    ] = 15.0,
    once: Annotated[
        bool, option("--once", "Print what one look finds, in the form of Prometheus, and serve nothing.")
    ] = False,
    *,
    files: FileSystem,
) -> Answer:
    """Serve the metrics of queries to Prometheus from their states, also while the queries do not run."""
    places = _places(checkpoint or [], state or [], files)
    hidden = Hidden(source_options(None, files.storage))
    with needed(
        "prometheus_client",
        by="flip27 export-metrics",
        extra="prometheus",
        where="in this environment",
        error_type=OptionError,
    ):
        from prometheus_client import CollectorRegistry, generate_latest, start_http_server
    say = (lambda _: None) if once else LOG.warning
    metrics = StateMetrics(places, max(1.0, interval), hidden.in_text, say)
    registry = CollectorRegistry()
    export_to_prometheus(metrics, registry)
    ends = threading.Event()

    def serve(console: Console, _hide: Hide) -> None:
        try:
            server, thread = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            ends.set()
            raise unusable(host, port, error) from None
        # The first process of a container ignores this signal unless it has a handler.
        before = signal.signal(signal.SIGTERM, lambda *_: ends.set())
        name = f"[{host}]" if ":" in host else host
        console.print(f"http://{name}:{server.server_port}/metrics  (Ctrl-C ends it)", highlight=False)
        try:
            with suppress(KeyboardInterrupt):
                ends.wait()
        finally:
            ends.set()
            signal.signal(signal.SIGTERM, before)
            server.shutdown()
            server.server_close()
            thread.join()

    metrics.start(ends)
    samples = [
        {"name": sample.metric.name, "labels": dict(zip(sample.metric.labels, sample.labels, strict=True)),
         "value": sample.value}
        for sample in metrics.samples()
    ]  # fmt: skip
    unread = metrics.unread()
    if not once:
        return Answer(data={"samples": samples, "unread": unread}, shown=[serve])
    ends.set()
    return Answer(
        data={"samples": samples, "unread": unread},
        shown=[generate_latest(registry).decode()],
        notes=[item["error"] for item in unread],
        exit_code=REFUSED if unread else DONE,
    )


def _places(checkpoints: list[str], states: list[str], files: FileSystem) -> dict[str, Place]:
    """The locations by the names of their queries.

    Raises:
        OptionError: there is none, or two have the same name.
    """
    named = [_named(text) for text in (*checkpoints, *states)]
    names, at = [name for name, _ in named], [at for _, at in named]
    places = dict(zip(names, places_of(at[: len(checkpoints)], at[len(checkpoints) :], files), strict=True))
    if len(places) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise OptionError(
            f"two locations have the name {twice}, the label query of their metrics",
            remedy=f"name them: --state other-{twice}=LOCATION",
        )
    return places


def _named(text: str) -> tuple[str, str]:
    """The name of a query and its location."""
    if (found := _NAMED.fullmatch(text)) is not None:
        return found[1], found[2]
    parts = [part for part in redacted(text).split("/") if part and not part.endswith(":")]
    if len(parts) > 1 and parts[-1] == _STATE_FOLDER:
        parts.pop()
    return (parts[-1] if parts else text), text
