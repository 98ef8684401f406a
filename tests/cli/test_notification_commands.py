"""``flip27 notifications`` on a real server.

The queues and rules that it creates deliver events, and other rules stay unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from flip27_source.cli.app import whole_app
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.notifications.sqs import client
from flip27_source.enumerators.files.notifications.sqs_facts import place_of
from flip27_source.enumerators.files.notifications.sqs_setup import Aws
from flip27_source.errors import OptionError
from flip27_source.options import Options
from flip27_source.source_options import CORE_OPTIONS
from flip27_source.testing import MicroBatchEngine
from tests.cli.command_line import flip27, storage
from tests.file_queues import FileQueue, new_queue
from tests.quick_moto import ACCOUNT, Application, Front
from tests.s3_server import S3Bucket, new_bucket, s3_endpoint


def words(bucket: S3Bucket, verb: str, path: str = "landing", *more: str) -> Sequence[str]:
    return ("notifications", verb, f"s3://{bucket.name}/{path}", *more, *storage(bucket.storage_options))


def rules(bucket: S3Bucket) -> dict[str, Any]:
    found: dict[str, Any] = client("s3", bucket.storage_options).get_bucket_notification_configuration(
        Bucket=bucket.name
    )
    return {name: value for name, value in found.items() if name != "ResponseMetadata"}


def prefixes(bucket: S3Bucket) -> list[str]:
    found = rules(bucket).get("QueueConfigurations", ())
    return [rule["Filter"]["Key"]["FilterRules"][0]["Value"] for rule in found]


def do_all(aws: Aws, steps: Iterable[Any]) -> None:
    for step in steps:
        aws.do(step)


def put_rule(bucket: S3Bucket, rule: dict[str, Any]) -> None:
    client("s3", bucket.storage_options).put_bucket_notification_configuration(
        Bucket=bucket.name, NotificationConfiguration={"QueueConfigurations": [rule]}
    )


def queue_of(bucket: S3Bucket, url: str) -> FileQueue:
    return FileQueue(url=url, client=client("sqs", bucket.storage_options))


def test_a_dry_run_reports_what_is_missing_and_creates_nothing(s3_bucket: S3Bucket) -> None:
    said = flip27(*words(s3_bucket, "create"))
    assert said.code == 0
    assert [line[:3] for line in said.lines[1:]] == [
        ["queue", f"flip27-{s3_bucket.name}", "would be created"],
        ["policy", f"flip27-{s3_bucket.name}", "would be created"],
        ["events", s3_bucket.name, "would be created"],
    ]
    assert "nothing was changed" in said.err
    assert rules(s3_bucket) == {}
    in_capitals = [word.replace("s3://", "S3://") for word in words(s3_bucket, "show")]
    shown = flip27(*in_capitals, "--json")
    assert shown.code == 3
    assert shown.data["problems"] == [f"there is no queue flip27-{s3_bucket.name} in us-east-1"]


def test_a_created_queue_receives_the_events_of_its_path_and_can_be_shown_and_dropped(
    s3_bucket: S3Bucket,
) -> None:
    made = flip27(*words(s3_bucket, "create", "landing/2026-*"), "--execute", "--yes", "--json")
    assert made.data["is_done"]
    assert [change["what"] for change in made.data["changes"]] == ["queue", "policy", "events"]
    again = flip27(*words(s3_bucket, "create", "landing/2026-*"), "--execute", "--yes", "--json")
    assert again.data["changes"] == []
    for key in ("landing/2026-01/a", "landing/2025-01/b", "elsewhere"):
        s3_bucket.file_system.pipe_file(f"{s3_bucket.name}/{key}", b"x")
    queue = queue_of(s3_bucket, made.data["queue"])
    bodies = [
        json.loads(one["Body"])
        for one in queue.client.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10)["Messages"]
    ]
    keys = [body["Records"][0]["s3"]["object"]["key"] for body in bodies if "Records" in body]
    assert keys == ["landing%2F2026-01%2Fa"]
    shown = flip27(*words(s3_bucket, "show", "landing/2026-*"), "--json")
    assert (shown.code, shown.data["problems"], shown.data["hidden"]) == (0, [], len(bodies))
    wider = flip27(*words(s3_bucket, "show", "landing"), "--json")
    assert wider.code == 3
    assert "does not send all events of keys that begin with landing/" in wider.data["problems"][0]
    assert flip27(*words(s3_bucket, "drop")).code == 0
    assert rules(s3_bucket) != {}
    dropped = flip27(*words(s3_bucket, "drop"), "--execute", "--yes", "--json")
    assert [change["what"] for change in dropped.data["changes"]] == ["events", "queue"]
    assert rules(s3_bucket) == {}
    assert flip27(*words(s3_bucket, "drop"), "--json").data["changes"] == []


def test_rules_and_policy_statements_that_flip27_did_not_create_are_kept(s3_bucket: S3Bucket) -> None:
    sqs = client("sqs", s3_bucket.storage_options)
    url = sqs.create_queue(QueueName=f"theirs-{s3_bucket.name}")["QueueUrl"]
    queue = queue_of(s3_bucket, url)
    statement = {"Sid": "theirs", "Effect": "Allow", "Principal": "*", "Action": "sqs:GetQueueUrl"}
    policy = {"Version": "2012-10-17", "Statement": [{**statement, "Resource": queue.arn}]}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
    theirs = {"Id": "theirs", "QueueArn": queue.arn, "Events": ["s3:ObjectCreated:*"]}
    theirs["Filter"] = {"Key": {"FilterRules": [{"Name": "prefix", "Value": "theirs/"}]}}
    put_rule(s3_bucket, theirs)
    given = ("--queue", queue.name, "--execute", "--yes", "--json")
    made = flip27(*words(s3_bucket, "create"), *given)
    assert [change["what"] for change in made.data["changes"]] == ["policy", "events"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]
    sids = [one["Sid"] for one in json.loads(attributes["Policy"])["Statement"]]
    assert sids == ["theirs", f"flip27-{s3_bucket.name}"]
    assert len(rules(s3_bucket)["QueueConfigurations"]) == 2
    dropped = flip27(*words(s3_bucket, "drop"), *given)
    assert [change["what"] for change in dropped.data["changes"]] == ["events"]
    assert [rule["Id"] for rule in rules(s3_bucket)["QueueConfigurations"]] == ["theirs"]
    assert "has not created it" in flip27(*words(s3_bucket, "drop"), "--queue", queue.name).err


def test_the_error_names_the_rule_of_others_that_conflicts_with_a_new_rule(s3_bucket: S3Bucket) -> None:
    sqs = client("sqs", s3_bucket.storage_options)
    queue = queue_of(s3_bucket, sqs.create_queue(QueueName=f"theirs-{s3_bucket.name}")["QueueUrl"])
    rule = {"Id": "theirs", "QueueArn": queue.arn, "Events": ["s3:ObjectCreated:Put"]}
    put_rule(s3_bucket, rule)
    said = flip27(*words(s3_bucket, "create"), "--execute", "--yes")
    assert said.code == 1
    assert "theirs for all keys" in said.err
    assert "EventBridge" in said.err


@pytest.mark.parametrize("path", ["/landing", "abfs://landing/a", "s3://", "s3://land*/a"])
def test_a_path_outside_any_bucket_is_refused(path: str) -> None:
    said = flip27("notifications", "show", path)
    assert said.code == 1
    assert "is not in a bucket of S3" in said.err


@pytest.mark.parametrize(
    ("path", "prefix"), [("", ""), ("/", ""), ("/a", "a/"), ("/a/", "a/"), ("//a", "/a/"), ("/a/b*/c", "a/b")]
)
def test_the_prefix_of_a_path_has_its_keys(path: str, prefix: str) -> None:
    assert place_of(f"s3://bucket{path}", None).prefix == prefix


@pytest.mark.parametrize("name", ["landing.fifo", "new orders", "x" * 81])
def test_an_invalid_queue_name_is_refused(s3_bucket: S3Bucket, name: str) -> None:
    said = flip27(*words(s3_bucket, "create"), "--queue", name)
    assert said.code == 1
    assert f"{name!r} cannot be the name of a queue" in " ".join(said.err.split())


def test_a_bucket_that_does_not_exist_is_named(s3_bucket: S3Bucket) -> None:
    said = flip27("notifications", "show", "s3://no-such-bucket/a", *storage(s3_bucket.storage_options))
    assert said.code == 1
    assert "no-such-bucket" in said.err
    assert "correct the path, or create the bucket first" in said.err


def test_dropping_a_path_removes_its_events_and_keeps_the_queue_for_another_path(s3_bucket: S3Bucket) -> None:
    given = ("--execute", "--yes", "--json")
    flip27(*words(s3_bucket, "create", "orders"), *given)
    second = flip27(*words(s3_bucket, "create", "returns"), "--execute", "--yes")
    assert f"also gets the events of keys that begin with orders/ in bucket {s3_bucket.name}" in second.err
    dropped = flip27(*words(s3_bucket, "drop", "orders"), *given)
    assert [change["what"] for change in dropped.data["changes"]] == ["events"]
    assert prefixes(s3_bucket) == ["returns/"]
    assert flip27(*words(s3_bucket, "show", "returns")).code == 0
    last = flip27(*words(s3_bucket, "drop", "returns"), *given)
    assert [change["what"] for change in last.data["changes"]] == ["events", "queue"]


def test_a_queue_that_another_bucket_sends_to_is_kept(s3_bucket: S3Bucket) -> None:
    other = new_bucket(s3_bucket.storage_options["endpoint_url"])
    given = ("--queue", f"shared-{s3_bucket.name}", "--execute", "--yes", "--json")
    for bucket in (s3_bucket, other):
        assert flip27(*words(bucket, "create"), *given).data["is_done"]
    dropped = flip27(*words(s3_bucket, "drop"), *given)
    assert [change["what"] for change in dropped.data["changes"]] == ["events", "policy"]
    assert flip27(*words(other, "show"), *given[:2]).code == 0
    last = flip27(*words(other, "drop"), *given)
    assert [change["what"] for change in last.data["changes"]] == ["events", "queue"]


def policy_of(queue: FileQueue) -> dict[str, Any]:
    answer = queue.client.get_queue_attributes(QueueUrl=queue.url, AttributeNames=["Policy"])
    policy: dict[str, Any] = json.loads(answer["Attributes"]["Policy"])
    return policy


def add_statement(queue: FileQueue, statement: dict[str, Any]) -> None:
    policy = policy_of(queue)
    policy["Statement"].append({"Effect": "Allow", "Resource": queue.arn, **statement})
    queue.client.set_queue_attributes(QueueUrl=queue.url, Attributes={"Policy": json.dumps(policy)})


@pytest.mark.parametrize(
    "actions",
    [{"Action": ["SQS:SendMessage"]}, {"Action": "sqs:Send*"}, {"NotAction": "sqs:DeleteQueue"}],
    ids=["send", "pattern", "not"],
)
def test_a_queue_that_others_may_send_to_is_kept(s3_bucket: S3Bucket, actions: dict[str, Any]) -> None:
    """A topic of SNS, for example: a user has added the statement to the policy of our queue."""
    given = ("--execute", "--yes", "--json")
    queue = queue_of(s3_bucket, flip27(*words(s3_bucket, "create"), *given).data["queue"])
    topic = {"Service": "sns.amazonaws.com"}
    add_statement(queue, {"Sid": "topic", "Principal": topic, **actions})
    assert "whoever statement topic of its policy allows to send" in flip27(*words(s3_bucket, "drop")).err
    dropped = flip27(*words(s3_bucket, "drop"), *given)
    assert [change["what"] for change in dropped.data["changes"]] == ["events", "policy"]
    assert [statement["Sid"] for statement in policy_of(queue)["Statement"]] == ["topic"]


def test_a_statement_for_the_owner_of_the_queue_does_not_keep_it(s3_bucket: S3Bucket) -> None:
    """AWS's console adds it when somebody edits the policy."""
    given = ("--execute", "--yes", "--json")
    queue = queue_of(s3_bucket, flip27(*words(s3_bucket, "create"), *given).data["queue"])
    owner = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
    add_statement(queue, {"Sid": "__owner_statement", "Principal": owner, "Action": "SQS:*"})
    dropped = flip27(*words(s3_bucket, "drop"), *given)
    assert [change["what"] for change in dropped.data["changes"]] == ["events", "queue"]


