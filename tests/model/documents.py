"""A checkpoint document as the model reads it: from its JSON alone, without the code that is tested."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flip27_source.snapshots.segment_files import unpack_segment

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doc:
    """The parts of a document that the checks need.

    Attributes:
        file: its path in the store. name: ``<id>-<digest>``. parent: the name of its parent.
        state: the state of the enumerator.
        plan: the pieces of each subtask. pings: the numbers of the pings in its plan, by subtask.
        waiting_pings: the numbers of the pings that are in no plan yet, by subtask.
        edits: each edit's request and the splits that it has changed.
    """

    file: str
    name: str
    id: int
    parent: str | None
    state: Json
    plan: Mapping[int, Sequence[Json]]
    pings: Mapping[int, Sequence[int]]
    waiting: Sequence[str]
    waiting_pings: Mapping[int, Sequence[int]]
    live: Mapping[str, int]
    quarantined: Sequence[str] = ()
    finished: int = 0
    actions: Sequence[tuple[str, int]] = ()
    edits: Sequence[tuple[str, Sequence[str]]] = ()
    misdirected: Sequence[str] = field(default=())
    """Pings that are in the plan of another subtask than the one they were sent to."""

    @property
    def short(self) -> str:
        """A short name for messages, which distinguishes the documents of one world."""
        return f"{self.name[:6]}@{self.file.partition('/')[0][-2:]}"


_parsed: dict[tuple[str, bytes], Doc] = {}


def parsed(file: str, files: Mapping[str, bytes]) -> Doc:
    """The document in a file; each file is parsed once."""
    key = (file, files[file])
    if key not in _parsed:
        _parsed[key] = _parse(file, files)
    return _parsed[key]


def _parse(file: str, files: Mapping[str, bytes]) -> Doc:
    raw = json.loads(files[file])
    beside = f"{file.partition('/')[0]}/segments/"
    segments = {
        name: entry["json"] if "json" in entry else json.loads(unpack_segment(name, files[beside + name]))
        for name, entry in raw["segments"].items()
    }
    ledger = raw["ledger"]
    waiting_pings: dict[int, list[int]] = {}
    for item in ledger.get("events", ()):
        waiting_pings.setdefault(item["subtask"], []).append(_ping(item)["number"])
    plan = {item["subtask"]: item for item in raw["plan"]}
    return Doc(
        file=file,
        name=file.rpartition("/")[2].removesuffix(".json"),
        id=raw["id"],
        parent=raw["parent"],
        state=_state(raw["enumerator"]["state"]),
        plan={i: [_piece(piece) for piece in segments[item["splits"]]] for i, item in plan.items()},
        pings={i: [_ping(event)["number"] for event in item.get("events", ())] for i, item in plan.items()},
        waiting=[_piece(p)["split_id"] for block in ledger["waiting"] for p in segments[block["splits"]]],
        waiting_pings=waiting_pings,
        live={piece["split_id"]: piece.get("at", 0) for piece in ledger["live"]},
        quarantined=[item["split"]["split_id"] for item in ledger.get("quarantined", ())],
        finished=ledger["finished"],
        actions=[(item["action"], item["due"]) for item in segments[raw["actions"]]]
        if raw.get("actions")
        else (),
        edits=[(edit["request_id"], edit["split_ids"]) for edit in raw.get("edits", ())],
        misdirected=[
            f"{_ping(event)} to {i}"
            for i, item in plan.items()
            for event in item.get("events", ())
            if _ping(event)["subtask"] != i
        ],
    )


def _ping(item: Json) -> Json:
    event: Json = item["event"]
    inner: Json = event.get("event", event)
    return inner


def _piece(raw: Json) -> Json:
    return {"at": 0, "tries": 0, "shy": False, "bad": False, **raw}


def _state(raw: Json) -> Json:
    return {"sent": [], "heard": [], "made": [], "finished": [], "queue": [], **raw}
