"""Edits of a source's state for programs: plan, submit, list and withdraw edits (KIP-875).

``submit(plan("replay", state="/ckpt/orders/flip27", glob="*/2026-01-03/*", why="bad upload"))``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flip27_source.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from .dry_run import EditPlan, plan
    from .selection import Change
    from .submitted import PendingEdit, WithdrawnEdit, pending, submit, withdraw

__all__ = ["Change", "EditPlan", "PendingEdit", "WithdrawnEdit", "pending", "plan", "submit", "withdraw"]

__getattr__ = lazy_names(
    __name__,
    {
        "dry_run": ("EditPlan", "plan"),
        "submitted": ("PendingEdit", "WithdrawnEdit", "pending", "submit", "withdraw"),
        "selection": ("Change",),
    },
)
