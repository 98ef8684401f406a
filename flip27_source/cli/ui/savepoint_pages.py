"""Savepoints on the page: taken by a button as ``flip27 savepoint create`` does, and listed with claims.

Only with ``--allow-edits``. A savepoint waits for its query on a thread of its own; the page shows how far.
"""

from __future__ import annotations

import datetime as dt
import secrets
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flip27_source import savepoints
from flip27_source.errors import Flip27Error, OptionError, StateLocationError, said_of
from flip27_source.file_systems.paths import canonical_path, redacted
from flip27_source.snapshots.request_mailbox import check_target

from .edit_forms import Form
from .edit_pages import Kept, Posts, Views, url_of
from .pages import Pages
from .sources import Source

if TYPE_CHECKING:
    from flip27_source.savepoints import SavepointEntry

_MOST_TAKEN, _MOST_LISTED = 50, 20
"""Of all sources; of each."""
_LISTED_S = 1.0
"""How long a page waits for a directory; the other pages of its source wait meanwhile."""
_TIMEOUT_S = 600.0


@dataclass(slots=True)
class Taken:
    """A savepoint that the page was asked for.

    Attributes:
        once: the id of the form that asked for it, which asks once.
        said: what it waits for. made, error: its end; both None while it waits.
    """

    key: str
    once: str
    to: str
    at: dt.datetime
    said: str = "begins"
    made: savepoints.CreatedSavepoint | None = None
    error: str | None = None

    @property
    def is_awaited(self) -> bool:
        return self.made is None and self.error is None

    def take(self, named: Mapping[str, Any], hide: Any) -> None:
        try:
            self.made = savepoints.create(to=self.to, timeout_s=_TIMEOUT_S, progress=self._says, **named)
        except Flip27Error as error:
            self.error = hide(str(error))
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self.error = f"a bug of flip27: {said_of(error, hide)}"

    def _says(self, text: str) -> None:
        self.said = text


@dataclass(eq=False)
class SavepointPages:
    """Pages of savepoints, and answers to their forms: those of one place not for several threads at once."""

    pages: Pages
    _taken: list[Taken] = field(default_factory=list)
    _listings: dict[tuple[str, str], Future[Sequence[SavepointEntry]]] = field(default_factory=dict)
    _listing: Any = field(default_factory=threading.Lock)
    _notices: Kept[str] = field(default_factory=lambda: Kept(100))

    @property
    def views(self) -> Views:
        return {"savepoints": self.savepoints}

    @property
    def posts(self) -> Posts:
        return {"savepoint": self.post_savepoint, "withdraw-savepoint": self.post_withdraw}

    def savepoints(self, source: Source, query: Mapping[str, str]) -> str:
        """The savepoints of a directory, those that were asked for, and the form for another one."""
        taken = [item for item in reversed(self._taken) if item.key == source.key]
        to = query.get("to", "").strip() or (taken[0].to if taken else "")
        awaited = {canonical_path(item.to) for item in taken if item.is_awaited}
        found: Sequence[SavepointEntry] = []
        error = None
        try:
            found = self._listed(source, to) if to else []
        except StateLocationError as refusal:
            # Until then the directory may not exist.
            error = None if canonical_path(to) in awaited else refusal
        return self.pages.render(
            "source.html",
            source=source,
            view="savepoints",
            query=query,
            to=redacted(to),
            found=found[::-1],
            error=error,
            taken=taken,
            # Whoever waits for one would take a copy if its request was withdrawn.
            pending=[item for item in savepoints.pending(**_named(source)) if item.target not in awaited],
            once=secrets.token_urlsafe(9),
            notice=self._notices.get(query.get("said", "")),
        )

    def _listed(self, source: Source, to: str) -> Sequence[SavepointEntry]:
        """The savepoints of a directory, listed on a thread of its own, once at a time.

        Raises:
            StateLocationError: it cannot be listed, or has not answered yet.
        """
        key, options = (source.key, to), source.place.stored.files.options
        with self._listing:
            listing = self._listings.get(key)
            if listing is None:
                self._listings = {at: other for at, other in self._listings.items() if not other.done()}
                if sum(at == source.key for at, _ in self._listings) < _MOST_LISTED:
                    listing = self._listings[key] = Future()
                    threading.Thread(target=_list, args=(listing, to, options), daemon=True).start()
        if listing is None or not wait([listing], _LISTED_S).done:
            raise StateLocationError(
                f"{redacted(to)} has not answered yet",
                remedy="wait: this page goes on asking; or check the network and the store",
            )
        with self._listing:
            self._listings.pop(key, None)
        return listing.result()

    def post_savepoint(self, source: Source, form: Form) -> str:
        """Take a savepoint, in the background."""
        to = form["to"]
        check_target(to)  # no password in it is shown, or part of a URL
        if form["once"] not in {item.once for item in self._taken}:
            taken = Taken(source.key, form["once"], to, self.pages.sources.at)
            self._taken.append(taken)
            del self._taken[:-_MOST_TAKEN]
            threading.Thread(
                target=taken.take, args=(_named(source), self.pages.hide), name="savepoint", daemon=True
            ).start()
        return url_of(source, "savepoints", to=to)

    def post_withdraw(self, source: Source, form: Form) -> str:
        try:
            said = savepoints.withdraw(form["request"], **_named(source)).withdrawn
        except StateLocationError as error:
            said = str(error)
        return url_of(source, "savepoints", said=self._notices.add(said))


def _list(listing: Future[Sequence[SavepointEntry]], to: str, options: Mapping[str, Any]) -> None:
    try:
        listing.set_result(savepoints.list_savepoints(to, options))
    except BaseException as error:  # noqa: BLE001 - raised for who waits
        listing.set_exception(error)


def _named(source: Source) -> dict[str, Any]:
    """The source in the form that functions of ``savepoints`` take."""
    lineage = source.history.lineage
    if lineage.parent is None:
        raise OptionError(
            f"the state of {lineage.name} is inside Spark's offset log, of which no savepoint can be taken",
            remedy="set stateLocation on a new query, or copy Spark's checkpoint",
        )
    return {
        "state": lineage.parent,
        "checkpoint": None if lineage.batches is None else source.place.location,
        "lineage": lineage.folder,
        "storage_options": source.place.stored.files.options,
    }
