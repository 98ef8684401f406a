"""What ``flip27 check`` finds about an HTTP API: one request for the first page of its first endpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from flip27_source.enumerators.http_api.enumerator import HttpSplit, endpoints_of
from flip27_source.errors import AccessError
from flip27_source.options import Options
from flip27_source.readers.http_api import options as opts
from flip27_source.readers.http_api.client import HttpClient
from flip27_source.readers.http_api.pagination import Walk
from flip27_source.source_checks import Finding, ok

_ANSWER_S = 10.0


def findings(options: Options, walk_of: Callable[[Options, HttpClient], Walk]) -> Iterator[Finding]:
    """The finding about the first page, as the reader takes it: with the credential, and its records."""
    opts.check_http_options(options)
    timeout_s = min(_ANSWER_S, options[opts.REQUEST_TIMEOUT])
    options = options.with_values({opts.HTTP_RETRIES: 0, opts.REQUEST_TIMEOUT: timeout_s})
    endpoints = endpoints_of(options)
    client = HttpClient(options, pause=time.sleep, now_s=time.time, most_requests=1)
    with closing(client):
        said = f"GET {client.shown(endpoints[0])} is answered"
        if len(endpoints) > 1:
            said += f" (the first of {len(endpoints)} endpoints; the others were not asked)"
        try:
            step = next(walk_of(options, client).steps(HttpSplit(split_id=endpoints[0])), None)
        except AccessError:
            if client.requests_in_a_row == 1:
                raise
            step = None  # the page was empty, and the next one was not requested
    count = 0 if step is None else len(step.records)
    yield ok("endpoint", f"{said}: {count} record{'s' * (count != 1)} on the first page")
