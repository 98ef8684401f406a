"""Pages: for each, its template and what is in it. Reads through ``sources``, and writes nothing."""

from __future__ import annotations

import itertools
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup

from flip27_source._version import __version__
from flip27_source.errors import Flip27Error, MissingStateError
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.snapshots.offsets import readable_position
from flip27_source.state_tables.history import COMPLETE, ORPHAN, PENDING, Ancestry, StoredSplit, stored_text
from flip27_source.state_tables.predicates import Predicate
from flip27_source.state_tables.split_listing import Cursor, Page, list_splits
from flip27_source.state_tables.split_rows import LIVE, QUARANTINED, WAITING, ShownStatus
from flip27_source.state_tables.views import VIEWS

from ..rendering import counted
from ..state.diff import Point, changes
from ..watch.facts import RUNBOOK, facts
from ..watch.remarks import remarks
from ..watch.standing import edit_said
from ..watch.view import Batch, bounds_of
from . import words
from .edit_forms import value_of
from .sources import Source, Sources

BATCHES, SPLITS = 30, 100
"""How many are on a page."""
MOST_DRAWN = 24
"""The tasks in the picture of a batch."""
MOST_ROWS = 500
"""The longest table of a page without pages: differences, subtasks."""
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTimeLine:
    """A batch on the time line, in milliseconds since the first batch there was planned.

    Attributes:
        end_ms: when the next batch was planned, before which this one was complete; now, if it is not known
            to be complete; None for a complete one without a next one.
    """

    name: CheckpointName
    status: str
    batch: Batch
    start_ms: int
    end_ms: int | None


