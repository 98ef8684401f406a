"""The offset that Spark stores for a checkpoint: small, canonical JSON without volatile fields.

``checkpoint_files`` writes their documents first, and ``driver/holder`` returns them to Spark. Their form:

``{"checkpoint":N,"format":1,"state":{"inline":{...}} or {"digest":...,"file":...},"summary":{...}}``
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any

import msgspec

from ..coordination.checkpoints import INITIAL_CHECKPOINT_ID, PendingCheckpoint
from ..errors import CorruptStateError, IncompatibleStateError
from ..file_systems.url_credentials import masked
from ..split import SplitT
from ..values.position_names import position_text
from ..values.stored_json import decode_json
from .file_names import CHECKPOINTS, CheckpointName, checked_lineage_name

FORMAT = 1

MOST_POSITIONS = 20
"""Maximum number of live splits that an offset names."""

LONGEST_POSITION = 60
"""Maximum length, in characters, of a position, and of the split's id next to it."""

MOST_BYTES = 1200
"""Maximum size of all positions in an offset, which stays under 4 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """One offset.

    Attributes:
        checkpoint_id: 0 before the first checkpoint.
        inline: the document itself, if there is no state location.
        lineage, name: the place of the document, if there is a state location.
        summary: numbers for people who read Spark's UI and logs; nothing depends on them.
    """

    checkpoint_id: int
    inline: Mapping[str, Any] | None = None
    lineage: str | None = None
    name: CheckpointName | None = None
    summary: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def is_initial(self) -> bool:
        """Whether this is the constant offset before the first checkpoint."""
        return self.checkpoint_id == INITIAL_CHECKPOINT_ID

    @property
    def document(self) -> tuple[str, CheckpointName] | None:
        """Lineage and name of the document; None if the offset contains it."""
        return None if self.lineage is None or self.name is None else (self.lineage, self.name)

    def to_json(self) -> dict[str, Any]:
        """The JSON value, keys sorted: Spark compares offsets as text."""
        state: dict[str, Any]
        if self.name is not None and self.lineage is not None:
            file = f"{self.lineage}/{CHECKPOINTS}/{self.name.file_name}"
            state = {"digest": self.name.digest, "file": file}
        else:
            state = {"inline": self.inline or {}}
        return {
            "checkpoint": self.checkpoint_id,
            "format": FORMAT,
            "state": state,
            "summary": dict(sorted(self.summary.items())),
        }

    @classmethod
    def from_json(cls, value: Any) -> Offset:
        """Check and parse an offset from Spark.

        Raises:
            IncompatibleStateError: the offset belongs to another data source, or has another format.
            CorruptStateError: the offset is damaged.
        """
        if not isinstance(value, dict) or "format" not in value:
            raise IncompatibleStateError(
                f"the offset in the query's checkpoint is not a flip27 offset: {str(value)[:200]}",
                remedy="use a new checkpoint location: this one belongs to another data source",
            )
        if value["format"] != FORMAT:
            raise IncompatibleStateError(
                f"the offset has format {value['format']!r}; this library reads format {FORMAT}",
                remedy="install the version of flip27-source that wrote the offset, or a newer one",
            )
        checkpoint_id, state = value.get("checkpoint"), value.get("state")
        if not isinstance(checkpoint_id, int) or not isinstance(state, dict):
            raise _damaged(value)
        summary = value.get("summary") or {}
        if "inline" in state:
            return cls(checkpoint_id=checkpoint_id, inline=state["inline"], summary=summary)
        parts = str(state.get("file", "")).split("/")
        name = CheckpointName.parse(parts[-1])
        if len(parts) != 3 or parts[1] != CHECKPOINTS or name is None:
            raise _damaged(value)
        if name.checkpoint_id != checkpoint_id or name.digest != state.get("digest"):
            raise _damaged(value)
        lineage = checked_lineage_name(parts[0])
        return cls(checkpoint_id=checkpoint_id, lineage=lineage, name=name, summary=summary)


INITIAL_OFFSET = Offset(checkpoint_id=INITIAL_CHECKPOINT_ID)


def new_offset(
    pending: PendingCheckpoint[Any],
    positions: Mapping[str, Any],
    *,
    lineage: str | None = None,
    name: CheckpointName | None = None,
    inline: Mapping[str, Any] | None = None,
) -> Offset:
    """The offset of a checkpoint, with the place of its document, or with the document itself.

    Args:
        positions: the positions of the first live splits, for people.
    """
    summary = _summary(pending, positions)
    return Offset(
        checkpoint_id=pending.checkpoint_id, lineage=lineage, name=name, inline=inline, summary=summary
    )


def _summary(pending: PendingCheckpoint[Any], positions: Mapping[str, Any]) -> dict[str, Any]:
    metrics = pending.summary
    numbers: dict[str, int | float] = {
        "splits": metrics.splits,
        "files": metrics.files,
        "rows": metrics.rows,
        "bytes": metrics.bytes,
        "liveSplits": metrics.live_splits,
        "waitingSplits": metrics.waiting_splits,
        "finishedSplits": metrics.finished_splits,
        "quarantinedSplits": metrics.quarantined_splits,
        "ignoredSplits": metrics.ignored_splits,
        "dataLosses": metrics.data_losses,
    }
    known = {name: value for name, value in numbers.items() if value or name == "splits"}
    # At most 20 gauges with short names keep the offset under 4 KiB. Spark's JSON writes a
    # non-ASCII character as six or twelve characters.
    published = {ascii(name)[1:-1][:60]: value for name, value in sorted(metrics.gauges.items())[:20]}
    of_live = {"positions": positions} if positions else {}
    sized: dict[str, Any] = {} if metrics.sized is None else {"sized": msgspec.to_builtins(metrics.sized)}
    if metrics.limited_by:
        sized["limitedBy"] = metrics.limited_by
    of_time: dict[str, Any] = {} if metrics.event_time is None else metrics.event_time.numbers()
    if metrics.horizon is not None:
        shown = metrics.horizon.numbers()
        of_time |= shown | {"alignmentSlowest": _short(str(shown["alignmentSlowest"]))}
    return known | published | metrics.backlog.numbers() | of_time | sized | of_live


def _damaged(value: Any) -> CorruptStateError:
    return CorruptStateError(
        f"the offset in the query's checkpoint is damaged: {str(value)[:300]}",
        remedy="restore the checkpoint location from a backup; do not edit offsets by hand",
    )


def readable_position(split: Any, names: Mapping[str, str]) -> str:
    """The position of a stored split, shortened; ``names``: of its fields, by path."""
    return _short(position_text(split, names))


def live_positions(
    live: Iterable[SplitT], encode: Callable[[SplitT], msgspec.Raw], names: Mapping[str, str]
) -> dict[str, str | int]:
    """The positions of the first live splits, by split id; ``...`` counts the others."""
    splits = list(live)
    positions: dict[str, str | int] = {}
    left = MOST_BYTES
    for split in nsmallest(MOST_POSITIONS, splits, key=lambda split: split.split_id):
        name = _short(masked(split.split_id))
        position = readable_position(decode_json(encode(split)), names)
        left -= len(name) + len(position)
        if left < 0:
            break
        # Ids that are equal once they are shortened share one entry.
        positions.setdefault(name, position)
    if len(positions) < len(splits):
        positions["..."] = len(splits) - len(positions)
    return positions


def _short(text: str) -> str:
    # Spark's JSON writes a non-ASCII character as six or twelve characters.
    plain = ascii(masked(text))[1:-1]
    return plain if len(plain) <= LONGEST_POSITION else plain[: LONGEST_POSITION - 3] + "..."
