"""Sets up notifications on AWS: a queue, its policy and the events of a bucket; shows and removes them too.

Facts are asked for first (:meth:`Aws.look`). What has to be done follows from them, and is done step by step;
each step can be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flip27_source.enumerators.files.globs import has_glob
from flip27_source.enumerators.files.notifications.sqs import DEFAULT_REGION, client, code_of
from flip27_source.errors import OptionError
from flip27_source.segment import content_digest

EVENTS = ("s3:ObjectCreated:*", "s3:ObjectRemoved:*")
CREATED = "s3:ObjectCreated:"
RULE_START = "flip27-"
TAG = "created-by"
OUR_TAG = "flip27"
KINDS = ("QueueConfigurations", "TopicConfigurations", "LambdaFunctionConfigurations")
QUEUE_ATTRIBUTES = {
    # Two weeks, SQS's maximum: a query may be stopped for so long and loses no message.
    "MessageRetentionPeriod": "1209600",
    "ReceiveMessageWaitTimeSeconds": "20",
    "VisibilityTimeout": "300",
}
_NO_QUEUE = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
_RIGHTS = (
    "use credentials that allow s3:GetBucketLocation, s3:GetBucketNotification, s3:PutBucketNotification, "
    "sqs:GetQueueUrl, sqs:GetQueueAttributes, sqs:SetQueueAttributes, sqs:CreateQueue, sqs:ListQueueTags, "
    "sqs:TagQueue and sqs:DeleteQueue"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is to send events, and where to.

    Attributes:
        prefix: of the keys whose events are sent; empty for all.
        queue: the name of the queue.
    """

    bucket: str
    prefix: str
    queue: str

    @property
    def rule(self) -> str:
        """The id of the bucket's rule: a queue may get the events of several prefixes."""
        return f"{RULE_START}{self.queue}-{content_digest(self.prefix.encode())[:8]}"


