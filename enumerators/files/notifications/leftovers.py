"""The queues that a query has read, and the removal of what ``flip27 notifications create`` has created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flip27_source.enumerators.files import options as opts
from flip27_source.enumerators.files.notifications.queues import service_of
from flip27_source.enumerators.files.notifications.sqs_facts import Place, place_of
from flip27_source.enumerators.files.notifications.sqs_setup import Aws
from flip27_source.errors import OptionError
from flip27_source.leftovers import Leftover
from flip27_source.options import Options
from flip27_source.source_options import PATH


def leftovers_of(options: Options, state: Any) -> Iterator[Leftover]:
    """The queues of the options ``path`` and ``notificationQueues``, if the state was made with a queue."""
    if state["position"].get("notified") is None:
        return
    queues = options[opts.NOTIFICATION_QUEUES]
    if queues is None or (options[PATH] is None and not options[opts.PATHS]):
        raise OptionError(
            "the query has read events from a queue, and the state does not contain the name of the queue",
            remedy="give the options path and notificationQueues of the query (--option NAME=VALUE)",
        )
    if service_of(options) != "sqs":
        for url in queues:
            yield Leftover(kind="queue", name=url, details="flip27 creates and removes queues of SQS only")
        return
    aws = Aws(options.with_prefix("storage."))
    for url in queues:
        name = url.rstrip("/").rpartition("/")[2]
        found = _leftover(aws, [place_of(path, name) for path in opts.paths_of(options)])
        yield found or Leftover(kind="queue", name=url, details="not found")


def _leftover(aws: Aws, places: Sequence[Place]) -> Leftover | None:
    """What is left of one queue that gets the events of these paths; None if nothing is."""
    every = [aws.facts_of(place) for place in places]
    first = every[0]
    if first.url is None:
        return None
    # Each path is among the other senders of the other paths.
    others = [other for other in first.others if all(other in facts.others for facts in every)]
    messages = f"{sum(first.messages.values()):,} messages"
    if not any(list(aws.removal(facts)) for facts in every):
        why = "flip27 notifications create has not created it"
        if first.is_ours:
            why = f"it also gets the events of {', '.join(others)}"
        return Leftover(kind="queue", name=first.url, details=f"has {messages}; {why}")
    events = ", ".join(facts.keys_of_path for facts in every if facts.rules_of_path)
    details = [f"no more events of {events}"] if events else []
    if first.is_ours and not others:
        details.append(f"deleted with {messages}")
    else:
        kept_for = f": it also gets the events of {', '.join(others)}" if others else ""
        details.append(f"the queue itself stays{kept_for}")

    def remove() -> None:
        for place in places:
            for step in aws.removal(aws.facts_of(place)):
                aws.do(step)

    return Leftover(kind="queue", name=first.url, details="; ".join(details), remove=remove)
