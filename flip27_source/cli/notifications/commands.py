"""``flip27 notifications``: creates, shows and drops the queue that gets the events of a path."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from flip27_source.enumerators.files.notifications.sqs_facts import Facts, keys_text, place_of, prefix_of
from flip27_source.enumerators.files.notifications.sqs_setup import Aws, Step
from flip27_source.file_systems.paths import with_lower_scheme

from ..commands import CHECK_FAILED, DONE, FileSystem, Yes, argument, command, option
from ..rendering import Answer, Table

group = typer.Typer(no_args_is_help=True)

Path = Annotated[
    str,
    argument(
        "PATH", "The path of the source: s3://bucket/landing, with or without globs.", with_lower_scheme
    ),
]
Queue = Annotated[str | None, option("--queue NAME", "The name of the queue; by default flip27-BUCKET.")]
Execute = Annotated[bool, option("--execute", "Make the changes; without this option nothing is changed.")]

_ANSWERS = (
    "an object: queue (its URL; null if there is none), bucket, prefix, region, changes (a list of objects: "
    "what, name, details), is_done."
)


@command(
    group, "create", example="flip27 notifications create s3://landing/orders --execute", answers=_ANSWERS
)
def create(
    path: Path, queue: Queue = None, execute: Execute = False, yes: Yes = False, *, files: FileSystem
) -> Answer:
    """Create an SQS queue for the events of the bucket; a dry run without --execute.

    Other rules of the bucket, and statements of the queue's policy, stay as they are. An existing queue is
    used again, also for several paths of one query; each query needs its own queue (--queue). The command
    can be repeated; it creates what is missing.
    """
    aws = Aws(files.options)
    facts = aws.facts_of(place_of(path, queue))
    steps = list(aws.creation(facts))
    is_done = _done(aws, steps, execute=execute, yes=yes)
    if is_done and steps:
        facts = aws.facts_of(facts.place)
    notes = [] if steps else ["there is nothing to do: the queue gets the events of the path"]
    if facts.others:
        notes.append(
            f"the queue also gets the events of {', '.join(facts.others)}: if another query reads those, "
            "give this path its own queue with --queue"
        )
    if facts.url is not None and (is_done or not steps):
        options = f'.option("discovery", "notifications").option("notificationQueues", "{facts.url}")'
        notes.append(f"options of the source: {options}")
    return _answer(facts, steps, notes, done=("created", "would be created"), is_done=is_done)


@command(group, "drop", example="flip27 notifications drop s3://landing/orders --execute", answers=_ANSWERS)
def drop(
    path: Path, queue: Queue = None, execute: Execute = False, yes: Yes = False, *, files: FileSystem
) -> Answer:
    """Remove the bucket's rules for the path, and their queue; a dry run without --execute.

    Removes only what the command create has created: rules and statements whose id begins with flip27-, and
    a queue with its tag. A queue that also gets other events stays. The messages of a removed queue are
    lost; the next listing of a query finds their files.
    """
    aws = Aws(files.options)
    facts = aws.facts_of(place_of(path, queue))
    steps = list(aws.removal(facts))
    is_done = _done(aws, steps, execute=execute, yes=yes)
    notes = [] if steps else ["there is nothing to drop for this path"]
    if facts.url is not None and not facts.is_ours:
        notes.append(f"queue {facts.url} stays: flip27 notifications create has not created it")
    elif facts.others:
        notes.append(f"queue {facts.url} stays: it also gets the events of {', '.join(facts.others)}")
    return _answer(facts, steps, notes, done=("dropped", "would be dropped"), is_done=is_done)


@command(
    group,
    "show",
    example="flip27 notifications show s3://landing/orders",
    answers="an object: queue (its URL; null if there is none), bucket, prefix, region, waiting, hidden "
    "(numbers of messages), dead_letters (the ARN of the queue for messages that were received too often, or "
    "null), rules (a list of objects: id, prefix, events), problems (a list of texts), is_ready.",
)
def show(path: Path, queue: Queue = None, *, files: FileSystem) -> Answer:
    """Show a queue, its messages, and whether the bucket sends the events of a path to it; changes nothing.

    Exit code 3: the queue does not get messages.
    """
    facts = Aws(files.options).facts_of(place_of(path, queue))
    redrive = json.loads(facts.attributes.get("RedrivePolicy") or "{}")
    rules: list[dict[str, Any]] = [
        {"id": rule.get("Id"), "prefix": prefix_of(rule), "events": list(rule["Events"])}
        for rule in facts.own_rules
    ]
    problems = facts.problems
    rows: list[tuple[str, Any]] = [("queue", facts.url)]
    if facts.url is not None:
        rows += [
            ("messages that wait", facts.messages["waiting"]),
            ("messages that a query has received", facts.messages["hidden"]),
            ("the bucket may send events", facts.is_allowed),
        ]
    rows += [("events", f"{', '.join(rule['events'])} of {keys_text(rule['prefix'])}") for rule in rules]
    return Answer(
        data={
            **_place(facts),
            **facts.messages,
            "dead_letters": redrive.get("deadLetterTargetArn"),
            "rules": rules,
            "problems": problems,
            "is_ready": not problems,
        },
        shown=[Table(columns=("what", "value"), rows=rows)],
        notes=[*problems, *(["flip27 notifications create creates what is missing"] if problems else [])],
        exit_code=CHECK_FAILED if problems else DONE,
    )


def _done(aws: Aws, steps: Sequence[Step], *, execute: bool, yes: bool) -> bool:
    """Make the changes if the user wants them; returns whether they were made."""
    if not execute or not steps:
        return False
    if not yes:
        said = "\n".join(f"{step.what} {step.name}: {step.details}" for step in steps)
        typer.confirm(f"{said}\nMake these changes?", abort=True, err=True)
    for step in steps:
        aws.do(step)
    return True


def _answer(
    facts: Facts, steps: Sequence[Step], notes: Sequence[str], *, done: tuple[str, str], is_done: bool
) -> Answer:
    rows = [(step.what, step.name, done[0] if is_done else done[1], step.details) for step in steps]
    more = [] if is_done or not steps else ["dry run: nothing was changed; add --execute to make the changes"]
    return Answer(
        data={
            **_place(facts),
            "changes": [{"what": step.what, "name": step.name, "details": step.details} for step in steps],
            "is_done": is_done,
        },
        shown=[Table(columns=("what", "name", "outcome", "details"), rows=rows)] if rows else [],
        notes=[*notes, *more],
    )


def _place(facts: Facts) -> dict[str, Any]:
    place = facts.place
    return {"queue": facts.url, "bucket": place.bucket, "prefix": place.prefix, "region": facts.region}
