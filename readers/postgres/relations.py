"""The log's descriptions of relations, and the search for the description that is valid for a change.

A description (a Relation message) is valid until the next one of the same table, even within a transaction.
What must not live here: the values of tuples.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from flip27_source.readers.postgres.message_blocks import MessageBlock
from flip27_source.readers.scalars.text_bytes import Int64s

_KEY_FLAG = 1
_IDENTITIES = "dnfi"
_TRUNCATED = "the message is truncated"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationColumn:
    """A column of a table.

    Attributes:
        type_modifier: for example the precision and scale of a numeric; -1 if there is none.
        is_key: true if the column belongs to the replica identity; with the identity ``f`` all columns do.
    """

    name: str
    type_oid: int
    type_modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table as one Relation message describes it.

    Attributes:
        replica_identity: ``d`` (primary key), ``n`` (nothing), ``f`` (full) or ``i`` (index).
    """

    oid: int
    schema: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The descriptions that are valid somewhere in one block.

    Attributes:
        keys: the table and the first message of each description, as one sorted number.
        relations: the descriptions, in the order of the keys.
    """

    keys: np.ndarray[tuple[int], np.dtype[np.uint64]]
    relations: tuple[Relation, ...]

    def find(self, block: MessageBlock, oids: Int64s, messages: Int64s) -> Int64s:
        """The index of the description that is valid for each change.

        Args:
            messages: the message of each change, as its index in the block.
        """
        numbers = np.searchsorted(self.keys, _keys(oids, messages + 1), side="right") - 1
        known = np.array([relation.oid for relation in self.relations] + [-1], np.int64)  # -1: no description
        wrong = known[numbers] != oids
        if wrong.any():
            row = int(wrong.argmax())
            what = f"the table with oid {oids[row]} was not described by a Relation message"
            raise block.error(int(messages[row]), what)
        return numbers


class KnownRelations:
    """The latest description of every table that the log has described."""

    def __init__(self) -> None:
        self._latest: dict[int, tuple[bytes, Relation]] = {}
        self._versions = _versions([])

    def versions(self, block: MessageBlock) -> Versions:
        """The descriptions for a block; the blocks must be given in the order of the log."""
        new: list[_Description] = []
        before = self._versions
        for index in np.flatnonzero(block.kinds == ord("R")).tolist():
            raw = block.message(index)
            oid = int.from_bytes(raw[1:5], "big")
            latest = self._latest.get(oid)
            if latest is not None and latest[0] == raw:
                continue  # the server repeats descriptions, for instance after ANALYZE
            relation = _parsed(block, index, raw)
            self._latest[oid] = raw, relation
            new.append((oid, index + 1, relation))
        if not new:
            return before
        self._versions = _versions([(oid, 0, relation) for oid, (_, relation) in self._latest.items()])
        return _versions([*((relation.oid, 0, relation) for relation in before.relations), *new])


_Description: TypeAlias = "tuple[int, int, Relation]"
"""A table, the index of the first message for which the description is valid, and the description."""


def _versions(descriptions: list[_Description]) -> Versions:
    descriptions.sort(key=lambda description: description[:2])
    oids, firsts = (np.array([item[part] for item in descriptions], np.int64) for part in (0, 1))
    return Versions(keys=_keys(oids, firsts), relations=tuple(relation for _, _, relation in descriptions))


def _keys(oids: Int64s, indexes: Int64s) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return (oids.astype(np.uint64) << np.uint64(32)) | indexes.astype(np.uint64)


def _parsed(block: MessageBlock, index: int, raw: bytes) -> Relation:
    try:
        return _relation(raw)
    except struct.error:
        reason = _TRUNCATED
    except UnicodeDecodeError:
        reason = "a name is not valid UTF-8"
    except ValueError as error:
        reason = str(error)
    raise block.error(index, f"the description of a table is invalid: {reason}")


def _relation(raw: bytes) -> Relation:
    (oid,) = struct.unpack_from(">I", raw, 1)
    schema, at = _text(raw, 5)
    name, at = _text(raw, at)
    identity, count = struct.unpack_from(">cH", raw, at)
    if identity.decode("latin-1") not in _IDENTITIES:
        raise ValueError(f"its replica identity is {identity!r}, not one of {', '.join(_IDENTITIES)}")
    at += 3
    columns = []
    for _ in range(count):
        (flags,) = struct.unpack_from(">B", raw, at)
        column, at = _text(raw, at + 1)
        type_oid, modifier = struct.unpack_from(">Ii", raw, at)
        at += 8
        columns.append(
            RelationColumn(
                name=column, type_oid=type_oid, type_modifier=modifier, is_key=bool(flags & _KEY_FLAG)
            )
        )
    if at != len(raw):
        raise ValueError(f"{len(raw) - at} bytes follow the last column")
    return Relation(
        oid=oid,
        schema=schema or "pg_catalog",  # pgoutput writes this schema as an empty text
        name=name,
        replica_identity=identity.decode(),
        columns=tuple(columns),
    )


def _text(raw: bytes, at: int) -> tuple[str, int]:
    end = raw.find(b"\0", at)
    if end < 0:
        raise ValueError(_TRUNCATED)
    return raw[at:end].decode(), end + 1
