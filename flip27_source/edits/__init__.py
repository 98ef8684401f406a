"""Edits of a source's state for programs: plan one, submit it, list and withdraw what waits (KIP-875).

``submit(plan("replay", state="/ckpt/orders/flip27", glob="*/2026-01-03/*", why="bad upload"))``
"""

from .planning import EditPlan, plan
from .selection import Change
from .waiting import PendingEdit, WithdrawnEdit, pending, submit, withdraw

__all__ = [
    "Change",
    "EditPlan",
    "PendingEdit",
    "WithdrawnEdit",
    "pending",
    "plan",
    "submit",
    "withdraw",
]
