"""What AWS has for the notifications of a path: a queue, its policy and the rules of the bucket. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
        queue: the name of the queue.
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
        found = _NOT_SPECIAL.match(self.prefix)
        return found[0] if found else ""

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
    """The bucket and the prefix of a path, which may have globs.

    Raises:
        OptionError: the path is not one of S3, or the name not one of a queue.
    """
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme not in ("s3", "s3a") or not bucket or has_glob(bucket):
        raise OptionError(
            f"path {path} is not in a bucket of S3",
            remedy="give the path of the source: s3://bucket/landing; create queues of other services with "
            "the tools of these services",
        )
    first_glob = next((i for i, char in enumerate(key) if char in "*?[{"), None)
    prefix = key.rstrip("/") + "/" if key.rstrip("/") else ""
    if first_glob is not None:
        prefix = key[:first_glob]
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
        return any(_allows(statement, self.bucket_arn) for statement in listed(self.policy.get("Statement")))

    @property
    def own_rules(self) -> list[Mapping[str, Any]]:
        """The rules of the bucket that send to the queue."""
        rules = self.rules.get("QueueConfigurations") or ()
        return [rule for rule in rules if self.queue_arn is not None and rule["QueueArn"] == self.queue_arn]

    @property
    def is_sending(self) -> bool:
        """Whether the queue gets the events of all keys of the path."""
        events = {
            event
            for rule in self.own_rules
            if self.place.prefix.startswith(prefix_of(rule)) and not suffix_of(rule)
            for event in rule["Events"]
        }
        return f"{CREATED}*" in events or events >= WRITES

    @property
    def rules_of_path(self) -> list[Mapping[str, Any]]:
        """The rules that ``create`` has made for the path, or for a path below it."""
        start = self.place.rule_prefix
        return [rule for rule in self.own_rules if _is_ours(rule) and prefix_of(rule).startswith(start)]

    @property
    def keys_of_path(self) -> str:
        """The description of the keys of those rules in messages."""
        return ", ".join(keys_text(prefix_of(rule)) for rule in self.rules_of_path)

    @property
    def rules_of_other_paths(self) -> list[Mapping[str, Any]]:
        """The other rules of the bucket that send to the queue."""
        return [rule for rule in self.own_rules if rule not in self.rules_of_path]

    @property
    def has_statement(self) -> bool:
        """Whether the policy has the statement that ``create`` adds for the bucket."""
        return any(one.get("Sid") == self.place.sid for one in listed(self.policy.get("Statement")))

    @property
    def rules_without_path(self) -> list[Mapping[str, Any]]:
        """All rules for queues except those of the path."""
        rules = self.rules.get("QueueConfigurations") or ()
        return [rule for rule in rules if rule not in self.rules_of_path]

    @property
    def statements_without_bucket(self) -> list[Mapping[str, Any]]:
        """The statements of the policy except the one that ``create`` adds for the bucket."""
        return [one for one in listed(self.policy.get("Statement")) if one.get("Sid") != self.place.sid]

    @property
    def others(self) -> list[str]:
        """The other senders to the queue: other keys of the bucket, and buckets that ``create`` has added."""
        sids = (str(one.get("Sid", "")) for one in self.statements_without_bucket)
        buckets = [sid.removeprefix(SID_START) for sid in sids if sid.startswith(SID_START)]
        paths = [keys_text(prefix_of(rule)) for rule in self.rules_of_other_paths]
        return [f"{keys} in bucket {self.place.bucket}" for keys in paths] + [
            f"bucket {bucket}" for bucket in buckets
        ]

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
        found = []
        if not self.is_allowed:
            found.append(f"the policy of the queue does not let bucket {self.place.bucket} send messages")
        if not self.is_sending:
            keys = keys_text(self.place.prefix)
            problem = f"bucket {self.place.bucket} does not send all events of {keys} to the queue"
            if self.rules.get("TopicConfigurations") or "EventBridgeConfiguration" in self.rules:
                problem += "; whether they come through SNS or EventBridge was not checked"
            found.append(problem)
        return found

    @property
    def overlapping(self) -> list[str]:
        """Rules of the bucket because of which S3 refuses another one for the same keys."""
        found = []
        for kind in KINDS:
            for rule in self.rules.get(kind) or ():
                if rule in self.rules_of_path:
                    continue
                ours, theirs = self.place.rule_prefix, prefix_of(rule)
                overlaps = ours.startswith(theirs) or theirs.startswith(ours)
                if overlaps and any(_same_kind(event) for event in rule["Events"]):
                    found.append(f"{rule.get('Id', '(without an id)')} for {theirs or 'all keys'}")
        return found


def keys_text(prefix: str) -> str:
    """The description of the keys with a prefix in messages."""
    return f"keys that begin with {prefix}" if prefix else "all keys"


def prefix_of(rule: Mapping[str, Any]) -> str:
    """The prefix of the keys of a rule; empty for all."""
    return _filter_of(rule, "prefix")


def suffix_of(rule: Mapping[str, Any]) -> str:
    """The suffix of the keys of a rule; empty for all."""
    return _filter_of(rule, "suffix")


def _filter_of(rule: Mapping[str, Any], name: str) -> str:
    rules = ((rule.get("Filter") or {}).get("Key") or {}).get("FilterRules") or ()
    return next((unquote_plus(str(one["Value"])) for one in rules if one["Name"].lower() == name), "")


def _same_kind(event: str) -> bool:
    return event.startswith(tuple(one.rstrip("*") for one in EVENTS))


def _is_ours(rule: Mapping[str, Any]) -> bool:
    return str(rule.get("Id", "")).startswith(RULE_START)


def _allows(statement: Mapping[str, Any], bucket_arn: str) -> bool:
    principal = statement.get("Principal")
    named = principal if isinstance(principal, dict) else {"AWS": principal}
    is_s3 = "*" in listed(named.get("AWS")) or "s3.amazonaws.com" in listed(named.get("Service"))
    actions = {str(action).lower() for action in listed(statement.get("Action"))}
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
                yield from map(str, listed(value))


def listed(value: Any) -> list[Any]:
    """A value of AWS as a list: AWS may write a list with one item as the item alone."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