def place_of(path: str, queue: str | None) -> Place:
    """The bucket and the prefix of a path, which may have globs.

    Raises:
        OptionError: the path is not one of S3.
    """
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme not in ("s3", "s3a") or not bucket or has_glob(bucket):
        raise OptionError(
            f"path {path} is not in a bucket of S3", remedy="give the path of the source: s3://bucket/landing"
        )
    first_glob = next((i for i, char in enumerate(key) if char in "*?[{"), None)
    prefix = key.rstrip("/") + "/" if key.rstrip("/") else ""
    if first_glob is not None:
        prefix = key[:first_glob]
    return Place(bucket=bucket, prefix=prefix, queue=queue or f"flip27-{bucket.replace('.', '-')}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What there is on AWS.

    Attributes:
        url, attributes, tags: of the queue; None and empty if there is none.
        rules: the bucket's notification configuration, as S3 gives it.
    """

    place: Place
    region: str
    rules: Mapping[str, Any]
    url: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def bucket_arn(self) -> str:
        """The name of the bucket in policies."""
        partition = {"cn": "aws-cn", "us-gov": "aws-us-gov"}
        found = (name for start, name in partition.items() if self.region.startswith(start))
        return f"arn:{next(found, 'aws')}:s3:::{self.place.bucket}"

    @property
    def queue_arn(self) -> str | None:
        """The name of the queue in policies; None if there is no queue."""
        return self.attributes.get("QueueArn")

    @property
    def policy(self) -> dict[str, Any]:
        """The policy of the queue."""
        text = self.attributes.get("Policy")
        found: dict[str, Any] = json.loads(text) if text else {"Version": "2012-10-17", "Statement": []}
        return found

    @property
    def is_allowed(self) -> bool:
        """Whether the policy lets the bucket send messages."""
        return any(_allows(statement, self.bucket_arn) for statement in _listed(self.policy.get("Statement")))

    @property
    def own_rules(self) -> list[Mapping[str, Any]]:
        """The rules of the bucket that send to the queue."""
        rules = self.rules.get("QueueConfigurations") or ()
        return [rule for rule in rules if self.queue_arn is not None and rule["QueueArn"] == self.queue_arn]

    @property
    def is_sending(self) -> bool:
        """Whether events of all keys of the path come to the queue."""
        sending = [
            rule for rule in self.own_rules if any(event.startswith(CREATED) for event in rule["Events"])
        ]
        return any(self.place.prefix.startswith(prefix_of(rule)) and not suffix_of(rule) for rule in sending)

    @property
    def is_ours(self) -> bool:
        """Whether the queue was made by ``create``."""
        return self.tags.get(TAG) == OUR_TAG

    @property
    def messages(self) -> dict[str, int]:
        """How many messages wait, and how many somebody has, as SQS estimates."""
        names = {"waiting": "ApproximateNumberOfMessages", "hidden": "ApproximateNumberOfMessagesNotVisible"}
        return {word: int(self.attributes.get(name, 0)) for word, name in names.items()}

    @property
    def problems(self) -> list[str]:
        """Why messages do not come; empty if all is as it should be."""
        if self.url is None:
            return [f"there is no queue {self.place.queue} in {self.region}"]
        found = []
        if not self.is_allowed:
            found.append(f"the policy of the queue does not let bucket {self.place.bucket} send messages")
        if not self.is_sending:
            keys = f"keys that begin with {self.place.prefix}" if self.place.prefix else "all keys"
            found.append(f"bucket {self.place.bucket} does not send the events of {keys} to the queue")
        return found

    @property
    def overlapping(self) -> list[str]:
        """Rules of the bucket because of which S3 refuses another one for the same keys."""
        found = []
        for kind in KINDS:
            for rule in self.rules.get(kind) or ():
                ours, theirs = self.place.prefix, prefix_of(rule)
                overlaps = ours.startswith(theirs) or theirs.startswith(ours)
                if overlaps and any(_same_kind(event) for event in rule["Events"]):
                    found.append(f"{rule.get('Id', '(without an id)')} for {theirs or 'all keys'}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change.

    Attributes:
        what: the thing that is changed. name: its name. details: what is done with it.
        do: makes the change.
    """

    what: str
    name: str
    details: str
    do: Callable[[], None]


class Aws:
    """Asks and changes S3 and SQS, with the credentials of the file system."""

    def __init__(self, storage: Mapping[str, Any]) -> None:
        self._storage = storage
        self.s3 = client("s3", storage)

    def look(self, place: Place) -> Facts:
        """What there is.

        Raises:
            OptionError: the bucket does not exist, or may not be asked.
        """
        location = self._asked("get_bucket_location", Bucket=place.bucket).get("LocationConstraint")
        region = {None: DEFAULT_REGION, "": DEFAULT_REGION, "EU": "eu-west-1"}.get(location, location)
        rules = self._asked("get_bucket_notification_configuration", Bucket=place.bucket)
        rules = {name: value for name, value in rules.items() if name != "ResponseMetadata"}
        sqs = self.sqs(region)
        try:
            url = sqs.get_queue_url(QueueName=place.queue)["QueueUrl"]
        except Exception as error:
            if code_of(error) in _NO_QUEUE:
                return Facts(place=place, region=region, rules=rules)
            raise _refused(f"queue {place.queue}", error) from error
        try:
            asked = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
            tags = sqs.list_queue_tags(QueueUrl=url).get("Tags") or {}
        except Exception as error:
            raise _refused(f"queue {place.queue}", error) from error
        return Facts(
            place=place, region=region, rules=rules, url=url, attributes=asked["Attributes"], tags=tags
        )

    def sqs(self, region: str) -> Any:
        """A client of SQS in the bucket's region, which S3 demands."""
        return client("sqs", self._storage, region=region)

    def creation(self, facts: Facts) -> list[Step]:
        """What is missing, in the order in which it is made.

        Raises:
            OptionError: S3 would refuse the rule.
        """
        if facts.overlapping and not facts.is_sending:
            raise OptionError(
                f"bucket {facts.place.bucket} has rules for the same events of the same keys, and S3 allows "
                f"no second one: {', '.join(facts.overlapping)}",
                remedy="let the bucket send its events to a topic of SNS or to EventBridge, and have them "
                "handed on to both; or choose another path",
            )
        place, steps = facts.place, []
        if facts.url is None:
            days = int(QUEUE_ATTRIBUTES["MessageRetentionPeriod"]) // 86_400
            details = f"in {facts.region}; keeps messages for {days} days"
            steps.append(Step(what="queue", name=place.queue, details=details, do=lambda: self._make(facts)))
        if not facts.is_allowed:
            details = f"s3.amazonaws.com may send messages for bucket {place.bucket}"
            steps.append(
                Step(
                    what="policy", name=place.queue, details=details, do=lambda: self._allow(self.look(place))
                )
            )
        if not facts.is_sending:
            details = f"{', '.join(EVENTS)} of {place.prefix or 'all keys'} to {place.queue}"
            steps.append(
                Step(
                    what="events",
                    name=place.bucket,
                    details=details,
                    do=lambda: self._connect(self.look(place)),
                )
            )
        return steps

    def removal(self, facts: Facts) -> list[Step]:
        """What ``create`` has made and is still there."""
        steps = []
        if any(map(_is_ours, facts.own_rules)):
            steps.append(
                Step(
                    what="events",
                    name=facts.place.bucket,
                    details=f"no more events to {facts.place.queue}",
                    do=lambda: self._disconnect(facts),
                )
            )
        if facts.url is not None and facts.is_ours:
            details = f"with {sum(facts.messages.values()):,} messages"
            steps.append(
                Step(what="queue", name=facts.place.queue, details=details, do=lambda: self._delete(facts))
            )
        return steps

    def do(self, step: Step) -> None:
        """Make a change.

        Raises:
            OptionError: it was refused.
        """
        try:
            step.do()
        except Exception as error:
            raise _refused(f"{step.what} {step.name}", error) from error

    def _asked(self, call: str, **arguments: str) -> Any:
        try:
            return getattr(self.s3, call)(**arguments)
        except Exception as error:
            raise _refused(f"bucket {arguments['Bucket']}", error) from error

    def _make(self, facts: Facts) -> None:
        self.sqs(facts.region).create_queue(
            QueueName=facts.place.queue, Attributes=QUEUE_ATTRIBUTES, tags={TAG: OUR_TAG}
        )

    def _allow(self, facts: Facts) -> None:
        assert facts.queue_arn is not None
        statement = {
            "Sid": f"flip27-{facts.place.bucket}",
            "Effect": "Allow",
            "Principal": {"Service": "s3.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": facts.queue_arn,
            "Condition": {
                "ArnEquals": {"aws:SourceArn": facts.bucket_arn},
                "StringEquals": {"aws:SourceAccount": facts.queue_arn.split(":")[4]},
            },
        }
        policy = facts.policy
        policy["Statement"] = [*_listed(policy.get("Statement")), statement]
        self.sqs(facts.region).set_queue_attributes(
            QueueUrl=facts.url, Attributes={"Policy": json.dumps(policy)}
        )

    def _connect(self, facts: Facts) -> None:
        rule: dict[str, Any] = {"Id": facts.place.rule, "QueueArn": facts.queue_arn, "Events": list(EVENTS)}
        if facts.place.prefix:
            rules = [{"Name": "prefix", "Value": facts.place.prefix}]
            rule["Filter"] = {"Key": {"FilterRules": rules}}
        self._put_rules(facts, [*(facts.rules.get("QueueConfigurations") or ()), rule])

    def _disconnect(self, facts: Facts) -> None:
        rules = facts.rules.get("QueueConfigurations") or ()
        ours = [rule for rule in facts.own_rules if _is_ours(rule)]
        self._put_rules(facts, [rule for rule in rules if rule not in ours])

    def _put_rules(self, facts: Facts, of_queues: Sequence[Mapping[str, Any]]) -> None:
        """Replace the rules for queues; S3 takes the whole configuration, so the others are sent back."""
        rules = {**facts.rules, "QueueConfigurations": list(of_queues)}
        self.s3.put_bucket_notification_configuration(
            Bucket=facts.place.bucket, NotificationConfiguration=rules
        )

    def _delete(self, facts: Facts) -> None:
        self.sqs(facts.region).delete_queue(QueueUrl=facts.url)


def prefix_of(rule: Mapping[str, Any]) -> str:
    """The prefix of the keys of a rule; empty for all."""
    return _filter_of(rule, "prefix")


def suffix_of(rule: Mapping[str, Any]) -> str:
    """The suffix of the keys of a rule; empty for all."""
    return _filter_of(rule, "suffix")


def _filter_of(rule: Mapping[str, Any], name: str) -> str:
    rules = ((rule.get("Filter") or {}).get("Key") or {}).get("FilterRules") or ()
    return next((str(one["Value"]) for one in rules if one["Name"].lower() == name), "")


def _same_kind(event: str) -> bool:
    return event.startswith(tuple(one.rstrip("*") for one in EVENTS))


def _is_ours(rule: Mapping[str, Any]) -> bool:
    return str(rule.get("Id", "")).startswith(RULE_START)


def _allows(statement: Mapping[str, Any], bucket_arn: str) -> bool:
    principal = statement.get("Principal")
    services = _listed(principal.get("Service")) if isinstance(principal, dict) else ()
    is_s3 = principal == "*" or "s3.amazonaws.com" in services
    actions = {str(action).lower() for action in _listed(statement.get("Action"))}
    sends = bool(actions & {"sqs:sendmessage", "sqs:*", "*"})
    sources = list(_sources(statement.get("Condition") or {}))
    # A pattern of several buckets ends in *.
    from_here = not sources or any(
        bucket_arn == one or (one.endswith("*") and bucket_arn.startswith(one[:-1])) for one in sources
    )
    return bool(statement.get("Effect") == "Allow" and is_s3 and sends and from_here)


def _sources(conditions: Mapping[str, Any]) -> Iterator[str]:
    for condition in conditions.values():
        for name, value in condition.items():
            if name.lower() == "aws:sourcearn":
                yield from map(str, _listed(value))


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _refused(what: str, error: Exception) -> OptionError:
    return OptionError(f"{what}: {type(error).__name__}: {error}", remedy=_RIGHTS)
