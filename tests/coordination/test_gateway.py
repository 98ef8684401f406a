"""SubtaskGateway: its state table, cell by cell, and what the states mean for splits that are sent."""

from __future__ import annotations

import itertools

import pytest

from flip27_source.coordination.gateway import (
    TRANSITIONS,
    Effect,
    GatewayCall,
    GatewayState,
    SubtaskGateway,
    Transition,
)
from flip27_source.errors import ProtocolError
from tests.toy_sources import Item

OPEN, MARKED, CLOSED = GatewayState.OPEN, GatewayState.MARKED, GatewayState.CLOSED


def gateway_in(state: GatewayState, checkpoint_id: int = 5) -> SubtaskGateway[Item]:
    gateway: SubtaskGateway[Item] = SubtaskGateway(0)
    if state is not OPEN:
        gateway.mark_for_checkpoint(checkpoint_id)
    if state is CLOSED:
        gateway.try_close(checkpoint_id)
    return gateway


def send(gateway: SubtaskGateway[Item], name: str) -> None:
    gateway.send_split(Item(split_id=name))


def names(gateway: SubtaskGateway[Item]) -> list[str]:
    """Take out all splits that the next plan can use, and return their ids."""
    found = []
    while gateway.peek() is not None:
        found.append(gateway.take().split_id)
    return found


def waiting(gateway: SubtaskGateway[Item]) -> list[str]:
    return [split.split_id for split in gateway.waiting()]


CALLS = {
    GatewayCall.SEND: lambda gateway: send(gateway, "sent"),
    GatewayCall.MARK_HIGHER: lambda gateway: gateway.mark_for_checkpoint(6),
    GatewayCall.MARK_OTHER: lambda gateway: gateway.mark_for_checkpoint(5),
    GatewayCall.CLOSE: lambda gateway: gateway.try_close(5),
    GatewayCall.CLOSE_OTHER: lambda gateway: gateway.try_close(4),
    GatewayCall.ACKNOWLEDGE: lambda gateway: gateway.open_after(5),
    GatewayCall.ACKNOWLEDGE_OLDER: lambda gateway: gateway.open_after(4),
    GatewayCall.ACKNOWLEDGE_UNSEEN: lambda gateway: gateway.open_after(6),
}
ALLOWED = {(item.state, item.call): item for item in TRANSITIONS}
CELLS = list(itertools.product(GatewayState, GatewayCall))


def used_gateway_in(state: GatewayState) -> SubtaskGateway[Item]:
    """A gateway that has seen checkpoint 5; if it is closed, it holds back a split."""
    gateway = gateway_in(state) if state is not OPEN else gateway_in(CLOSED)
    if state is OPEN:
        gateway.open_after(5)
    elif state is CLOSED:
        send(gateway, "held")
    return gateway


def test_the_transition_table_has_each_pair_of_state_and_call_at_most_once() -> None:
    assert len(ALLOWED) == len(TRANSITIONS)
    assert all(item.rule for item in TRANSITIONS)


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell in ALLOWED], ids=str)
def test_each_call_in_the_transition_table_has_the_listed_effect_S10_S25(
    cell: tuple[GatewayState, GatewayCall],
) -> None:
    expected: Transition = ALLOWED[cell]
    gateway = used_gateway_in(cell[0])
    held = waiting(gateway)
    CALLS[cell[1]](gateway)
    assert gateway.state is expected.next_state
    out = {Effect.PASS: [*held, "sent"], Effect.RELEASE: held}.get(expected.effect, [])
    assert names(gateway) == out
    assert waiting(gateway) == ([*held, "sent"] if expected.effect is Effect.HOLD else [] if out else held)


@pytest.mark.parametrize(
    "cell", [cell for cell in CELLS if cell not in ALLOWED and cell != (OPEN, GatewayCall.CLOSE)], ids=str
)
def test_each_call_missing_from_the_transition_table_is_a_programming_error_S31(
    cell: tuple[GatewayState, GatewayCall],
) -> None:
    gateway = used_gateway_in(cell[0])
    before = waiting(gateway)
    why = {GatewayCall.MARK_HIGHER: "closed by checkpoint 5", GatewayCall.MARK_OTHER: "ids must increase"}
    said = f"gateway 0 is {cell[0].value} and cannot .*{why.get(cell[1], 'its newest checkpoint is 5')}"
    with pytest.raises(ProtocolError, match=said):
        CALLS[cell[1]](gateway)
    assert gateway.state is cell[0]
    assert waiting(gateway) == before


@pytest.mark.parametrize(
    ("state", "checkpoint_id", "closes"),
    [
        (OPEN, 5, False), (MARKED, 4, False), (MARKED, 5, True), (MARKED, 6, False), (CLOSED, 5, False),
        (CLOSED, 6, False),
    ],
)  # fmt: skip
def test_a_gateway_closes_only_for_the_id_it_is_marked_for_S27(
    state: GatewayState, checkpoint_id: int, closes: bool
) -> None:
    gateway = gateway_in(state)
    assert gateway.try_close(checkpoint_id) is closes
    assert gateway.state is (CLOSED if closes else state)


def test_nothing_is_lost_repeated_or_reordered_whatever_happens_S28_I3_I5() -> None:
    """Every sequence of seven of these: T trigger, F freeze, A acknowledge, e send.

    Calls that the state forbids are left out.
    """
    for order in itertools.product("TFAe", repeat=7):
        sent, out = _played(order)
        assert out == sent, "".join(order)


def _played(order: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Play the steps; return what was sent and what went out. A freeze takes out what the outbox contains."""
    gateway: SubtaskGateway[Item] = SubtaskGateway(0)
    sent: list[str] = []
    out: list[str] = []
    checkpoint_id = 0
    for step in order:
        if step == "T" and gateway.state is not CLOSED:
            checkpoint_id += 1
            gateway.mark_for_checkpoint(checkpoint_id)
        elif step == "F" and gateway.try_close(checkpoint_id):
            out += names(gateway)
        elif step == "A" and checkpoint_id:
            gateway.open_after(checkpoint_id)
        elif step == "e":
            sent.append(str(len(sent)))
            send(gateway, sent[-1])
            assert gateway.state is not CLOSED or gateway.peek() is None, "a closed gateway has released it"
    gateway.open_after(checkpoint_id)
    return sent, out + names(gateway)
