"""The policies in deploy/rights are enough for a query, and each of their actions is needed.

The server enforces policies like IAM, but takes no notice of their conditions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import botocore.session
import moto.settings
import pyarrow as pa
import pytest

from flip27_source.testing import MicroBatchEngine
from tests.pages.running import REPOSITORY

DENIED = r"(?i)denied|forbidden"
BUCKETS = ("shop-landing", "shop-queries")
SCHEMA = pa.schema([pa.field("id", pa.int64())])
POLICIES = {
    name: json.loads((REPOSITORY / f"deploy/rights/s3-{name}.json").read_text()) for name in ("read", "state")
}


class Rights:
    """A user of the server, and files that a query of this user reads: two, each in a batch of its own."""

    def __init__(self, endpoint: str, patch: pytest.MonkeyPatch) -> None:
        session = botocore.session.get_session()
        self.iam, self.s3 = (session.create_client(name, endpoint_url=endpoint) for name in ("iam", "s3"))
        self._endpoint, self._patch = endpoint, patch
        for bucket in BUCKETS:
            self.s3.create_bucket(Bucket=bucket)
        for number in (1, 2):
            body = b'{"id": %d}\n' % number
            self.s3.put_object(Bucket="shop-landing", Key=f"orders/{number}.json", Body=body)
        self.iam.create_user(UserName="query")
        self.key = self.iam.create_access_key(UserName="query")["AccessKey"]

    def give(self, *, without: str = "") -> None:
        """Give the user the rights of the policies, without the action that is named ``policy action``."""
        self.enforce(False)
        for name, policy in POLICIES.items():
            left = json.dumps(_without(policy, without.removeprefix(f"{name} ")))
            self.iam.put_user_policy(UserName="query", PolicyName=name, PolicyDocument=left)
        self.enforce(True)

    def enforce(self, does: bool) -> None:
        self._patch.setattr(moto.settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0 if does else float("inf"))

    def query(self) -> MicroBatchEngine:
        options = {
            "enumerator": "files", "reader": "json", "taskReports": "always", "maxFilesPerTrigger": "1",
            "path": "s3://shop-landing/orders", "stateLocation": "s3://shop-queries/orders/state",
            "onSplitError": "quarantine", "storage.endpoint_url": self._endpoint,
            "storage.key": self.key["AccessKeyId"], "storage.secret": self.key["SecretAccessKey"],
        }  # fmt: skip
        return MicroBatchEngine(options, schema=SCHEMA)

    def remove(self) -> None:
        self.enforce(False)
        for bucket in BUCKETS:
            for found in self.s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
                self.s3.delete_object(Bucket=bucket, Key=found["Key"])
            self.s3.delete_bucket(Bucket=bucket)
        for name in POLICIES:
            self.iam.delete_user_policy(UserName="query", PolicyName=name)
        self.iam.delete_access_key(UserName="query", AccessKeyId=self.key["AccessKeyId"])
        self.iam.delete_user(UserName="query")


@pytest.fixture
def rights(_s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rights]:
    made = Rights(_s3_endpoint, monkeypatch)
    made.give()
    yield made
    made.remove()


def _without(policy: dict[str, Any], action: str) -> dict[str, Any]:
    statements = [
        {**statement, "Action": [a for a in _listed(statement["Action"]) if a != action]}
        for statement in policy["Statement"]
    ]
    return {**policy, "Statement": [statement for statement in statements if statement["Action"]]}


def _listed(actions: str | list[str]) -> list[str]:
    return [actions] if isinstance(actions, str) else actions


def test_the_policies_are_enough_for_a_query_that_is_restarted(rights: Rights) -> None:
    engine = rights.query()
    engine.run_batch()
    engine.restart()
    engine.process_all_available()
    engine.stop()
    assert sorted(engine.rows) == [(1,), (2,)]


def test_a_query_whose_rights_are_withdrawn_stops_and_continues_when_it_has_them(rights: Rights) -> None:
    engine = rights.query()
    engine.run_batch()
    rights.give(without="read s3:GetObject")
    with pytest.raises(Exception, match=DENIED):
        engine.process_all_available()
    rights.give()
    engine.restart()
    engine.process_all_available()
    engine.stop()
    assert sorted(engine.rows) == [(1,), (2,)]


NEEDED = "read s3:ListBucket|read s3:GetObject|state s3:ListBucket|state s3:GetObject|state s3:PutObject"


@pytest.mark.parametrize("action", NEEDED.split("|"))
def test_a_query_without_one_of_the_actions_says_that_the_access_is_denied(
    rights: Rights, action: str
) -> None:
    rights.give(without=action)
    with pytest.raises(Exception, match=DENIED):
        rights.query().process_all_available()
