"""Sets up notifications on AWS: a queue, its policy and the events of a bucket; shows and removes them too.

The facts are requested first (:meth:`Aws.facts_of`). The steps that are needed follow from them; each step
can be repeated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from flip27_source.enumerators.files.notifications.sqs import DEFAULT_REGION, GONE, client, code_of
from flip27_source.enumerators.files.notifications.sqs_facts import (
    EVENTS,
    OUR_TAG,
    TAG,
    Facts,
    Place,
    keys_text,
)
from flip27_source.errors import DiscoveryError, Flip27Error, OptionError

QUEUE_ATTRIBUTES = {
    # Two weeks, SQS's maximum: a query may be stopped for this time and loses no message.
    "MessageRetentionPeriod": "1209600",
    "ReceiveMessageWaitTimeSeconds": "20",
    "VisibilityTimeout": "300",
}
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""AWS may need a minute until a new queue and its policy are known everywhere."""

_DELETED_RECENTLY = frozenset({"AWS.SimpleQueueService.QueueDeletedRecently", "QueueDeletedRecently"})
_INVALID_QUEUE = "InvalidArgument"
_RIGHTS = (
    "use credentials that allow s3:GetBucketLocation, s3:GetBucketNotification, s3:PutBucketNotification, "
    "sqs:GetQueueUrl, sqs:GetQueueAttributes, sqs:SetQueueAttributes, sqs:CreateQueue, sqs:ListQueueTags, "
    "sqs:TagQueue and sqs:DeleteQueue"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change."""

    what: str
    name: str
    details: str
    do: Callable[[], None]


class Aws:
    """Queries and changes S3 and SQS, with the credentials of the file system.

    Args:
        pauses_s: the pauses before requests are repeated that AWS refuses because it does not yet know what
            was just created.
    """

    def __init__(self, storage: Mapping[str, Any], *, pauses_s: Sequence[float] = PAUSES_S) -> None:
        self._pauses_s = pauses_s
        self.s3 = client("s3", storage)
        # SQS in the bucket's region, where S3 requires the queue to be.
        self._sqs_in = cache(lambda region: client("sqs", storage, region=region))

    def facts_of(self, place: Place) -> Facts:
        """Request the current setup."""
        bucket, queue = f"bucket {place.bucket}", f"queue {place.queue}"
        location = _requested(bucket, self.s3.get_bucket_location, Bucket=place.bucket)["LocationConstraint"]
        region = {None: DEFAULT_REGION, "": DEFAULT_REGION, "EU": "eu-west-1"}.get(location, location)
        rules = _requested(bucket, self.s3.get_bucket_notification_configuration, Bucket=place.bucket)
        rules.pop("ResponseMetadata", None)
        facts = Facts(place=place, region=region, rules=rules)
        sqs = self._sqs_in(region)
        try:
            url = sqs.get_queue_url(QueueName=place.queue)["QueueUrl"]
        except Exception as error:
            if code_of(error) in GONE:
                return facts
            raise _refused(queue, error) from error
        attributes = _requested(queue, sqs.get_queue_attributes, QueueUrl=url, AttributeNames=["All"])
        tags = _requested(queue, sqs.list_queue_tags, QueueUrl=url).get("Tags") or {}
        return replace(facts, url=url, attributes=attributes["Attributes"], tags=tags)

    def creation(self, facts: Facts) -> Iterator[Step]:
        """The steps that create what is missing, in order."""
        place = facts.place
        if facts.overlapping and not facts.is_sending:
            raise OptionError(
                f"bucket {place.bucket} has rules for the same events of the same keys, and S3 allows "
                f"no second one: {', '.join(facts.overlapping)}",
                remedy="let the bucket send its events to a topic of SNS or to EventBridge, and have them "
                "forwarded to both queues; or choose another path",
            )
        if facts.url is None:
            days = int(QUEUE_ATTRIBUTES["MessageRetentionPeriod"]) // 86_400
            yield Step(
                what="queue",
                name=place.queue,
                details=f"in {facts.region}; keeps messages for {days} days",
                do=lambda: self._sqs_in(facts.region).create_queue(
                    QueueName=place.queue, Attributes=QUEUE_ATTRIBUTES, tags={TAG: OUR_TAG}
                ),
            )
        if not facts.is_allowed:
            yield Step(
                what="policy",
                name=place.queue,
                details=f"s3.amazonaws.com may send messages for bucket {place.bucket}",
                do=lambda: self._put_policy(place, is_allowed=True),
            )
        if not facts.is_sending:
            replaced = f", instead of {facts.keys_of_path}" if facts.rules_of_path else ""
            yield Step(
                what="events",
                name=place.bucket,
                details=f"{', '.join(EVENTS)} of {keys_text(place.rule_prefix)} to {place.queue}{replaced}",
                do=lambda: self._put_rules(place, is_sending=True),
            )

    def removal(self, facts: Facts) -> Iterator[Step]:
        """The steps that remove what ``create`` has made for the path; a queue that others need stays."""
        place = facts.place
        if facts.rules_of_path:
            yield Step(
                what="events",
                name=place.bucket,
                details=f"no more events of {facts.keys_of_path} to {place.queue}",
                do=lambda: self._put_rules(place, is_sending=False),
            )
        if facts.is_ours and not facts.others:
            yield Step(
                what="queue",
                name=place.queue,
                details=f"with {sum(facts.messages.values()):,} messages",
                do=lambda: self._delete(place),
            )
        elif facts.other_statements != facts.statements and not facts.rules_of_other_paths:
            yield Step(
                what="policy",
                name=place.queue,
                details=f"s3.amazonaws.com may no longer send messages for bucket {place.bucket}",
                do=lambda: self._put_policy(place, is_allowed=False),
            )

    def do(self, step: Step) -> None:
        """Make the change of a step."""
        _requested(f"{step.what} {step.name}", step.do)

    def _delete(self, place: Place) -> None:
        facts = self.facts_of(place)
        if facts.others:
            raise OptionError(
                f"queue {place.queue} was not deleted: it now also gets the events of "
                f"{', '.join(facts.others)}",
                remedy="drop the other paths too, if nobody needs their events",
            )
        if facts.is_ours:
            self._sqs_in(facts.region).delete_queue(QueueUrl=facts.url)

    def _put_policy(self, place: Place, *, is_allowed: bool) -> None:
        facts = self._with_queue(place)
        statements = [*facts.other_statements, *([facts.statement] if is_allowed else [])]
        policy = json.dumps({**facts.policy, "Statement": statements}) if statements else ""
        self._sqs_in(facts.region).set_queue_attributes(QueueUrl=facts.url, Attributes={"Policy": policy})

    def _put_rules(self, place: Place, *, is_sending: bool) -> None:
        """Replace the rules of the path; S3 takes the whole configuration, so the others are sent back."""
        facts = self._with_queue(place)
        others = [rule for rule in facts.rules_of_queues if rule not in facts.rules_of_path]
        rules = {**facts.rules, "QueueConfigurations": [*others, *([facts.rule] if is_sending else [])]}
        for pause_s in (*self._pauses_s, None):
            try:
                self.s3.put_bucket_notification_configuration(
                    Bucket=place.bucket, NotificationConfiguration=rules
                )
            except Exception as error:
                # S3 tries to send a message, which is refused until the new policy is known everywhere.
                if code_of(error) != _INVALID_QUEUE or pause_s is None:
                    raise
                time.sleep(pause_s)
            else:
                return

    def _with_queue(self, place: Place) -> Facts:
        """The current setup, once SQS knows the queue that was just created."""
        for pause_s in self._pauses_s:
            facts = self.facts_of(place)
            if facts.url is not None:
                return facts
            time.sleep(pause_s)
        raise DiscoveryError(
            f"SQS does not yet know queue {place.queue}, which was just created",
            remedy="run the command again: it creates what is missing",
        )


def _requested(what: str, call: Callable[..., Any], **arguments: Any) -> Any:
    try:
        return call(**arguments)
    except Flip27Error:
        raise
    except Exception as error:
        raise _refused(what, error) from error


def _refused(what: str, error: Exception) -> OptionError:
    code, remedy = code_of(error), _RIGHTS
    if code == "NoSuchBucket":
        remedy = "correct the path, or create the bucket first"
    elif code in _DELETED_RECENTLY:
        remedy = "wait a minute, since a queue of this name was just deleted; or give another name: --queue"
    elif code == _INVALID_QUEUE:
        remedy = (
            "let S3 send to the queue: a policy must not deny it, and where a key of KMS encrypts the queue, "
            "the policy of the key has to allow s3.amazonaws.com kms:GenerateDataKey and kms:Decrypt"
        )
    elif type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        remedy = (
            "give credentials: --storage key=... and secret=..., --storage profile=..., or the environment"
        )
    elif not code:
        remedy = "check the network and the endpoint (--storage endpoint_url=...)"
    return OptionError(f"{what}: {type(error).__name__}: {error}", remedy=remedy)
