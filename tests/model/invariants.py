"""I1-I14 of Flink's coordinator protocol, adapted to this library, and one for edits, as checks of a step.

I12 (a plain savepoint commits nothing and is not subsumed) has no check: the worlds of this model make no
savepoints, which have their own tests. One half of I14, an error that fails only its checkpoint, cannot
occur: Spark has no way to decline a checkpoint, so every error of the coordinator ends the run of the query.
The loss of an event, a part of I6, cannot occur either: events are delivered with the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flip27_source.coordination.gateway import GatewayState
from flip27_source.errors import StaleDriverError
from tests.model.documents import Doc
from tests.model.protocol_model import (
    NOTHING,
    REQUEST,
    RETAINED,
    ROWS_TO_THE_END,
    Attempt,
    Step,
    World,
    returns,
)

Check = Callable[[World, Step], Iterator[str]]
CHECKS: dict[str, Check] = {}


def invariant(check: Check) -> Check:
    CHECKS[check.__name__.removeprefix("check_")] = check
    return check


def broken(world: World, step: Step) -> dict[str, str]:
    """The invariants that a step has broken, and how; an error that no invariant covers is named "error"."""
    found = {name: "; ".join(said) for name, check in CHECKS.items() if (said := list(check(world, step)))}
    if step.error is not None and not found:
        found["error"] = f"{type(step.error).__name__}: {step.error}"
    return found


@invariant
def check_I1(world: World, step: Step) -> Iterator[str]:
    """Total order in both directions.

    A checkpoint is a cut: the events that its state counts as sent are in the plans up to it or wait in it,
    and later events are not. Each subtask gets its events in the order in which they were sent, before the
    splits. The events that subtasks send in a batch are delivered once, when the batch is complete, by
    subtask and in the order in which they were sent.
    """
    if step.made is not None:
        for subtask, sent in enumerate(step.made.state["sent"]):
            got, waiting = _pings(world, step.made, subtask), step.made.waiting_pings.get(subtask, [])
            if sorted(set(got)) != got:
                yield f"subtask {subtask} gets its events in the order {got}"
            if any(number >= sent for number in got):
                yield f"{got} are in the plans, but only {sent} events were sent before the freeze"
            if missing := [n for n in range(step.sent_at_freeze[subtask], sent) if n not in {*waiting, *got}]:
                yield f"sent to {subtask} by the state, but neither planned nor waiting: {missing}"
    if step.ran is not None and step.late_events:
        yield "an event came after the first split of its batch was read"
    heard = None if step.made is None else step.made.state["heard"]
    if heard is not None and heard != world.expected_heard() and not _foreign(world, heard):
        yield f"heard {heard}, but complete batches sent {world.expected_heard()}"


@invariant
def check_I2(world: World, step: Step) -> Iterator[str]:
    """Every event sent before the freeze is delivered with that batch, or the checkpoint fails."""
    yield from _undelivered(world, step, held=False)


@invariant
def check_I3(world: World, step: Step) -> Iterator[str]:
    """Every event sent after the freeze of N is delivered after the subtask's acknowledgement of N.

    It comes with the next batch: it is not in N, which no longer changes, and it is not lost.
    """
    yield from _undelivered(world, step, held=True)
    if step.move[0] == "e" and world.frozen and step.sent_through != [GatewayState.CLOSED]:
        yield f"{step.move} does not wait for an acknowledgement: the gateway is {step.sent_through}"


@invariant
def check_I4(world: World, step: Step) -> Iterator[str]:
    """The acknowledgement of a subtask opens its gateway and no other."""
    yield from step.misopened


@invariant
def check_I5(world: World, step: Step) -> Iterator[str]:
    """An abort opens all gateways and loses nothing: the next checkpoint is the one a restart would make."""
    if step.move == "X" and step.error is None:
        made = NOTHING if step.made is None else step.made.name
        if made != step.reference:
            yield f"the checkpoint after the abort is {made}, after a restart {step.reference}"


@invariant
def check_I6(world: World, step: Step) -> Iterator[str]:
    """An event reaches all attempts of exactly the subtask and document that it was planned for."""
    if step.made is not None and step.made.misdirected:
        yield f"planned for another subtask: {step.made.misdirected}"
    if step.replanned is not None:
        events = [{task.subtask_id: task.events for task in tasks} for tasks in step.replanned]
        if events[0] != events[1]:
            yield f"a replay gets the events {events[1]}, the batch got {events[0]}"
    if step.ran is not None and step.rows is not None:
        wanted = [(step.ran.subtask, number) for number in step.ran.doc.pings[step.ran.subtask]]
        if step.received != wanted:
            yield f"the attempt received {step.received}, but its plan has {wanted}"


@invariant
def check_I7(world: World, step: Step) -> Iterator[str]:
    """Ids increase strictly from parent to child, and completing n leaves nothing older to be completed.

    After an abort the id is used again for a document with another name: names are never reused.
    """
    if step.made is not None:
        newest = world.chain[-1] if world.chain else None
        parent, before = (None, 0) if newest is None else (newest.name, newest.id)
        if (step.made.parent, step.made.id) != (parent, before + 1):
            yield f"{step.made.name} of parent {step.made.parent} follows {parent}"
    completed = _completed(world)
    if sorted(completed) != completed:
        yield f"completions were notified in the order {completed}"
    for name, data in step.files_before.items():
        if "/checkpoints/" in name and world.files.files.get(name, data) != data:
            yield f"document {name} was overwritten"


@invariant
def check_I8(world: World, step: Step) -> Iterator[str]:
    """An instance is notified of a completion once, and never before the commit log has it.

    The actions that the completion releases are performed no earlier, and none is lost. An abort does not
    discard data: no file disappears that a retained checkpoint needs.
    """
    newest = world.chain[-1].id if world.chain else 0
    completed = _completed(world)
    if any(number > newest for number in completed):
        yield f"{completed} were notified, but the commit log ends with {newest}"
    if len(set(completed)) != len(completed):
        yield f"completions were notified twice: {completed}"
    for action in step.performed:
        if not _may_be_performed(world, action):
            yield f"action {action!r} was performed before it was due"
    # Due actions are started in the next cycle, after waiting edits, which may cancel them.
    if completed and completed[-1] == newest and step.move in ("T", "X", "K") and step.error is None:
        lost = [action for action in _due(world) if action not in world.performed]
        if lost:
            yield f"actions were due and not performed: {lost}"
    needed = [doc.file for doc in world.chain[-RETAINED:]] + [str(world.logged["state"].get("file"))]
    for name in step.files_before.keys() - world.files.files.keys():
        lineage, _, rest = name.partition("/")
        named = rest.partition("/")[2].partition(".")[0]
        if f"{lineage}/checkpoints/{named}.json" in needed:
            yield f"{name} is gone"


@invariant
def check_I9(world: World, step: Step) -> Iterator[str]:
    """A global restore makes a new instance from the document and resets no subtask.

    A failed attempt makes no new instance; its subtask is reset once the batch is complete.
    """
    after = world.enumerator
    if step.move in ("X", "D", "K") and after is not None and after is step.enumerator_before:
        yield "the restart has kept the enumerator"
    stays = step.move[0] in "TerAFLCNZ" and step.enumerator_before is not None and step.error is None
    is_edited = step.made is not None and bool(step.made.edits)
    if stays and after is not step.enumerator_before and not is_edited:
        yield "a new enumerator was made without a restart"
    if after is not None and after is not step.enumerator_before and not is_edited:
        given = None if after.given is None else (len(after.given.made), list(after.given.sent))
        state = world.chain[-1].state if world.chain else None
        if given != (None if state is None else (len(state["made"]), state["sent"])):
            yield f"the new instance was restored from {given}"
    if after is not None:
        wanted = [
            (subtask, doc.id - 1)
            for doc in world.chain
            if doc.id in after.completed
            for subtask in sorted(doc.plan)
            if world.first[doc.file, subtask].number > 0
        ]
        if after.resets != wanted:
            yield f"the reset subtasks are {after.resets}, but attempts failed in {wanted}"


@invariant
def check_I10(world: World, step: Step) -> Iterator[str]:
    """No pending checkpoint survives a failure: a driver's pending checkpoint is the last in Spark's logs."""
    if world.enumerator is None:
        return
    pending = world.holder.coordinator_at(world.logged).pending
    allowed = {world.committed["checkpoint"], world.logged["checkpoint"]}
    if pending is not None and pending.checkpoint_id not in allowed:
        yield f"{pending.checkpoint_id} is pending, but Spark's logs end with {allowed}"


@invariant
def check_I11(world: World, step: Step) -> Iterator[str]:
    """A split is in exactly one place, and its rows are in the sink up to its position.

    The places are: with the enumerator, waiting, in the plan, live, quarantined, finished.
    """
    if step.made is not None:
        places = Counter(_places(world, step.made))
        again = [name for _, edit in _applied(world, step.made) for name in edit]
        if places != Counter([*step.made.state["made"], *again]):
            yield f"splits made: {sorted(step.made.state['made'])}, found: {sorted(places.elements())}"
        if world.kind == "paged":
            yield from _wrong_positions(world, step.made)
    if step.replanned is not None:
        splits = [{task.subtask_id: task.splits for task in tasks} for tasks in step.replanned]
        if splits[0] != splits[1]:
            yield f"a replay reads {splits[1]}, the batch read {splits[0]}"
    if step.move == "C":
        doc = world.chain[-1]
        for subtask in doc.plan:
            rows, wanted = world.delivered.get((doc.file, subtask)), world.expected_rows(doc, subtask)
            if rows != wanted:
                yield f"subtask {subtask} delivered {rows}, its report says {wanted}"


@invariant
def check_I13(world: World, step: Step) -> Iterator[str]:
    """Stale instances have no effect, neither a driver that was replaced nor an attempt that ends late."""
    if step.move in ("Z", "L"):
        for name, data in step.files_before.items():
            if "/drivers/" not in name and world.files.files.get(name, data) != data:
                yield f"{name} was changed by a stale instance"
    lineage = str(world.logged["state"].get("file")).partition("/")[0]
    if world.drives and any(name.startswith(lineage) for name in step.zombie_wrote):
        yield f"a stale driver wrote {step.zombie_wrote} to the lineage of the current one"
    if isinstance(step.error, StaleDriverError) and step.move != "Z":
        yield f"the current driver was refused as stale: {step.error}"
    if step.made is not None and (foreign := _foreign(world, step.made.state["heard"])):
        yield f"events of attempts that do not count were heard: {foreign}"


@invariant
def check_I14(world: World, step: Step) -> Iterator[str]:
    """An error of the coordinator reaches Spark, and the driver returns to the position in the commit log."""
    if step.retried is not None and step.retried != step.reference:
        yield f"the next call after the failure gives {step.retried}, a restart gives {step.reference}"


@invariant
def check_edits(world: World, step: Step) -> Iterator[str]:
    """A requested edit is in the next checkpoint, and once in each line: not lost, and not applied twice.

    Its request stays until that checkpoint is complete (KIP-875).
    """
    applied = [request for request, _ in _applied(world, step.made)]
    if len(set(applied)) != len(applied):
        yield f"applied twice in one line: {applied}"
    if step.made is not None and world.asked and REQUEST not in applied:
        yield f"{step.made.short} does not contain the edit"
    committed = [request for request, _ in _applied(world, None)]
    is_there = any(name.endswith(f"/requests/{REQUEST}.json") for name in world.files.files)
    if world.asked and not is_there and REQUEST not in committed:
        yield "the request was deleted, but no complete checkpoint has applied it"


def _applied(world: World, newest: Doc | None) -> list[tuple[str, Sequence[str]]]:
    """The edits of a line, each with the splits that it has changed."""
    return [edit for doc in (*world.chain, *([] if newest is None else [newest])) for edit in doc.edits]


def _pings(world: World, newest: Doc, subtask: int) -> list[int]:
    return [number for doc in (*world.chain, newest) for number in doc.pings.get(subtask, ())]


def _undelivered(world: World, step: Step, *, held: bool) -> Iterator[str]:
    if step.made is None:
        return
    for subtask in range(len(step.made.state["sent"])):
        got = set(_pings(world, step.made, subtask))
        missing = [number for number in range(step.sent_at_freeze[subtask]) if number not in got]
        mine = [number for number in missing if ((subtask, number) in world.held) is held]
        if mine:
            yield f"events {mine} to subtask {subtask} are in no plan up to {step.made.short}"


def _completed(world: World) -> list[int]:
    enumerator = world.enumerator
    return [] if enumerator is None else list(enumerator.completed)


def _may_be_performed(world: World, action: str) -> bool:
    word, *numbers = action.split()
    newest = world.chain[-1] if world.chain else None
    if newest is None:
        return False
    if word == "after":
        return int(numbers[0]) <= newest.id
    subtask, number = map(int, numbers)
    sent = newest.state["sent"]
    return subtask < len(sent) and number < sent[subtask]


def _due(world: World) -> list[str]:
    doc = world.chain[-1]
    pings = [f"ping {i} {n}" for i, sent in enumerate(doc.state["sent"]) for n in range(sent)]
    return [*pings, *(f"after {item.id}" for item in world.chain)]


def _foreign(world: World, heard: list[str]) -> list[str]:
    """The events that were heard although no attempt that reported first in a committed batch sent them."""
    docs = {doc.file for doc in world.chain}
    counted = {text for (file, _), attempt in world.first.items() if file in docs for text in attempt.texts}
    return [text for text in heard if text not in counted]


def _places(world: World, newest: Doc) -> Iterator[str]:
    """The pieces in every place, according to what is stored and to the reports that count.

    A piece that is in two places is given twice.
    """
    yield from (piece["split_id"] for piece in newest.state["queue"])
    yield from newest.waiting
    yield from newest.live
    yield from newest.quarantined
    for doc in (*world.chain, newest):
        for subtask, pieces in doc.plan.items():
            attempt = world.first.get((doc.file, subtask)) if doc is not newest else None
            yield from (piece["split_id"] for piece in pieces if _stays(world, piece, attempt))


def _stays(world: World, piece: Any, attempt: Attempt | None) -> bool:
    """Whether a piece of a plan is in no other place, because it is finished or still being read."""
    if world.kind == "paged":
        ended = attempt is not None and world.end_of(piece, attempt) == ROWS_TO_THE_END
        return bool(piece["split_id"].endswith("!") and ended)
    return attempt is None or not (returns(piece) or piece["bad"])


def _wrong_positions(world: World, newest: Doc) -> Iterator[str]:
    at: dict[str, int] = {}
    for doc in world.chain:
        for subtask, pieces in doc.plan.items():
            for piece in pieces:
                at[piece["split_id"]] = world.end_of(piece, world.first[doc.file, subtask])
    for name, position in newest.live.items():
        if position != at.get(name, 0):
            yield f"{name} is stored at {position}, but its rows are in the sink up to {at.get(name, 0)}"
    for pieces in newest.plan.values():
        for piece in pieces:
            if piece["at"] != at.get(piece["split_id"], 0):
                yield f"{piece['split_id']} is read from {piece['at']}, not {at.get(piece['split_id'], 0)}"
