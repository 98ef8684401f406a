"""What AWS has for the notifications of a path: a queue, its policy and the rules of the bucket. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote_plus

from flip27_source.enumerators.files.globs import has_glob
from flip27_source.errors import OptionError
from flip27_source.segment import content_digest

EVENTS = ("s3:ObjectCreated:*", "s3:ObjectRemoved:*")
CREATED = "s3:ObjectCreated:"
WRITES = frozenset(f"{CREATED}{how}" for how in ("Put", "Post", "Copy", "CompleteMultipartUpload"))
RULE_START = SID_START = "flip27-"
TAG = "created-by"
OUR_TAG = "flip27"
KINDS = ("QueueConfigurations", "TopicConfigurations", "LambdaFunctionConfigurations")

_QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_NOT_SPECIAL = re.compile(r"[A-Za-z0-9/!_.'()-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The bucket that sends events, and the queue that receives them.

    Attributes:
        prefix: the prefix of the path's keys; empty for all keys.
    """

    bucket: str
    prefix: str
    queue: str

    @property
    def rule_prefix(self) -> str:
        """The prefix of the bucket's rule, which ends before the first special character.

        S3 requires these characters to be encoded, and S3-compatible servers do not. Messages about other
        objects do no harm.
        """
        start = _NOT_SPECIAL.match(self.prefix)
        return start[0] if start else ""

    @property
    def rule(self) -> str:
        """The id of the bucket's rule: a queue may get the events of several prefixes."""
        name = self.queue.removeprefix(RULE_START)
        return f"{RULE_START}{name}-{content_digest(self.rule_prefix.encode())[:8]}"

    @property
    def sid(self) -> str:
        """The id of the statement in the queue's policy."""
        return f"{SID_START}{self.bucket.replace('.', '-')}"


