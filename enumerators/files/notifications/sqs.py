"""The queue of AWS: SQS, through botocore, which s3fs depends on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any
from urllib.parse import urlsplit

from flip27_source.enumerators.files.notifications.events import events_of_s3, message_of
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.notifications import Message, NotificationQueue
from flip27_source.optional_packages import needed

MOST_IN_A_REQUEST = 10
LONGEST_WAIT_S = 20
LONGEST_HIDDEN_S = 12 * 3600
"""SQS's own limits. A message that was hidden for this time in total is delivered again."""

GONE = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
_NOT_ALLOWED = frozenset({"403", "AccessDenied", "AccessDeniedException", "KMS.AccessDeniedException"})
_PASSED_ON = {"key": "aws_access_key_id", "secret": "aws_secret_access_key", "token": "aws_session_token"}
_OF_CLIENTS = ("verify", "aws_access_key_id", "aws_secret_access_key", "aws_session_token")
DEFAULT_REGION = "us-east-1"


class SqsQueue(NotificationQueue):
    """A queue of SQS that gets the events of buckets."""

    def receive(self, *, count: int, wait_s: float, hidden_s: float) -> Sequence[Message]:
        """Receive at most ten messages, with a long poll."""
        try:
            answer = self.client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=min(count, MOST_IN_A_REQUEST),
                WaitTimeSeconds=min(round(wait_s), LONGEST_WAIT_S),
                VisibilityTimeout=min(round(hidden_s), LONGEST_HIDDEN_S),
            )
        except Exception as error:
            raise cannot("be read", self.url, error) from error
        return [
            message_of(raw["Body"], events_of_s3, message_id=raw["MessageId"], receipt=raw["ReceiptHandle"])
            for raw in answer.get("Messages") or ()
        ]

    def extend(self, receipts: Sequence[str], hidden_s: float) -> Mapping[str, str]:
        """In batches of ten; SQS refuses only messages that are gone or were hidden for twelve hours."""
        timeout = min(round(hidden_s), LONGEST_HIDDEN_S)
        for entries in _entries(receipts):
            changes = [{**entry, "VisibilityTimeout": timeout} for entry in entries]
            try:
                self.client.change_message_visibility_batch(QueueUrl=self.url, Entries=changes)
            except Exception as error:
                raise cannot("keep messages hidden", self.url, error) from error
        return {}

    def delete(self, receipts: Sequence[str]) -> None:
        for entries in _entries(receipts):
            try:
                self.client.delete_message_batch(QueueUrl=self.url, Entries=entries)
            except Exception as error:
                if code_of(error) in GONE:
                    return
                raise cannot("delete messages", self.url, error) from error

    @cached_property
    def client(self) -> Any:
        return client("sqs", self.options.with_prefix("storage."), queue_url=self.url)


def client(
    service: str, storage: Mapping[str, Any], *, queue_url: str | None = None, region: str | None = None
) -> Any:
    """A client of an AWS service, with the credentials of the files' file system.

    Args:
        queue_url: a queue, whose server and region are used; None: those of the file system.
        region: a region that replaces the one in the options.
    """
    by = "discovery=notifications with queues of SQS"
    with needed("botocore", by=by, extra="s3", where="on the driver", error_type=OptionError):
        import botocore.config
        import botocore.session
    own = dict(storage.get("client_kwargs") or {})
    given = {name: own[name] for name in _OF_CLIENTS if name in own}
    given |= {name: storage[key] for key, name in _PASSED_ON.items() if storage.get(key)}
    endpoint = own.get("endpoint_url") or storage.get("endpoint_url")
    region = region or own.get("region_name")
    if queue_url is not None:
        server = urlsplit(queue_url)
        endpoint, region = f"{server.scheme}://{server.netloc}", region_of(server.netloc) or region
    try:
        session = botocore.session.Session(profile=storage.get("profile"))
        session.register_component("data_loader", _descriptions(session.get_config_variable("data_path")))
        region = region or session.get_config_variable("region") or DEFAULT_REGION
        retries = {"mode": "standard", "max_attempts": 5}
        config = botocore.config.Config(retries=retries, connect_timeout=10, max_pool_connections=20)
        return session.create_client(service, region, endpoint_url=endpoint, config=config, **given)
    except Exception as error:  # noqa: BLE001 - botocore raises many kinds
        raise OptionError(
            f"a client of {service} cannot be created: {type(error).__name__}: {error}",
            remedy="check notificationQueues, storage.profile and storage.client_kwargs",
        ) from None


@cache
def _descriptions(more: str | None) -> Any:
    """The descriptions of AWS's services; loading them takes most of the time of creating a client."""
    from botocore.loaders import create_loader

    return create_loader(more)


def region_of(host: str) -> str | None:
    """``eu-west-1`` of ``sqs.eu-west-1.amazonaws.com``; None if the host does not name a region."""
    region = re.match(r"(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.(?:amazonaws|api\.aws)", host)
    return None if region is None else region[1] or region[2]


def code_of(error: BaseException) -> str:
    """The code of an error of AWS; empty for other errors."""
    answer = getattr(error, "response", None)
    return str(answer.get("Error", {}).get("Code", "")) if isinstance(answer, dict) else ""


def cannot(do: str, url: str, error: BaseException) -> DiscoveryError:
    """The error for a request to a queue that failed."""
    remedy = "check the network and the queue; flip27 notifications show lists what exists"
    if code_of(error) in GONE:
        remedy = "correct notificationQueues, or create the queue: flip27 notifications create"
    elif code_of(error) in _NOT_ALLOWED:
        remedy = (
            "allow sqs:ReceiveMessage, sqs:ChangeMessageVisibility and sqs:DeleteMessage on the queue, or "
            "give other credentials (storage.* options)"
        )
    return DiscoveryError(f"the queue {url} cannot {do}: {type(error).__name__}: {error}", remedy=remedy)


def _entries(receipts: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    for first in range(0, len(receipts), MOST_IN_A_REQUEST):
        part = receipts[first : first + MOST_IN_A_REQUEST]
        yield [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(part)]
