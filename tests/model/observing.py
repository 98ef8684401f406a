"""What the gateways of the real coordinator do, noted on the stage."""

from __future__ import annotations

from typing import Any

import pytest

from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.gateway import GatewayState, SubtaskGateway
from flip27_source.coordination.subtask_reports import AcknowledgeResult, SubtaskReport
from flip27_source.events import SourceEvent
from tests.model.toys import STAGE


def observe_gateways(patch: pytest.MonkeyPatch) -> None:
    """Note through which gateways events are sent, and which gateways an acknowledgement opens (I4)."""
    send_event, open_after = SubtaskGateway.send_event, SubtaskGateway.open_after
    acknowledge = SourceCoordinator.acknowledge
    opened: dict[int, tuple[GatewayState, GatewayState]] = {}

    def sends(gateway: SubtaskGateway[Any], event: SourceEvent) -> None:
        STAGE.sent_through.append(gateway.state)
        send_event(gateway, event)

    def opens(gateway: SubtaskGateway[Any], checkpoint_id: int) -> None:
        before = gateway.state
        open_after(gateway, checkpoint_id)
        opened[gateway.subtask_id] = (before, gateway.state)

    def acknowledges(coordinator: SourceCoordinator[Any], report: SubtaskReport[Any]) -> AcknowledgeResult:
        opened.clear()
        result = acknowledge(coordinator, report)
        expected = {report.subtask_id} if result is AcknowledgeResult.SUCCESS else set()
        changed = {subtask for subtask, (before, after) in opened.items() if before is not after}
        closed = {subtask for subtask, (_, after) in opened.items() if after is not GatewayState.OPEN}
        if changed - expected or closed & expected:
            STAGE.misopened.append(f"the report of {report.subtask_id} ({result.name}) opened {opened}")
        return result

    patch.setattr(SubtaskGateway, "send_event", sends)
    patch.setattr(SubtaskGateway, "open_after", opens)
    patch.setattr(SourceCoordinator, "acknowledge", acknowledges)
