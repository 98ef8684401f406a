"""SQS queues on the S3 server of this machine (moto), and the messages of services about files."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from flip27_source.enumerators.files.notifications.sqs import client
from tests.quick_moto import ACCOUNT, make_quick_queues, messages_of
from tests.s3_server import S3Bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class FileQueue:
    """An empty queue."""

    url: str
    client: Any

    @property
    def arn(self) -> str:
        asked = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])
        return str(asked["Attributes"]["QueueArn"])

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def _server(self) -> Any:
        """The server's own objects: using them has the effect of a request, and is far faster."""
        from moto.sqs.models import sqs_backends

        return sqs_backends[ACCOUNT]["us-east-1"]

    def send(self, *bodies: str) -> None:
        """Put messages into the queue."""
        for body in bodies:
            self._server.send_message(self.name, body)

    def taken(self) -> list[str]:
        """Remove all messages from the queue; return their bodies as they were sent."""
        bodies = [message.body for message in self._messages()]
        self._messages().clear()
        return bodies

    @property
    def left(self) -> int:
        """The number of messages that are not deleted, whether a consumer holds them or not."""
        return len(self._messages())

    def remove(self) -> None:
        """Delete the queue with its messages."""
        self.client.delete_queue(QueueUrl=self.url)

    def restore(self) -> None:
        """Create the queue again, empty."""
        self.client.create_queue(QueueName=self.name)

    def show_hidden(self) -> None:
        """Make received messages visible again, as if their visibility timeout had passed."""
        for message in self._messages():
            message.visible_at = 0

    def _messages(self) -> list[Any]:
        return messages_of(self._server.get_queue(self.name))[0]


def new_queue(bucket: S3Bucket) -> FileQueue:
    """A new queue on the bucket's server."""
    make_quick_queues()
    sqs = client("sqs", bucket.storage_options)
    return FileQueue(url=sqs.create_queue(QueueName=f"queue-{uuid.uuid4().hex[:12]}")["QueueUrl"], client=sqs)


def connect(bucket: S3Bucket, queue: FileQueue, prefix: str = "") -> None:
    """Make the bucket send the events of its objects to the queue."""
    rules = [{"Name": "prefix", "Value": prefix}]
    client("s3", bucket.storage_options).put_bucket_notification_configuration(
        Bucket=bucket.name,
        NotificationConfiguration={
            "QueueConfigurations": [
                {
                    "QueueArn": queue.arn,
                    "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"],
                    "Filter": {"Key": {"FilterRules": rules}},
                }
            ]
        },
    )


def message(bucket: str, *keys: str, event: str = "ObjectCreated:Put") -> str:
    """The message that S3 sends to a queue about objects."""
    return json.dumps(
        {
            "Records": [
                {
                    "eventVersion": "2.1", "eventSource": "aws:s3", "eventName": event,
                    "eventTime": "2026-01-31T12:00:00.123Z",
                    "s3": {
                        "bucket": {"name": bucket, "arn": f"arn:aws:s3:::{bucket}"},
                        "object": {"key": quote_plus(key), "size": 2, "eTag": "d41d8", "sequencer": "00A1"},
                    },
                }
                for key in keys
            ]
        }
    )  # fmt: skip


def through_sns(body: str) -> str:
    """The same message as SNS forwards it."""
    topic = "arn:aws:sns:eu-west-1:1:files"
    return json.dumps({"Type": "Notification", "MessageId": "5f1e", "TopicArn": topic, "Message": body})


def through_event_bridge(bucket: str, key: str, detail_type: str = "Object Created") -> str:
    """The message that EventBridge sends about an object."""
    return json.dumps(
        {
            "version": "0", "id": "17793124", "detail-type": detail_type, "source": "aws.s3",
            "account": "123456789012", "time": "2026-01-31T12:00:00Z", "region": "eu-west-1",
            "detail": {
                "version": "0", "bucket": {"name": bucket}, "reason": "PutObject",
                "object": {"key": key, "size": 2, "etag": "d41d8", "sequencer": "00A1"},
            },
        }
    )  # fmt: skip


def blob_event(
    container: str, name: str, kind: str = "BlobCreated", *, account: str = "shop", **data: str
) -> Any:
    """An event of Azure in the schema of Event Grid."""
    group = "/subscriptions/319a9601/resourceGroups/shop/providers/Microsoft.Storage/storageAccounts"
    return {
        "topic": f"{group}/{account}", "id": "831e1650", "eventTime": "2026-01-31T12:00:00.1234567Z",
        "subject": f"/blobServices/default/containers/{container}/blobs/{name}",
        "eventType": f"Microsoft.Storage.{kind}",
        "data": {
            "api": "PutBlob", "eTag": "0x8D", "contentLength": 2, "blobType": "BlockBlob",
            "url": f"https://{account}.blob.core.windows.net/{container}/encoded", **data,
        },
        "dataVersion": "", "metadataVersion": "1",
    }  # fmt: skip


def in_base64(event: Any) -> str:
    """Encode an event as Event Grid does for a queue."""
    return base64.b64encode(json.dumps(event).encode()).decode()


def cloud_event(container: str, name: str) -> Any:
    """The same event as a CloudEvent."""
    event = blob_event(container, name)
    return {
        "source": event["topic"], "subject": event["subject"], "type": event["eventType"],
        "specversion": "1.0", "id": event["id"], "data": event["data"],
    }  # fmt: skip
