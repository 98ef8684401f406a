"""Edits on the page: a form, the real dry run, a typed confirmation, and then what becomes of the request.

Only with ``--allow-edits``. Whatever is posted is answered by leading the browser to a page of its own, so
that going back or loading again sends nothing twice; a dry run that was confirmed is not submitted again.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from flip27_source import edits
from flip27_source.coordination.edit_values import AppliedEdit, EditOperation
from flip27_source.edits.dry_run import EditPlan, editable, own_name
from flip27_source.edits.rechecks import differences
from flip27_source.edits.state_copy import StateCopy
from flip27_source.edits.submitted import fates, submit_all
from flip27_source.errors import EditError, Flip27Error, MissingStateError
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.state_tables.split_rows import FINISHED, LIVE, QUARANTINED, WAITING

from .edit_forms import Form, plans_of, value_of
from .pages import MOST_ROWS, Pages
from .sources import Source

KeptT = TypeVar("KeptT")
Views = Mapping[str, Callable[[Source, Mapping[str, str]], str]]
"""Pages of a source, each made from the query of its URL."""
Posts = Mapping[str, Callable[[Source, Form], str]]
"""Answers to forms: each the URL of the page that comes then."""
_MOST_CHANGES, _PER_DRY_RUN = 1_000_000, 10_000
"""How many changes the dry runs that are kept may have; each run counts as some more, for what was typed."""
_MOST_SENT = 10
"""How many of the requests of a form are above the list of all."""
_STATUSES: Mapping[EditOperation, tuple[str, ...]] = {
    EditOperation.SET_POSITION: (LIVE,),
    EditOperation.SKIP: (WAITING, LIVE),
    EditOperation.REPLAY: (FINISHED,),
    EditOperation.FORGET: (FINISHED,),
    EditOperation.QUARANTINE_RETRY: (QUARANTINED,),
    EditOperation.QUARANTINE_DROP: (QUARANTINED,),
    EditOperation.REWIND: (),
}
"""The status of the splits that a form of an operation shows."""
ABOUT: Mapping[EditOperation, str] = {
    EditOperation.SET_POSITION: "Move live splits, such as partitions of Kafka, to other positions.",
    EditOperation.REPLAY: "Read splits of retained batches again, as they were.",
    EditOperation.REWIND: "Return the whole source to its state after a retained checkpoint.",
    EditOperation.SKIP: "Never read splits that wait, and nothing more of splits that are live.",
    EditOperation.QUARANTINE_RETRY: "Try to read quarantined splits again.",
    EditOperation.QUARANTINE_DROP: "Never read quarantined splits.",
    EditOperation.FORGET: "Forget splits, so that discovery finds them again, as they are now.",
}


class Kept(Generic[KeptT]):
    """The newest things of which pages are shown, by random ids, as long as they are ``most`` together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._adding = threading.Lock()
        self._kept: OrderedDict[str, tuple[KeptT, int]] = OrderedDict()

    def add(self, item: KeptT, size: int = 1) -> str:
        key = secrets.token_urlsafe(9)
        with self._adding:
            self._kept[key] = item, size
            while len(self._kept) > 1 and sum(size for _, size in self._kept.values()) > self._most:
                self._kept.popitem(last=False)
        return key

    def get(self, key: str) -> KeptT | None:
        return self._kept.get(key, (None, 0))[0]


@dataclass(slots=True)
class DryRun:
    """What a form has asked for, and what would happen.

    Attributes:
        key: of its source. error: why there is nothing to confirm. moved: what is different from a dry run
            before it, which was confirmed too late.
        submitted: the ids of the requests that were submitted.
        is_begun: whether more may have been: the answer of a store may be lost.
        changed: how many splits would be changed.
    """

    key: str
    operation: EditOperation
    form: Form
    plans: list[EditPlan] = field(default_factory=list)
    error: Flip27Error | None = None
    moved: list[str] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    is_begun: bool = False
    changed: int = 0

    def has(self, plans: list[EditPlan]) -> None:
        self.plans = plans
        changes = (change for plan in plans for change in plan.changes)
        self.changed = len({change.split_id for change in changes if not change.is_left_alone})

    @property
    def changes(self) -> int:
        return sum(len(plan.changes) for plan in self.plans)

    @property
    def word(self) -> str:
        """What has to be typed to confirm it."""
        request = self.plans[0].request
        if self.operation is EditOperation.REWIND:
            return f"rewind to {(request.checkpoint or '').partition('-')[0]}"
        return f"{self.operation} {self.changed}"

    @property
    def is_done(self) -> bool:
        return bool(self.plans) and len(self.submitted) == len(self.plans)


