"""BatchTraces: one trace for each batch, and the ids of the batch in the records of the log.

The spans ``plan``, ``write``, ``task``, ``commit`` and ``actions`` are parts of the span ``batch``, which
begins when the batch is planned and ends when it is complete. The id of the trace is derived from the lineage
and the checkpoint: after a crash the repeated batch, of another process, is a second span ``batch`` of the
same trace.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ..coordination.checkpoints import PendingCheckpoint
from ..snapshots.offsets import INITIAL_OFFSET, Offset
from ..source import Source
from ..source_options import TRACING
from ..span_sender import check_installed, sender
from ..spans import Span, new_trace_id, trace_id_of

_NOTHING: AbstractContextManager[None] = nullcontext()


class BatchTraces:
    """The batches of one run of a query.

    Args:
        one_batch: it is a batch read, of which only the planning is on the driver.

    Attributes:
        ids: what records of the log are about.

    Raises:
        RegistryError: option tracing is true, and OpenTelemetry is not installed.
    """

    def __init__(self, source: Source, *, one_batch: bool) -> None:
        self.ids: dict[str, Any] = {"source": source.uid}
        self._is_on = source.options[TRACING]
        self._name = "read" if one_batch else "batch"
        self._at = self._completed = INITIAL_OFFSET
        # The batch that is being planned, the one whose tasks run, and the one whose actions are due.
        self._next: Span | None = None
        self._batch: Span | None = None
        self._complete: Span | None = None
        self._actions: _Actions | None = None
        if self._is_on:
            check_installed()
            sender().start()

    def restoring(self, offset: Offset, *, savepoint: bool) -> AbstractContextManager[object]:
        """The block restores the state at an offset, or from a savepoint."""
        self.ids["checkpoint"] = offset.checkpoint_id
        if not self._is_on or (offset.is_initial and not savepoint):
            return _NOTHING
        checkpoint_id = offset.checkpoint_id
        return self._span("restore", new_trace_id(), checkpoint=checkpoint_id, savepoint=savepoint).of_block()

    def planning(self, checkpoint_id: int) -> AbstractContextManager[object]:
        """The block plans a checkpoint, or finds that there is nothing to read."""
        self.ids["checkpoint"] = checkpoint_id
        self.ids.pop("trace_id", None)
        if not self._is_on:
            return _NOTHING
        # Planning is repeated as long as discovery has not ended: only the last time counts.
        self._next = self._span(self._name, None, checkpoint=checkpoint_id)
        return self._next.part("plan")

    def planned_nothing(self) -> None:
        self._next = None

    @contextmanager
    def writing(self, pending: PendingCheckpoint[Any]) -> Iterator[None]:
        """The block makes a checkpoint durable."""
        batch, summary = self._next, pending.summary
        if batch is None:
            yield
            return
        # As in the log: sizes that are not known before the splits are read add up to 0.
        batch.attributes |= {
            "splits": summary.splits, "rows": summary.rows or None, "bytes": summary.bytes or None,
        }  # fmt: skip
        with batch.part("write"):
            yield

    def written(self, offset: Offset) -> None:
        """The checkpoint that was planned is durable: its batch begins."""
        self._begin(self._next, offset)
        self._next = None

    def parent_of_tasks(self, offset: Offset) -> str | None:
        """The batch that ends at an offset, for its tasks; this run may repeat it."""
        if not self._is_on:
            return None
        if self._batch is None or offset != self._at:
            repeated = self._span(self._name, None, checkpoint=offset.checkpoint_id, repeated=True)
            self._begin(repeated, offset)
        assert self._batch is not None
        return self._batch.traceparent

    def _begin(self, batch: Span | None, offset: Offset) -> None:
        self._at = offset
        self.ids["checkpoint"] = offset.checkpoint_id
        if batch is None:
            return
        self._end_batch(is_complete=False)
        self._batch = batch
        batch.join(_trace_of(offset))
        self.ids["trace_id"] = batch.trace_id

    @contextmanager
    def committing(self, offset: Offset) -> Iterator[None]:
        """The block processes the reports of the batch that ends at an offset: Spark has committed it."""
        self.ids["checkpoint"] = offset.checkpoint_id
        # After a failure in this run it is restored, and is complete again.
        if not self._is_on or offset == self._completed:
            yield
            return
        batch = self._batch if offset == self._at else None
        if batch is None:
            # An earlier run has read the batch.
            batch = self._span("batch", _trace_of(offset), checkpoint=offset.checkpoint_id, repeated=True)
            self._begin(batch, offset)
        with batch.part("commit"):
            yield
        self._end_batch(is_complete=True)
        self._complete, self._completed = batch, offset

    def _end_batch(self, *, is_complete: bool, error: BaseException | None = None) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            if self._name == "batch":
                batch.attributes["complete"] = is_complete
            batch.end(error)

    def failed(self, error: BaseException) -> None:
        """A call of Spark has failed: what it planned, or was to complete, has failed."""
        batch, self._next = self._next, None
        if batch is not None:
            lineage = self._at.lineage
            batch.join(
                new_trace_id() if lineage is None else _of_lineage(lineage, self._at.checkpoint_id + 1)
            )
            batch.attributes["complete"] = False
            batch.end(error)
        else:
            self._end_batch(is_complete=False, error=error)

    def acting(self, count: int) -> None:
        """So many side effects that are due after the last batch were started."""
        if self._actions is not None:
            before, offset = self._complete, self._at
            trace_id = _trace_of(offset) if before is None else before.trace_id
            parent_id = None if before is None else before.span_id
            new = self._span("actions", trace_id, parent_id, checkpoint=offset.checkpoint_id)
            self._actions.started(count, new)

    def performing(self, perform: Callable[[Any], None]) -> Callable[[Any], None]:
        """``perform``, for the actions of a new coordinator. The last action ends their span."""
        if not self._is_on:
            return perform
        self._end_actions()
        actions = self._actions = _Actions()

        def performed(action: Any) -> None:
            failed = 1
            try:
                perform(action)
                failed = 0
            finally:
                actions.ended(failed)

        return performed

    def _end_actions(self) -> None:
        if self._actions is not None:
            self._actions.end()

    def close(self) -> None:
        """The run is over. Its process may end at once, but that of a batch read goes on."""
        if self._is_on:
            self._end_actions()
            self._end_batch(is_complete=False)
            if self._name == "batch":
                sender().flush()

    def _span(self, name: str, trace_id: str | None, parent_id: str | None = None, **attributes: Any) -> Span:
        return Span(name, trace_id, parent_id, source=self.ids["source"], **attributes)


class _Actions:
    """The span of side effects that are performed on threads, from the first to the last of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._span: Span | None = None
        self._left = self._count = self._failed = 0

    def started(self, count: int, new: Span) -> None:
        """``new``: their span, if none is under way."""
        with self._lock:
            self._span = self._span or new
            self._left += count
            self._count += count

    def ended(self, failed: int) -> None:
        with self._lock:
            self._left -= 1
            self._failed += failed
            is_last = self._left == 0
        if is_last:
            self.end()

    def end(self) -> None:
        """No further action will end."""
        with self._lock:
            span, self._span = self._span, None
            if span is not None:
                span.attributes |= {"actions": self._count, "failed": self._failed}
                self._left = self._count = self._failed = 0
        if span is not None:
            span.end()


def _trace_of(offset: Offset) -> str:
    if offset.lineage is not None:
        return _of_lineage(offset.lineage, offset.checkpoint_id)
    return trace_id_of(json.dumps(offset.to_json(), sort_keys=True))


def _of_lineage(lineage: str, checkpoint_id: int) -> str:
    return trace_id_of(f"{lineage}/{checkpoint_id}")