def test_a_queue_that_gets_another_sender_before_the_confirmation_is_kept() -> None:
    with s3_endpoint() as endpoint:
        bucket = new_bucket(endpoint)
        aws = Aws(bucket.storage_options, pauses_s=(0.0,))
        orders, returns = (place_of(f"s3://{bucket.name}/{path}", "shared") for path in ("orders", "returns"))
        do_all(aws, aws.creation(aws.facts_of(orders)))
        events, queue = aws.removal(aws.facts_of(orders))
        do_all(aws, aws.creation(aws.facts_of(returns)))
        aws.do(events)
        with pytest.raises(OptionError, match="queue shared was not deleted: it now also gets"):
            aws.do(queue)
        assert aws.facts_of(returns).problems == []


def test_a_rule_for_a_parent_path_replaces_the_rule_for_a_path_below_it(s3_bucket: S3Bucket) -> None:
    flip27(*words(s3_bucket, "create", "landing/2026"), "--execute", "--yes")
    wider = flip27(*words(s3_bucket, "create", "landing"), "--execute", "--yes", "--json")
    [change] = wider.data["changes"]
    assert change["details"].endswith("instead of keys that begin with landing/2026/")
    assert prefixes(s3_bucket) == ["landing/"]


def test_the_prefix_of_a_rule_stops_before_characters_that_s3_requires_to_be_encoded(
    s3_bucket: S3Bucket,
) -> None:
    path = "landing/year=2026/new orders"
    made = flip27(*words(s3_bucket, "create", path), "--execute", "--yes", "--json")
    assert made.data["prefix"] == f"{path}/"
    assert prefixes(s3_bucket) == ["landing/year"]
    assert flip27(*words(s3_bucket, "show", path)).code == 0
    assert flip27(*words(s3_bucket, "create", path), "--json").data["changes"] == []


