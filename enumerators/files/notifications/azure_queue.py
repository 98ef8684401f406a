"""The queue of Azure: Storage Queue, which Event Grid writes to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Any

from flip27_source.enumerators.files.notifications.events import events_of_event_grid, message_of
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.notifications import Message, NotificationQueue
from flip27_source.optional_packages import needed

MOST_IN_A_REQUEST = 32
LONGEST_HIDDEN_S = 7 * 86_400
_PAUSES_S = (0.5, 1.0, 2.0, 5.0)
"""Azure has no long polls: an empty queue is polled again after these pauses."""

_GONE = frozenset({"MessageNotFound", "PopReceiptMismatch", "InvalidQueryParameterValue", "QueueNotFound"})


class AzureQueue(NotificationQueue):
    """A Storage Queue that gets the events of containers.

    A receipt is the id of a message and its pop receipt, which changes each time the message is extended.
    """

    def receive(self, *, count: int, wait_s: float, hidden_s: float) -> Sequence[Message]:
        """Receive at most 32 messages; poll, with pauses, until one arrives or ``wait_s`` has passed."""
        end_s = time.monotonic() + wait_s
        messages = self._received(count, hidden_s)
        for pause_s in chain(_PAUSES_S, repeat(_PAUSES_S[-1])):
            if messages or time.monotonic() + pause_s > end_s:
                break
            time.sleep(pause_s)
            messages = self._received(count, hidden_s)
        return messages

    def extend(self, receipts: Sequence[str], hidden_s: float) -> Mapping[str, str]:
        """Extend the time for which the messages stay hidden, with one request for each message."""
        seconds = min(round(hidden_s), LONGEST_HIDDEN_S)
        hide = partial(self.client.update_message, visibility_timeout=seconds)
        answers = {receipt: self._called("keep messages hidden", hide, receipt) for receipt in receipts}
        return {
            receipt: f"{receipt.partition(' ')[0]} {answer.pop_receipt}"
            for receipt, answer in answers.items()
            if answer is not None
        }

    def delete(self, receipts: Sequence[str]) -> None:
        for receipt in receipts:
            self._called("delete messages", self.client.delete_message, receipt)

    def _called(self, do: str, method: Callable[[str, str], Any], receipt: str) -> Any:
        """Call a method of the client for one message; None if the message is gone."""
        message_id, _, pop_receipt = receipt.partition(" ")
        try:
            return method(message_id, pop_receipt)
        except Exception as error:
            if _code_of(error) in _GONE:
                return None
            raise _cannot(do, self.url, error) from error

    @cached_property
    def client(self) -> Any:
        by, where = "discovery=notifications with Azure queues", "on the driver"
        with needed("azure-storage-queue", by=by, extra="azure", where=where, error_type=OptionError):
            from azure.storage.queue import QueueClient
        credential = credential_of(self.options.with_prefix("storage."))
        return QueueClient.from_queue_url(self.url, credential=credential)

    def _received(self, count: int, hidden_s: float) -> list[Message]:
        # The visibility timeout is at least one second.
        seconds = min(max(round(hidden_s), 1), LONGEST_HIDDEN_S)
        try:
            pages = self.client.receive_messages(
                messages_per_page=min(count, MOST_IN_A_REQUEST), visibility_timeout=seconds
            ).by_page()
            return [
                message_of(
                    raw.content,
                    events_of_event_grid,
                    message_id=raw.id,
                    receipt=f"{raw.id} {raw.pop_receipt}",
                )
                for raw in next(pages, ())
            ]
        except Exception as error:
            raise _cannot("be read", self.url, error) from error


def credential_of(storage: Mapping[str, Any]) -> Any:
    """The credential of the files' file system, in the form that Azure's clients accept."""
    parts = dict(
        part.split("=", 1) for part in str(storage.get("connection_string") or "").split(";") if "=" in part
    )
    account = storage.get("account_name") or parts.get("AccountName")
    key = storage.get("account_key") or parts.get("AccountKey")
    if key:
        return {"account_name": account, "account_key": key} if account else key
    token = storage.get("sas_token") or parts.get("SharedAccessSignature")
    if token:
        from azure.core.credentials import AzureSasCredential

        return AzureSasCredential(str(token).removeprefix("?"))
    try:
        from azure.identity import ClientSecretCredential, DefaultAzureCredential
    except ModuleNotFoundError:
        raise OptionError(
            "the Azure queue needs a credential, and neither storage.account_key, storage.sas_token nor "
            "storage.connection_string is set",
            remedy="set one of them, or pip install azure-identity",
        ) from None
    tenant, client, secret = (storage.get(name) for name in ("tenant_id", "client_id", "client_secret"))
    if tenant and client and secret:
        return ClientSecretCredential(str(tenant), str(client), str(secret))
    return DefaultAzureCredential()


def _code_of(error: BaseException) -> str:
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def _cannot(do: str, url: str, error: Exception) -> DiscoveryError:
    remedy = "check notificationQueues, the network, and the credentials (storage.* options)"
    if _code_of(error) == "QueueNotFound":
        remedy = "correct notificationQueues, or create the queue and a subscription of Event Grid"
    elif getattr(error, "status_code", None) == 403:
        remedy = (
            "give the role Storage Queue Data Message Processor, or other credentials (storage.* options)"
        )
    return DiscoveryError(f"the queue {url} cannot {do}: {type(error).__name__}: {error}", remedy=remedy)
