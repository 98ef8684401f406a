"""The http reader: pages of a JSON API, read on executors, each record in exactly one batch.

What lives here: the reader, the choice of the walk, and how a repeated batch gets the same rows.
:mod:`flip27_source.readers.http_api.client` makes the requests, and records become rows as the lines of the
json reader do. What must not live here: the meaning of positions, which belongs to the walks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.http_api.enumerator import ON_REMOVED_ENDPOINT, HttpSplit, endpoints_of
from flip27_source.errors import AccessError, SplitReadError
from flip27_source.events import Progress, ReturnSplit
from flip27_source.options import Option, Options
from flip27_source.reader import SourceReaderContext, SplitReader, YieldsProgress
from flip27_source.readers.files.line_blocks import LineBlock
from flip27_source.readers.files.text_options import CORRUPT_RECORD_COLUMN, MODE
from flip27_source.readers.http_api.client import HttpClient, imported_connections
from flip27_source.readers.http_api.options import AT_END, HTTP_OPTIONS, PAGINATION, check_http_options
from flip27_source.readers.http_api.pagination import ChainWalk, PageWalk, Step, Walk
from flip27_source.readers.http_api.since import SinceWalk
from flip27_source.readers.json_lines.rows import JsonRows
from flip27_source.source_checks import ChecksBeforeStart, ChecksSource, Finding
from flip27_source.source_options import PATH, TIME_ZONE

_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")
"""Line ends occur only between the tokens of a JSON text, because strings must escape them."""


def walk_of(options: Options, client: HttpClient) -> Walk:
    """The walk for the pagination that the options name."""
    walks: dict[str, type[Walk]] = {"page": PageWalk, "since": SinceWalk}
    return walks.get(options[PAGINATION], ChainWalk)(options, client)


class HttpReader(YieldsProgress, SplitReader[HttpSplit], ChecksBeforeStart, ChecksSource):
    """Reads the endpoints of a JSON API page by page.

    Args:
        pause: waits for a number of seconds; tests replace it.
        now_s: returns the time, in seconds since the epoch; tests replace it.
        most_requests: the most requests in a row without rows or progress.
    """

    loses_whole_splits: ClassVar[bool] = False
    options: ClassVar[tuple[Option[Any], ...]] = (*HTTP_OPTIONS, MODE, CORRUPT_RECORD_COLUMN, TIME_ZONE)

    @classmethod
    def check_before_start(cls, options: Options) -> None:
        """Check that requests is installed; the server may be down for a moment."""
        imported_connections()

    @classmethod
    def check_source(cls, options: Options) -> Iterator[Finding]:
        from flip27_source.readers.http_api.check import findings

        return findings(options, walk_of)

    def __init__(
        self,
        pause: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.time,
        most_requests: int = 10_000,
    ) -> None:
        self._pause = pause
        self._now_s = now_s
        self._most_requests = most_requests
        self._client: HttpClient | None = None

    def open(self, context: SourceReaderContext) -> None:
        super().open(context)
        options = context.options
        check_http_options(options)
        self._client = HttpClient(
            options, pause=self._pause, now_s=self._now_s, most_requests=self._most_requests
        )
        self._walk = walk_of(options, self._client)
        self._rows = JsonRows(context, ())

    def read(self, split: HttpSplit) -> Iterator[pa.RecordBatch | Progress[HttpSplit]]:
        """The records from the position of ``split`` on, with a Progress after each page."""
        assert self._client is not None
        for item in self._read(split):
            self._client.requests_in_a_row = 0
            yield item

    def _read(self, split: HttpSplit) -> Iterator[pa.RecordBatch | Progress[HttpSplit]]:
        ends = self.context.end_positions
        if split.split_id in ends:
            yield from self._read_again(split, ends[split.split_id])
            return
        if self._is_given_up(split):
            raise ReturnSplit  # the enumerator knows whether this was planned before the endpoint was removed
        self._check_is_named(split)
        start = split
        for step in self._walk.steps(split):
            yield from self._marked(step)
            split = step.after
        # Finish only if this read found no rows: the end of a finished split has no row count, and a
        # repeated batch must return the same number of rows.
        if self.context.options[AT_END] == "finish" and split.count == start.count:
            for step in self._walk.steps_to_the_end(split):
                yield from self._marked(step)
                if step.records:
                    return
            yield Progress(None)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _read_again(
        self, split: HttpSplit, end: HttpSplit | None
    ) -> Iterator[pa.RecordBatch | Progress[HttpSplit]]:
        """The rows of an attempt that ended at ``end``, even if the page size has changed."""
        total = left = 0 if end is None else end.count - split.count
        try:
            self._check_is_named(split)
            for step in () if end is None else self._walk.steps_until(split, end):
                if records := step.records[: max(left, 0)]:
                    yield self._batch(replace(step, records=records))
                left -= len(step.records)
        except AccessError:
            if not self._is_given_up(split):
                raise
        if left > 0:
            self._lost(split, f"{left} of the {total} records of a batch that is read again cannot be read")
        elif left < 0:
            more = f"{-left} more records than before: the last are left out"
            self._lost(split, f"a batch that is read again has {more}")
        if end != split:
            yield Progress(end)

    def _lost(self, split: HttpSplit, what: str) -> None:
        self.context.report_data_loss(
            what,
            split_id=split.split_id,
            remedy="restart the query with onDataLoss=report, at least until this batch is complete: it then "
            "continues with the records that it can read, and the loss is recorded. No record is missing if "
            "an earlier attempt of the batch has written its rows",
        )

    def _marked(self, step: Step) -> Iterator[pa.RecordBatch | Progress[HttpSplit]]:
        if step.records:
            yield self._batch(step)
        yield Progress(step.after)

    def _batch(self, step: Step) -> pa.RecordBatch:
        lines = b"".join([record.translate(_LINE_ENDS) + b"\n" for record in step.records])
        try:
            return self._rows.batch(
                LineBlock(lines, ()), lambda number: f"{step.place}: record {step.first + number} of the page"
            )
        except SplitReadError as error:
            assert self._client is not None
            raise SplitReadError(self._client.masked(error.what), remedy=error.remedy) from None

    def _check_is_named(self, split: HttpSplit) -> None:
        """Raise AccessError if the credential would go to a server that the options do not name."""
        options, client = self.context.options, self._client
        assert client is not None
        if options[PATH] is None:  # the split comes from another enumerator
            return
        if not any(client.same_server(split.split_id, url) for url in endpoints_of(options)):
            raise AccessError(
                f"the state has the endpoint {client.shown(split.split_id)}, whose server no option names: "
                "no request is sent to that server",
                remedy="if the server is yours, set path or endpoints to the endpoint; a savepoint of an "
                "API that has moved needs pathRewrite",
            )

    def _is_given_up(self, split: HttpSplit) -> bool:
        options = self.context.options
        if options[ON_REMOVED_ENDPOINT] == "fail" or options[PATH] is None:
            return False
        return split.split_id not in endpoints_of(options)