def place_of(path: str, queue: str | None) -> Place:
    """The bucket and the prefix of a path, which may have globs."""
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme not in ("s3", "s3a") or not bucket or has_glob(bucket):
        raise OptionError(
            f"path {path} is not in a bucket of S3",
            remedy="give the path of the source: s3://bucket/landing; create queues of other services with "
            "the tools of these services",
        )
    prefix = re.split(r"[*?\[{]", key)[0]
    if not has_glob(key):
        prefix = f"{key.rstrip('/')}/" if key.strip("/") else ""
    name = queue or f"flip27-{bucket.replace('.', '-')}"
    if not _QUEUE_NAME.fullmatch(name):
        raise OptionError(
            f"{name!r} cannot be the name of a queue: SQS takes 1 to 80 letters, digits, hyphens and "
            "underscores, and S3 sends no events to FIFO queues",
            remedy="give another name: --queue NAME",
        )
    return Place(bucket=bucket, prefix=prefix, queue=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The current setup on AWS.

    Attributes:
        url, attributes, tags: of the queue; None and empty if there is no queue.
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
        partition = {"cn": "aws-cn", "us-gov": "aws-us-gov"}
        names = (name for start, name in partition.items() if self.region.startswith(start))
        return f"arn:{next(names, 'aws')}:s3:::{self.place.bucket}"

    @property
    def queue_arn(self) -> str | None:
        """The name of the queue in policies; None if there is no queue."""
        return self.attributes.get("QueueArn")

    @property
    def policy(self) -> dict[str, Any]:
        text = self.attributes.get("Policy")
        policy: dict[str, Any] = json.loads(text) if text else {"Version": "2012-10-17", "Statement": []}
        return policy

    @property
    def statements(self) -> list[Mapping[str, Any]]:
        return listed(self.policy.get("Statement"))

    @property
    def other_statements(self) -> list[Mapping[str, Any]]:
        """The statements of the policy except the one that ``create`` adds for the bucket."""
        return [statement for statement in self.statements if statement.get("Sid") != self.place.sid]

    @property
    def statement(self) -> dict[str, Any]:
        """That statement: it lets the bucket send messages."""
        assert self.queue_arn is not None
        return {
            "Sid": self.place.sid,
            "Effect": "Allow",
            "Principal": {"Service": "s3.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": self.queue_arn,
            "Condition": {
                "ArnEquals": {"aws:SourceArn": self.bucket_arn},
                "StringEquals": {"aws:SourceAccount": self.queue_arn.split(":")[4]},
            },
        }

    @property
    def is_allowed(self) -> bool:
        """Whether the policy lets the bucket send messages."""
        return any(_allows(statement, self.bucket_arn) for statement in self.statements)

    @property
    def rules_of_queues(self) -> list[Mapping[str, Any]]:
        """The rules of the bucket that send to a queue."""
        return list(self.rules.get("QueueConfigurations") or ())

    @property
    def own_rules(self) -> list[Mapping[str, Any]]:
        """The rules of the bucket that send to this queue."""
        return [rule for rule in self.rules_of_queues if rule["QueueArn"] == self.queue_arn]

    @property
    def rules_of_path(self) -> list[Mapping[str, Any]]:
        """The rules that ``create`` has made for the path, or for a path below it."""
        return [
            rule
            for rule in self.own_rules
            if str(rule.get("Id", "")).startswith(RULE_START)
            and prefix_of(rule).startswith(self.place.rule_prefix)
        ]

    @property
    def rule(self) -> dict[str, Any]:
        rule: dict[str, Any] = {"Id": self.place.rule, "QueueArn": self.queue_arn, "Events": list(EVENTS)}
        if self.place.rule_prefix:
            prefix = {"Name": "prefix", "Value": self.place.rule_prefix}
            rule["Filter"] = {"Key": {"FilterRules": [prefix]}}
        return rule

    @property
    def keys_of_path(self) -> str:
        """The description of the keys of those rules in messages."""
        return ", ".join(keys_text(prefix_of(rule)) for rule in self.rules_of_path)

    @property
    def rules_of_other_paths(self) -> list[Mapping[str, Any]]:
        """The other rules of the bucket that send to this queue."""
        return [rule for rule in self.own_rules if rule not in self.rules_of_path]

    @property
    def is_sending(self) -> bool:
        """Whether the queue gets the events of all keys of the path."""
        events = {
            event
            for rule in self.own_rules
            if self.place.prefix.startswith(prefix_of(rule)) and not _filter_of(rule, "suffix")
            for event in rule["Events"]
        }
        return f"{CREATED}*" in events or events >= WRITES

    @property
    def others(self) -> list[str]:
        """The other senders to the queue: other keys of the bucket, and whoever its policy allows to send."""
        paths = [keys_text(prefix_of(rule)) for rule in self.rules_of_other_paths]
        senders = [f"{keys} in bucket {self.place.bucket}" for keys in paths]
        for statement in self.other_statements:
            sid = str(statement.get("Sid", ""))
            if sid.startswith(SID_START):
                senders.append(f"bucket {sid.removeprefix(SID_START)}")
            elif _may_send(statement) and not self._is_for_the_owner(statement):
                senders.append(f"whoever statement {sid or '(without an id)'} of its policy allows to send")
        return senders

    def _is_for_the_owner(self, statement: Mapping[str, Any]) -> bool:
        account = (self.queue_arn or "").split(":")[4]
        principal = statement.get("Principal")
        named = listed(principal.get("AWS")) if isinstance(principal, dict) and len(principal) == 1 else []
        return bool(named) and {account, f"arn:aws:iam::{account}:root"}.issuperset(named)

    @property
    def is_ours(self) -> bool:
        """Whether the queue was made by ``create``."""
        return self.tags.get(TAG) == OUR_TAG

    @property
    def messages(self) -> dict[str, int]:
        """How many messages wait, and how many are hidden by a receiver, as SQS estimates."""
        names = {"waiting": "ApproximateNumberOfMessages", "hidden": "ApproximateNumberOfMessagesNotVisible"}
        return {word: int(self.attributes.get(name, 0)) for word, name in names.items()}

    @property
    def problems(self) -> list[str]:
        """The reasons why messages do not arrive; empty if the setup is complete."""
        if self.url is None:
            return [f"there is no queue {self.place.queue} in {self.region}"]
        problems = []
        if not self.is_allowed:
            problems.append(f"the policy of the queue does not let bucket {self.place.bucket} send messages")
        if not self.is_sending:
            keys = keys_text(self.place.prefix)
            problem = f"bucket {self.place.bucket} does not send all events of {keys} to the queue"
            if self.rules.get("TopicConfigurations") or "EventBridgeConfiguration" in self.rules:
                problem += "; whether they come through SNS or EventBridge was not checked"
            problems.append(problem)
        return problems

    @property
    def overlapping(self) -> list[str]:
        """Rules of the bucket because of which S3 refuses another one for the same keys."""
        ours, kinds = self.place.rule_prefix, tuple(event.rstrip("*") for event in EVENTS)
        return [
            f"{rule.get('Id', '(without an id)')} for {prefix_of(rule) or 'all keys'}"
            for rule in (rule for kind in KINDS for rule in self.rules.get(kind) or ())
            if rule not in self.rules_of_path
            and (ours.startswith(prefix_of(rule)) or prefix_of(rule).startswith(ours))
            and any(event.startswith(kinds) for event in rule["Events"])
        ]


def keys_text(prefix: str) -> str:
    """The description of the keys with a prefix in messages."""
    return f"keys that begin with {prefix}" if prefix else "all keys"


def prefix_of(rule: Mapping[str, Any]) -> str:
    """The prefix of the keys of a rule; empty for all."""
    return _filter_of(rule, "prefix")


def _filter_of(rule: Mapping[str, Any], name: str) -> str:
    rules = ((rule.get("Filter") or {}).get("Key") or {}).get("FilterRules") or ()
    return next((unquote_plus(str(one["Value"])) for one in rules if one["Name"].lower() == name), "")


def _may_send(statement: Mapping[str, Any]) -> bool:
    # AWS matches * and ? in actions, whatever their case; "NotAction" allows all others.
    actions = [str(action).lower() for action in listed(statement.get("Action"))]
    sends = "NotAction" in statement or any(fnmatchcase("sqs:sendmessage", action) for action in actions)
    return statement.get("Effect") == "Allow" and sends


def _allows(statement: Mapping[str, Any], bucket_arn: str) -> bool:
    principal = statement.get("Principal")
    named = principal if isinstance(principal, dict) else {"AWS": principal}
    is_s3 = "*" in listed(named.get("AWS")) or "s3.amazonaws.com" in listed(named.get("Service"))
    sources = [
        str(source)
        for condition in (statement.get("Condition") or {}).values()
        for name, value in condition.items()
        if name.lower() == "aws:sourcearn"
        for source in listed(value)
    ]
    # A pattern of several buckets ends in *.
    from_here = not sources or any(
        bucket_arn == source or (source.endswith("*") and bucket_arn.startswith(source[:-1]))
        for source in sources
    )
    return is_s3 and from_here and _may_send(statement)


def listed(value: Any) -> list[Any]:
    """A value of AWS as a list: AWS may write a list with one item as the item alone."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