class EditPages:
    """Pages of edits, and answers to their forms: those of one place not for several threads at once."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._runs: Kept[DryRun] = Kept(_MOST_CHANGES)
        self._notices: Kept[str] = Kept(100)
        self._answered: dict[str, dict[CheckpointName, tuple[AppliedEdit, ...]]] = {}
        self.views: Views = {"edits": self.edits, "edit": self.edit, "plan": self.plan}
        self.posts: Posts = {
            "dry-run": self.post_dry_run,
            "confirm": self.post_confirm,
            "withdraw": self.post_withdraw,
        }

    def edits(self, source: Source, query: Mapping[str, str]) -> str:
        """What can be edited, and what has become of every request."""
        editable(source.history.lineage)
        found = fates(source.history, self._answered.setdefault(source.key, {}))
        sent = [word for word in query.get("sent", "").split(",") if word]
        return self._rendered(
            source,
            "edits",
            query,
            fates=found[:MOST_ROWS],
            sent=[item for item in found if any(item.request_id.startswith(word) for word in sent)],
            notice=self._notices.get(query.get("said", "")),
            most=_MOST_SENT,
            about=ABOUT,
        )

    def edit(self, source: Source, query: Mapping[str, str]) -> str:
        """The form of one operation; ``again`` has what was typed before."""
        editable(source.history.lineage)
        again = self._runs.get(query.get("again", ""))
        operation = _operation(query.get("operation", "") if again is None else again.operation)
        begun = {name: [query[name]] for name in ("split", "checkpoint") if name in query}
        form = Form(begun) if again is None else again.form
        # Live splits come before the first of further pages.
        statuses = _STATUSES[operation][: 1 if "at" in query else 2]
        lists = {status: self._pages.splits(source, {**query, "status": status}) for status in statuses}
        if QUARANTINED in lists:
            lists[QUARANTINED] = self._pages.quarantine(source, {})
        # Those that are ticked first; a split of several batches once, as in the newest.
        rows = dict.fromkeys(form.ticked, "")
        for split_id, where in (row for status, found in lists.items() for row in _rows(status, found)):
            rows[split_id] = rows.get(split_id) or where
        known = self._known(source) if operation is EditOperation.SET_POSITION else {}
        page = next((found["page"] for found in lists.values() if found.get("page")), None)
        return self._rendered(
            source,
            "edit_form",
            query,
            title=operation,
            operation=operation,
            about=ABOUT[operation],
            rows=[self._row(split_id, where, form, known) for split_id, where in rows.items()],
            page=page,
            form=form,
            which=form["which"] or "ticked",
            who=form["who"] or own_name(),
            error=None if again is None else again.error,
            moved=() if again is None else again.moved,
            checkpoints=[row for _, row in self._checkpoints(source)] if not statuses else [],
        )

    def _known(self, source: Source) -> dict[Any, dict[str, Any]]:
        """What the source and a look into it tell of splits, such as where a partition begins and ends."""
        known: dict[Any, dict[str, Any]] = {}
        for table in source.frame.tables:
            for split_id, *cells in table.rows:
                known.setdefault(split_id, {}).update(zip(table.columns[1:], cells, strict=False))
        return known

    def _row(
        self, split_id: str, where: str, form: Form, known: Mapping[Any, dict[str, Any]]
    ) -> dict[str, Any]:
        """A split in a form; it cannot be ticked if its name contains a secret."""
        value = value_of(split_id)
        return {
            "split_id": split_id,
            "where": where,
            "known": known.get(split_id, {}),
            "value": value if self._pages.is_open(split_id) else None,
            "is_ticked": split_id in form.ticked,
            "to": form.own_positions.get(split_id, ""),
        }

    def _checkpoints(self, source: Source) -> list[tuple[CheckpointName, Any]]:
        names = source.history.line().names[-2::-1]
        return [(name, batch.row) for name, batch in self._pages.sources.batches(source, names)]

    def plan(self, source: Source, query: Mapping[str, str]) -> str:
        """What a dry run has shown, and the field that confirms it."""
        run = self._run(source.key, query)
        shown = itertools.islice((change for plan in run.plans for change in plan.changes), MOST_ROWS)
        return self._rendered(
            source,
            "edit_plan",
            query,
            title=f"dry run: {run.operation}",
            id=query["id"],
            run=run,
            changes=list(shown),
            total=run.changes,
            notes=list(dict.fromkeys(note for plan in run.plans for note in plan.notes)),
            newest=source.frame.checkpoint_id,
            is_wrong="wrong" in query,
        )

    def _rendered(self, source: Source, view: str, query: Mapping[str, str], **found: Any) -> str:
        return self._pages.render("source.html", source=source, view=view, query=query, **found)

    def _run(self, key: str, query: Mapping[str, str]) -> DryRun:
        run = self._runs.get(query.get("id", ""))
        if run is None or run.key != key:
            raise MissingStateError(
                "this dry run is no longer known", remedy="make it again: begin at the page Edits"
            )
        return run

    def post_dry_run(self, source: Source, form: Form) -> str:
        """Make a dry run, which changes nothing."""
        run = DryRun(source.key, _operation(form["operation"]), form)
        return self._ran(source, run)

    def _ran(self, source: Source, run: DryRun) -> str:
        try:
            run.has(plans_of(run.operation, run.form, _copy(source)))
        except Flip27Error as error:
            run.error = error
            return url_of(source, "edit", again=self._runs.add(run, _PER_DRY_RUN))
        return url_of(source, "plan", id=self._runs.add(run, _PER_DRY_RUN + run.changes))

    def post_confirm(self, source: Source, form: Form) -> str:
        """Submit what a dry run has shown, unless it would do something else by now."""
        at = {"id": form["id"]}
        run = self._run(source.key, at)
        if not run.is_done:
            if " ".join(form["word"].lower().split()) != run.word:
                return url_of(source, "plan", **at, wrong=1)
            own = tuple(plan.request.request_id for plan in run.plans)
            if run.is_begun:
                run.submitted = [
                    fate.request_id for fate in fates(source.history, {}) if fate.request_id in own
                ]
            copy = _copy(source)
            left = [plan for plan in run.plans if plan.request.request_id not in run.submitted]
            moved = [
                said
                for plan in left
                for said in differences(replace(plan, waiting=(*plan.waiting, *own)), copy)
            ]
            if moved and run.submitted:  # a new dry run would shift those again
                raise EditError(
                    f"{len(run.submitted)} of {len(run.plans)} edits were submitted; of the others: "
                    + "; ".join(moved),
                    remedy="see on the page Edits what has become of them, and make a dry run of the others",
                )
            if moved:
                return self._ran(source, DryRun(run.key, run.operation, run.form, moved=moved))
            run.is_begun = True
            run.submitted.extend(submit_all(left))
        return url_of(source, "edits", sent=",".join(item[:8] for item in run.submitted[: _MOST_SENT + 1]))

    def post_withdraw(self, source: Source, form: Form) -> str:
        """Withdraw a request that waits, or delete one that has failed."""
        lineage = editable(source.history.lineage)
        try:
            said = edits.withdraw(
                form["request"],
                state=str(lineage.parent),
                lineage=lineage.folder,
                storage_options=source.place.stored.files.options,
            ).said
        except EditError as error:
            said = str(error)
        return url_of(source, "edits", said=self._notices.add(said))


def _copy(source: Source) -> StateCopy:
    return StateCopy(editable(source.history.lineage), source.place.stored.files.options)


def _operation(text: str) -> EditOperation:
    try:
        return EditOperation(text)
    except ValueError:
        raise MissingStateError(
            f"there is no edit {text[:80]!r}", remedy="choose one at the page Edits"
        ) from None


def _rows(status: str, found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The splits of a page, each with what is known of it."""
    if status == QUARANTINED:
        return [(row["split_id"], row["error"] or "") for row in found["rows"]]
    if found["live"] is not None:
        return [(split.split_id, position) for split, position in found["live"]]
    return [(item.split.split_id, item.status) for item in found["page"].splits]


def url_of(source: Source, view: str, **query: Any) -> str:
    return f"/s/{source.key}/{view}?{urlencode(query)}"