class Pages:
    """Makes HTML of what is found.

    Args:
        hide: masks secrets in a text.
        interval_s: how often the page asks for news; None in a report, which has no links either.
        looks_with: the options with which sources themselves are asked; None: they are not.

    Attributes:
        ask_token: what a request has to contain that asks a source itself, so that no other site can do it.
    """

    def __init__(
        self,
        sources: Sources,
        hide: Callable[[str], str],
        interval_s: float | None,
        *,
        looks_with: Mapping[str, str] | None = None,
    ) -> None:
        self.sources = sources
        self.looks_with = looks_with
        self.ask_token = secrets.token_urlsafe(16)
        self._interval_s = interval_s
        self.hide = hide
        self._text = words.finalizer(hide)
        self._jinja = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            finalize=self._text,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._jinja.filters["cut"] = self._cut
        self._jinja.globals.update(
            words=words,
            hide=hide,
            counted=counted,
            remarks=remarks,
            facts=facts,
            link=self._link,
            version=__version__,
            ask_token=None if looks_with is None or interval_s is None else self.ask_token,
            form_token=None,
            value_of=value_of,
            RUNBOOK=RUNBOOK,
        )

    def allow_edits(self, form_token: str) -> None:
        """Show where edits begin; ``form_token``: what every form that is posted has to contain."""
        self._jinja.globals["form_token"] = form_token

    def is_open(self, text: str) -> bool:
        """Whether a text has no secret in it."""
        return self.hide(text) == text

    def _cut(self, value: Any, most: int) -> str:
        """The beginning of a text, cut off once its secrets are masked: a part of one would be shown."""
        text: str = self._text(value)
        return text if len(text) <= most else f"{text[:most]} ..."

    def _link(self, text: Any, path: str, **query: Any) -> Markup:
        """A link; only its text in a report, and if the URL would contain a secret."""
        shown = self._text(text)
        if self._interval_s is None or any(self.hide(value) != value for value in map(str, query.values())):
            return Markup("{}").format(shown)
        url = path + ("?" + urlencode(query, errors="surrogatepass") if query else "")
        return Markup('<a href="{}">{}</a>').format(url, shown)

    def render(self, template: str, **context: Any) -> str:
        about = {"now": self.sources.at, "interval_s": self._interval_s, "source": None}
        text = self._jinja.get_template(template).render({**about, **context})
        return text.encode(errors="backslashreplace").decode()

    def overview(self) -> str:
        return self.render("overview.html", **self.all_sources())

    def all_sources(self) -> dict[str, Any]:
        found = self.sources.found
        counts = Counter(source.frame.condition or "unknown" for source in found)
        return {"sources": found, "unread": self.sources.unread, "counts": counts}

    def page(self, key: str, view: str, query: Mapping[str, str]) -> str:
        """A page of one source.

        Raises:
            MissingStateError: there is no such source, view or batch.
            Flip27Error: the state cannot be read.
        """
        source = self.sources.source(key)
        make = VIEWS_OF_A_SOURCE.get(view)
        if source is None or make is None:
            raise MissingStateError("this page does not exist", remedy="begin at the overview")
        return self.render("source.html", source=source, view=view, query=query, **make(self, source, query))

    def batches(self, source: Source, query: Mapping[str, str]) -> dict[str, Any]:
        line = source.history.line()
        names = list(reversed(line.names))
        before = query.get("before", "")
        first = next((i for i, name in enumerate(names) if str(name.checkpoint_id) == before), 0)
        # With the one that was planned next: its time shows how long the newest one here took.
        found = list(self.sources.batches(source, names[max(0, first - 1) : first + BATCHES]))
        shown = list(self._on_time_line(found, line))
        shown_ends = (at.end_ms or at.start_ms + (at.batch.slowest_ms or 1) for at in shown)
        return {
            "shown": shown[1:] if first else shown,
            "whole_ms": max(shown_ends, default=1),
            "older": names[first + BATCHES] if len(names) > first + BATCHES else None,
            "newer": first > 0,
            "phases": {item.checkpoint_id: item for item in source.written},
            "total": len(names),
        }

    def _on_time_line(
        self, found: Sequence[tuple[CheckpointName, Batch]], line: Ancestry
    ) -> Iterator[OnTimeLine]:
        planned = [batch.row["created_at"] for _, batch in found]
        ends = [None if found and line.status[found[0][0]] == COMPLETE else self.sources.at, *planned]
        for (name, batch), end in zip(found, ends, strict=False):
            start_ms, end_ms = (
                None if at is None else round((at - planned[-1]).total_seconds() * 1000)
                for at in (batch.row["created_at"], end)
            )
            status = line.status[name]
            yield OnTimeLine(name=name, status=status, batch=batch, start_ms=start_ms or 0, end_ms=end_ms)

    def batch(self, source: Source, query: Mapping[str, str]) -> dict[str, Any]:
        history, line = source.history, source.history.line()
        name = _named(line, query.get("checkpoint", ""))
        document = history.document(name)
        found = dict(self.sources.batches(source, [name]))
        if document is None or name not in found:
            raise _cleaned_up(name)
        counts = {
            item.subtask: history.split_count(name, document, item.splits) for item in document.raw.plan
        }
        slowest_first = sorted(counts, key=lambda n: -found[name].reports.get(n, {}).get("duration_ms", 0))
        raw, summary = document.raw, history.summary(name)
        frame = replace(source.frame, checkpoint_id=name.checkpoint_id, **bounds_of(document, summary))
        return {
            "name": name,
            "status": line.status[name],
            "batch": found[name],
            "subtasks": slowest_first[:MOST_ROWS],
            "drawn": sorted(sorted(counts, key=found[name].reports.__contains__)[:MOST_DRAWN]),
            "counts": counts,
            "remarks": remarks(frame),
            "edits": [edit_said(edit) for edit in raw.edits],
            "to_readers": {item.subtask: len(item.events) for item in raw.plan if item.events},
            "actions": list(itertools.islice(VIEWS["actions"].rows(history), MOST_ROWS))
            if name == line.names[-1]
            else [],
            "took": None
            if line.status[name] == ORPHAN
            else next((item for item in source.written if item.checkpoint_id == name.checkpoint_id), None),
            "is_open": _gateways(found[name], line.status[name]),
            "summary": summary,
            "parent": document.parent if document.parent in line.status else None,
            "page": list_splits(history, Cursor.parse(query.get("at", "")), SPLITS, only=name),
            "of": found,
        }

    def checkpoints(self, source: Source, query: Mapping[str, str]) -> dict[str, Any]:
        history, line = source.history, source.history.line()
        names = line.orphans_first[::-1]
        shown = list(self.sources.batches(source, names))
        compared = None
        if "before" in query and "after" in query:
            points = [self._point(source, line, query[which]) for which in ("before", "after")]
            compared = list(itertools.islice(changes(*points), MOST_ROWS + 1))
        default = {"after": str(names[0]), "before": str(names[min(1, len(names) - 1)])} if names else {}
        chosen = {**default, **{k: v for k, v in query.items() if k in default}}
        return {
            "shown": shown,
            "status": line.status,
            "compared": compared,
            "most": MOST_ROWS,
            "chosen": chosen,
            "identity": history.source(),
            "phases": {item.checkpoint_id: item for item in source.written},
        }

    @staticmethod
    def _point(source: Source, line: Ancestry, text: str) -> Point:
        name = _named(line, text)
        document = source.history.document(name)
        if document is None:
            raise _cleaned_up(name)
        return Point(history=source.history, name=name, document=document)

    def splits(self, source: Source, query: Mapping[str, str]) -> dict[str, Any]:
        history, text, status = source.history, query.get("name") or None, query.get("status", "")
        statuses = [status] if status in {*ShownStatus} else []
        head = history.newest()
        found: dict[str, Any] = {
            "statuses": [*ShownStatus],
            "status": status,
            "name": text or "",
            "live": None,
        }
        if status == QUARANTINED:
            found["page"] = None
        elif status == LIVE and head is not None:
            start = Cursor.parse(query.get("at", "")).offset
            stored, names = head[1].raw.ledger.live, head[1].raw.position_names
            live = [raw for raw in stored if stored_text(text) in bytes(raw)]
            rows = map(StoredSplit.of, live[start : start + SPLITS])
            found["live"] = [(split, readable_position(dict(split.fields), names)) for split in rows]
            found["page"] = Page(after=Cursor("", start + SPLITS) if start + SPLITS < len(live) else None)
        else:
            at = Cursor.parse(query.get("at", ""))
            found["page"] = list_splits(history, at, SPLITS, text=text, statuses=statuses)
            found["of"] = self._batches_of(source, found["page"])
        return found

    def _batches_of(self, source: Source, page: Page) -> dict[CheckpointName, Batch]:
        names = {item.name for item in page.splits if item.name is not None}
        return dict(self.sources.batches(source, sorted(names)))

    def progress(self, source: Source, query: Mapping[str, str]) -> dict[str, Any]:
        """The tables that the enumerator tells, and those of a look into the source; each in pages."""
        frame, text = source.frame, query.get("name", "")
        shown = []
        for number, table in enumerate(frame.tables):
            rows = [row for row in table.rows if text in str(row[0])]
            first = _whole(query.get(f"from{number}", ""))
            shown.append((number, table, rows[first : first + SPLITS], first, len(rows)))
        head = source.history.newest()
        live = [] if head is None or not shown else map(StoredSplit.of, head[1].raw.ledger.live)
        return {
            "shown": shown,
            "name": text,
            "live": {split.split_id: split for split in live},
            "slowest": None if frame.horizon is None else frame.horizon.slowest,
            "page_rows": SPLITS,
        }

    def split(self, source: Source, query: Mapping[str, str]) -> dict[str, Any]:
        split_id = query.get("id", "")
        asked = Predicate(split_ids=frozenset([split_id]), text=query.get("with") or None)
        rows = [row for row in VIEWS["splits"].rows(source.history, asked) if row["split_id"] == split_id]
        files = [row for row in VIEWS["files"].rows(source.history, asked) if row["split_id"] == split_id]
        if not rows:  # a DiscoveringEnumerator holds it, and no batch has had it
            waiting = list_splits(source.history, Cursor(), MOST_ROWS, text=asked.text, statuses=[WAITING])
            found = (item.split for item in waiting.splits if item.split.split_id == split_id)
            unknown = dict.fromkeys(column.name for column in VIEWS["splits"].columns)
            rows = [
                {**unknown, "split_id": split_id, "status": WAITING, "split": split.text} for split in found
            ]
        if not rows:
            raise MissingStateError(
                f"no retained checkpoint has the split {split_id}",
                remedy="search for it by a part of its name",
            )
        names = {name.checkpoint_id: name for name in source.history.line().names}
        tables = [(table, row) for table in source.frame.tables for row in table.rows if row[0] == split_id]
        of = dict(
            self.sources.batches(
                source,
                [
                    name
                    for name in names.values()
                    if name.checkpoint_id in {row["checkpoint_id"] for row in files[-MOST_ROWS:]}
                ],
            )
        )
        return {"rows": rows, "files": files[::-1][:MOST_ROWS], "names": names, "tables": tables, "of": of}

    def quarantine(self, source: Source, query: Mapping[str, str]) -> dict[str, Any]:
        rows = list(VIEWS["quarantine"].rows(source.history))
        losses = list(VIEWS["losses"].rows(source.history))
        head = source.history.newest()
        ignored = [] if head is None else head[1].raw.ledger.ignored
        return {
            "rows": rows[::-1][:SPLITS],
            "total": len(rows),
            "losses": losses[::-1],
            "ignored": [(StoredSplit.of(item.split).split_id, item) for item in ignored][::-1],
        }

    def report(self) -> str:
        """Everything about all sources in one file, without scripts; splits only as numbers."""
        parts = [(source, list(self._parts(source))) for source in self.sources.found]
        style = (HERE / "static" / "style.css").read_text(encoding="utf-8")
        return self.render("report.html", style=Markup(style), parts=parts, **self.all_sources())

    def _parts(self, source: Source) -> Iterator[Markup]:
        for view in ("batches", "progress", "quarantine", "checkpoints"):
            try:
                made = VIEWS_OF_A_SOURCE[view](self, source, {})
            except Flip27Error as error:
                yield Markup("<p>{}</p>").format(self._text(f"{view}: {error.what}"))
                continue
            text = self.render(f"{view}_part.html", view=view, query={}, **{**made, "source": source})
            yield Markup(text)


VIEWS_OF_A_SOURCE: Mapping[str, Callable[[Pages, Source, Mapping[str, str]], dict[str, Any]]] = {
    "batches": Pages.batches,
    "batch": Pages.batch,
    "checkpoints": Pages.checkpoints,
    "splits": Pages.splits,
    "split": Pages.split,
    "progress": Pages.progress,
    "quarantine": Pages.quarantine,
}


def _gateways(batch: Batch, status: str) -> Callable[[int], bool]:
    """Which gateways are open after a batch was planned: that of a subtask that has reported."""
    reports = batch.row["report_demand"] != "none"
    return lambda subtask: status != PENDING or (reports and subtask in batch.reports)


def _named(line: Ancestry, text: str) -> CheckpointName:
    name = CheckpointName.parse(text)
    if name is None or name not in line.status:
        raise MissingStateError(
            f"there is no checkpoint {text[:80]}",
            remedy="clean-up removes the oldest ones: choose a retained one",
        )
    return name


def _whole(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else 0


def _cleaned_up(name: CheckpointName) -> MissingStateError:
    return MissingStateError(
        f"clean-up has removed checkpoint {name.checkpoint_id}", remedy="choose a newer one"
    )
