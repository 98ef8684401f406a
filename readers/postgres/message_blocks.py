"""Blocks of messages of the log: their bytes in one buffer, and access to numbers at many positions at once.

What must not live here: the meaning of a message, except its kind and its minimum length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flip27_source.errors import SplitReadError
from flip27_source.readers.scalars.text_bytes import Bytes, Int64s

REPORT = "read the log again; if the error remains, report it with the version of the server"

_PADDING = bytes(8)  # so that numbers can be read at any position of any message
_SHORTEST = {"B": 21, "C": 26, "O": 10, "R": 10, "Y": 7, "I": 8, "U": 8, "D": 8, "T": 6, "M": 15}
_LEAST_BYTES = np.full(256, -1, np.int64)
_MOST_BYTES = np.full(256, np.iinfo(np.int64).max)
for _kind, _least in _SHORTEST.items():
    _LEAST_BYTES[ord(_kind)] = _least
for _kind in "BC":
    _MOST_BYTES[ord(_kind)] = _SHORTEST[_kind]


class MessageBlock:
    """Messages of known kinds, each at least as long as its kind requires.

    Attributes:
        data: the bytes of all messages, and some padding.
        starts: the position of each message in the data.
        ends: the position after each message.
        kinds: the first byte of each message.
    """

    def __init__(self, data: bytearray, lengths: Sequence[int], *, first_number: int, skip: int) -> None:
        """The messages that ``data`` contains one after the other; ``data`` is changed."""
        data += _PADDING
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        self._first_number = first_number
        self.data = pa.py_buffer(data)
        self.starts: Int64s = offsets[:-1] + skip
        self.ends: Int64s = offsets[1:]
        self.octets: Bytes = np.frombuffer(self.data, np.uint8)
        self.words = self._everywhere("<u8")
        self._int64s = self._everywhere(">i8")
        self._uint32s = self._everywhere(">u4")
        self._uint16s = self._everywhere(">u2")
        # For an empty message, this is a byte of the next message or of the padding.
        self.kinds: Bytes = self.octets[np.minimum(self.starts, self.ends)]
        self._check_lengths()
        self._check_texts()

    def int64_at(self, positions: Int64s) -> Int64s:
        return self._int64s[positions].astype(np.int64)

    def uint32_at(self, positions: Int64s) -> Int64s:
        return self._uint32s[positions].astype(np.int64)

    def uint16_at(self, positions: Int64s) -> Int64s:
        return self._uint16s[positions].astype(np.int64)

    def message(self, index: int) -> bytes:
        return self.octets[self.starts[index] : self.ends[index]].tobytes()

    def error(self, index: int, what: str, *, at: int | None = None, remedy: str = REPORT) -> SplitReadError:
        """The error for one message.

        Args:
            at: a position in the block; the error message has it relative to the message's start.
        """
        kind = chr(self.kinds[index]) if self.starts[index] < self.ends[index] else ""
        named = f" ({kind})" if kind in _SHORTEST and kind else ""
        byte = "" if at is None else f", byte {at - int(self.starts[index])}"
        return SplitReadError(
            f"message {self._first_number + index}{named} of this read of the log{byte}: {what}",
            remedy=remedy,
        )

    def _everywhere(self, dtype: str) -> np.ndarray[Any, np.dtype[Any]]:
        """A view of the data as numbers, one starting at each byte."""
        size = np.dtype(dtype).itemsize
        return np.ndarray((self.data.size - size + 1,), dtype, self.data, 0, (1,))

    def _check_lengths(self) -> None:
        lengths = self.ends - self.starts
        least = _LEAST_BYTES[self.kinds]
        wrong = (lengths < least) | (lengths > _MOST_BYTES[self.kinds]) | (least < 0) | (lengths <= 0)
        if not wrong.any():
            return
        index = int(wrong.argmax())
        length, kind = int(lengths[index]), int(self.kinds[index])
        if length <= 0:
            raise self.error(index, "the message is empty")
        if least[index] < 0:
            raise self.error(
                index,
                f"the kind of the message, {chr(kind)!a}, is unknown",
                remedy="only pgoutput with proto_version 1 can be read; if the server is newer than this "
                "library, update the library",
            )
        expected = f"{least[index]} bytes" if chr(kind) in "BC" else f"at least {least[index]} bytes"
        what = "truncated" if length < least[index] else "too long"
        raise self.error(index, f"the message is {what}: it has {length} bytes, not {expected}")

    def _check_texts(self) -> None:
        """Check that messages that are not used (Origin, Type, Message) are complete, too."""
        origins = np.flatnonzero(self.kinds == ord("O"))
        cut = origins[self.octets[self.ends[origins] - 1] != 0].tolist()
        for index in np.flatnonzero((self.kinds == ord("Y")) | (self.kinds == ord("M"))).tolist():
            if not _is_complete(self.message(index)):
                cut.append(index)
        if cut:
            raise self.error(min(cut), "the message is truncated or too long")


def _is_complete(message: bytes) -> bool:
    """True if a Type or Message message has the length that its content requires."""
    if message[:1] == b"Y":
        return message.count(b"\0", 5) == 2 and message.endswith(b"\0")
    content = message.find(b"\0", 10) + 5
    return content > 5 and content + int.from_bytes(message[content - 4 : content], "big") == len(message)