def test_show_reports_a_rule_that_leaves_out_multipart_uploads(s3_bucket: S3Bucket) -> None:
    url = flip27(*words(s3_bucket, "create"), "--execute", "--yes", "--json").data["queue"]
    rule = {"Id": "theirs", "QueueArn": queue_of(s3_bucket, url).arn}
    for events, code in (["Put"], 3), (["Put", "Post", "Copy", "CompleteMultipartUpload"], 0):
        named = [f"s3:ObjectCreated:{event}" for event in events]
        put_rule(s3_bucket, {**rule, "Events": named})
        assert flip27(*words(s3_bucket, "show")).code == code


class NewPolicies(Front):
    """A server that refuses the first two requests for a rule, as S3 does while a queue's policy is new."""

    def __init__(self) -> None:
        self.refused = 0

    def before(self, moto: Application) -> Application:
        def answered(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            asks = environ["REQUEST_METHOD"] == "PUT" and "notification" in environ["QUERY_STRING"]
            if asks and self.refused < 2:
                self.refused += 1
                start_response("400 Bad Request", [("Content-Type", "application/xml")])
                said = "Unable to validate the following destination configurations"
                return [f"<Error><Code>InvalidArgument</Code><Message>{said}</Message></Error>".encode()]
            return moto(environ, start_response)

        return answered


def test_creating_a_rule_is_retried_until_s3_may_send_to_the_new_queue() -> None:
    server = NewPolicies()
    with s3_endpoint(server) as endpoint:
        bucket = new_bucket(endpoint)
        aws = Aws(bucket.storage_options, pauses_s=(0.0, 0.0))
        facts = aws.facts_of(place_of(f"s3://{bucket.name}/landing", None))
        do_all(aws, aws.creation(facts))
        assert aws.facts_of(facts.place).problems == []
        do_all(aws, aws.removal(aws.facts_of(facts.place)))
        server.refused = 0
        impatient = Aws(bucket.storage_options, pauses_s=(0.0,))
        *steps, events = impatient.creation(impatient.facts_of(place_of(f"s3://{bucket.name}/landing", None)))
        do_all(impatient, steps)
        with pytest.raises(OptionError, match="Unable to validate") as refused:
            impatient.do(events)
        assert "key of KMS" in str(refused.value)


def checked(bucket: S3Bucket, state: Path, queue: str) -> list[dict[str, Any]]:
    said = flip27(
        "check", "--path", f"s3://{bucket.name}/landing", "--state", state, "--json",
        "--option", "discovery=notifications", "--option", f"notificationQueues={queue}",
        *storage(bucket.storage_options),
    )  # fmt: skip
    return [finding for finding in said.data["findings"] if finding["check"] == "queue"]


def test_check_tests_whether_the_queue_may_be_read_and_removes_no_message(
    s3_bucket: S3Bucket, tmp_path: Path
) -> None:
    s3_bucket.file_system.pipe_file(f"{s3_bucket.name}/landing/a", b"x")
    queue = new_queue(s3_bucket)
    queue.send("<poison/>")
    [finding] = checked(s3_bucket, tmp_path, queue.url)
    assert finding["status"] == "ok"
    assert "would be ignored, because it is not JSON" in finding["found"]
    assert queue.client.receive_message(QueueUrl=queue.url)["Messages"][0]["Body"] == "<poison/>"
    queue.remove()
    [finding] = checked(s3_bucket, tmp_path, queue.url)
    assert finding["status"] == "failed"
    assert "flip27 notifications create" in finding["remedy"]


@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("verb", ["create", "show", "drop"])
def test_no_command_and_no_error_prints_a_secret(s3_bucket: S3Bucket, verb: str, as_json: list[str]) -> None:
    secret = "hunter2-is-my-secret"
    given = {**s3_bucket.storage_options, "secret": secret, "token": secret}
    words = storage(given)
    said = flip27("notifications", verb, f"s3://{s3_bucket.name}/landing", *words, *as_json)
    assert said.out + said.err
    failed = flip27("notifications", verb, f"s3://me:{secret}@no-such-bucket/landing", *words, *as_json)
    assert failed.code == 1
    assert secret not in said.out + said.err + failed.out + failed.err


@pytest.mark.parametrize("verb", ["create", "show", "drop"])
def test_every_field_of_a_json_answer_is_documented(s3_bucket: S3Bucket, verb: str) -> None:
    data = flip27(*words(s3_bucket, verb), "--json").data
    command = dict(typer.main.get_command(whole_app()).commands["notifications"].commands)[verb]  # type: ignore[attr-defined]
    assert set(data) <= set(re.findall(r"\w+", command.epilog.partition("JSON: ")[2]))


def test_a_retired_query_leaves_no_queue_if_flip27_created_it(s3_bucket: S3Bucket, tmp_path: Path) -> None:
    paths = [f"s3://{s3_bucket.name}/{folder}" for folder in ("landing", "late")]
    for path in ("landing", "late"):
        made = flip27(*words(s3_bucket, "create", path), "--execute", "--yes", "--json")
        s3_bucket.file_system.pipe_file(f"{s3_bucket.name}/{path}/a", b"a")
    asked = {"paths": ",".join(paths), "notificationQueues": made.data["queue"]}
    engine = MicroBatchEngine(
        {
            "enumerator": "files", "reader": "text", "discovery": "notifications",
            "stateLocation": str(tmp_path / "state"), **asked, **s3_bucket.options,
        },
        available_now=True,
    )  # fmt: skip
    engine.process_all_available()
    engine.stop()
    retire = ["retire", tmp_path / "state", *storage(s3_bucket.storage_options), "--json"]
    unknown = flip27(*retire)
    assert unknown.code == 3
    assert unknown.data["problems"][0]["remedy"] == (
        "give the options path and notificationQueues of the query (--option NAME=VALUE); or leave it there: "
        "--keep elsewhere"
    )
    retire += [word for name, value in asked.items() for word in ("--option", f"{name}={value}")]
    dry = flip27(*retire)
    assert [(thing["kind"], thing["outcome"]) for thing in dry.data["things"]] == [
        ("queue", "would be removed"),
        ("state", "would be removed"),
    ]
    details = dry.data["things"][0]["details"]
    assert details.startswith("no more events of keys that begin with landing/, keys that begin with late/; ")
    assert rules(s3_bucket) != {}
    assert flip27(*retire, "--execute", "--yes").code == 0
    assert rules(s3_bucket) == {}
    assert flip27(*words(s3_bucket, "show"), "--json").data["queue"] is None
    assert not (tmp_path / "state").exists()


def test_a_queue_that_others_use_or_made_stays_when_a_query_is_retired(s3_bucket: S3Bucket) -> None:
    theirs = new_queue(s3_bucket)
    for path in ("landing", "late"):
        made = flip27(*words(s3_bucket, "create", path), "--execute", "--yes", "--json")

    def left(queue: str) -> str:
        given = {"path": f"s3://{s3_bucket.name}/landing", "notificationQueues": queue, **s3_bucket.options}
        options = Options.parse(given, (*CORE_OPTIONS, *FilesEnumerator.options))
        (found,) = FilesEnumerator.leftovers(options, {"position": {"notified": {}}})
        if found.remove is not None:
            found.remove()
        return found.details

    assert left(theirs.url).endswith("flip27 notifications create has not created it")
    assert left(made.data["queue"]) == (
        "no more events of keys that begin with landing/; the queue itself stays: it also gets the events of "
        f"keys that begin with late/ in bucket {s3_bucket.name}"
    )
    assert prefixes(s3_bucket) == ["late/"]
