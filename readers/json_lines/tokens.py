"""Splits one line of JSON into the tokens that Jackson's parser gives Spark, one at a time.

Spark's result for a malformed document depends on Jackson's state at the error: what it has read, and
where it continues. So this parser mirrors Jackson's UTF8StreamJsonParser. It reads a name together with
the first byte of its value, and a string in double quotes only when its text is requested. What must
not live here: schemas.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from flip27_source.readers.json_lines.strings import (
    SPARK_DIALECT,
    JsonDialect,
    MalformedJsonError,
    StringCursor,
    plain_base64,
)

MAX_DEPTH = 1000
MAX_NUMBER_DIGITS = 1000


class Token(Enum):
    """Jackson's JsonToken."""

    START_OBJECT = auto()
    END_OBJECT = auto()
    START_ARRAY = auto()
    END_ARRAY = auto()
    FIELD_NAME = auto()
    STRING = auto()
    INT = auto()
    FLOAT = auto()
    TRUE = auto()
    FALSE = auto()
    NULL = auto()


_ROOT, _ARRAY, _OBJECT = range(3)
_BLANK = re.compile(rb"[ \t\n\r]*")
_LEADING_ZEROS = re.compile(rb"-?(0+)[0-9]")
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_A_NUMBER = re.compile(rb"NaN|Infinity|[+-]INF|[+-]Infinity")
_WORDS = {0x74: (b"true", Token.TRUE), 0x66: (b"false", Token.FALSE), 0x6E: (b"null", Token.NULL)}
_OPENING = {0x7B: Token.START_OBJECT, 0x5B: Token.START_ARRAY}
_COMMENT = re.compile(rb"/[^\n\r]*|\*(?:(?s:.*?)(\*/)|(?s:.*))")
_IDENTIFIER = re.compile(rb"[0-9A-Za-z_$\x00-\x08\x0e-\x1b\x7f]*")
_DIGITS_AND_MINUS = b"-0123456789"


class Tokens(StringCursor):
    """A pull parser over ``line``; ``token`` is the current token, None before the first."""

    __slots__ = ("_contexts", "_pending", "_unread", "start", "text", "token")

    def __init__(self, line: bytes, dialect: JsonDialect = SPARK_DIALECT) -> None:
        super().__init__(line, 3 if line.startswith(b"\xef\xbb\xbf") and len(line) > 3 else 0, dialect)
        self.start = 0
        """Position of the first byte of the current value."""
        self.text = ""
        """Text of the current number, or of a string after it was read."""
        self.token: Token | None = None
        self._pending: Token | None = None
        self._unread = False
        self._contexts: list[list[int | str | None]] = [[_ROOT, -1, None]]
        if b"\x00" in line[:2] or line[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise MalformedJsonError("UTF-16 or UTF-32")

    def name(self) -> str | None:
        """Name of the field that the current token belongs to."""
        opening = self.token is Token.START_OBJECT or self.token is Token.START_ARRAY
        return self._contexts[-2 if opening else -1][2]  # type: ignore[return-value]

    def next(self) -> Token | None:
        """Advance to the next token; None at the end."""
        if self.token is Token.FIELD_NAME:
            token, self._pending = self._pending, None
            self.token = token if token is None else self._opened(token)
            return token
        if self._unread:
            self._unread = False
            self._quoted(0x22, skipped=True)
        first = self._after_blanks()
        context = self._contexts[-1]
        if first < 0:
            if context[0] != _ROOT:
                raise MalformedJsonError("the line ends within an object or array")
            self.token = None
            return None
        if first in (0x5D, 0x7D):
            return self._close(first)
        index: int = context[1] + 1  # type: ignore[operator]
        context[1] = index
        if context[0] != _ROOT and index > 0:
            if first != 0x2C:
                raise MalformedJsonError("a comma is missing")
            first = self._demanded()
        if context[0] != _OBJECT:
            self.start = self.position - 1
            self.token = self._opened(self._value(first))
            return self.token
        context[2] = self._name(first)
        self.token = Token.FIELD_NAME
        if self._demanded() != 0x3A:
            raise MalformedJsonError("a colon is missing")
        first = self._demanded()
        self.start = self.position - 1
        self._pending = self._value(first)
        return self.token

    def skip_children(self) -> None:
        """At the start of an object or array, advance to its end; otherwise do nothing."""
        if self.token is not Token.START_OBJECT and self.token is not Token.START_ARRAY:
            return
        depth = 1
        while depth:
            token = self.next()
            if token is None:
                if len(self._contexts) > 1:
                    raise MalformedJsonError("the line ends within an object or array")
                return
            if token is Token.START_OBJECT or token is Token.START_ARRAY:
                depth += 1
            elif token is Token.END_OBJECT or token is Token.END_ARRAY:
                depth -= 1

    def string(self) -> str:
        if self._unread:
            self._unread = False
            self.text = self._quoted(0x22)
        return self.text

    def base64(self) -> bytes:
        """The bytes that the current base64 string encodes.

        After an error, Jackson continues to read the string at that position. If the last character is
        missing, it consumes the closing quote as that character and the rest of the line as the string.
        """
        if not self._unread:
            return plain_base64(self.text)
        decoded = self._quoted_base64()
        self._unread = False
        return decoded

    def raw(self) -> bytes:
        """The bytes of the current value, unchanged; advances to the end of the value."""
        start = self.start
        self.skip_children()
        return self.line[start : self.position]

    def _opened(self, token: Token) -> Token:
        if token is Token.START_OBJECT or token is Token.START_ARRAY:
            self._contexts.append([_OBJECT if token is Token.START_OBJECT else _ARRAY, -1, None])
            if len(self._contexts) > MAX_DEPTH + 1:
                raise MalformedJsonError(f"more than {MAX_DEPTH} levels")
        return token

    def _close(self, last: int) -> Token:
        kind = self._contexts[-1][0]
        if kind != (_ARRAY if last == 0x5D else _OBJECT):
            raise MalformedJsonError("the wrong bracket closes")
        self._contexts.pop()
        self.start = self.position - 1
        self.token = Token.END_ARRAY if last == 0x5D else Token.END_OBJECT
        return self.token

    def _after_blanks(self) -> int:
        while True:
            position = _BLANK.match(self.line, self.position).end()  # type: ignore[union-attr]
            if position == len(self.line):
                self.position = position
                return -1
            self.position = position + 1
            first = self.line[position]
            if first != 0x2F or not self.dialect.comments:
                break
            self._skip_comment()
        if first < 0x20 or first == 0x2F:
            raise MalformedJsonError("a control character or comment between values")
        return first

    def _skip_comment(self) -> None:
        comment = _COMMENT.match(self.line, self.position)
        if comment is None:
            self._consume(1)
            raise MalformedJsonError("a slash that does not begin a comment")
        self.position = comment.start()
        self._decoded(comment.end(), skipped=True)
        self.position = comment.end()
        if comment[0].startswith(b"*") and comment[1] is None:
            raise MalformedJsonError("a comment is not closed")

    def _demanded(self) -> int:
        first = self._after_blanks()
        if first < 0:
            raise MalformedJsonError("the line ends within an object or array")
        return first

    def _value(self, first: int) -> Token:
        """The token that starts with the byte before ``position``."""
        if first == 0x22:
            self._unread = True
            return Token.STRING
        if first in _OPENING:
            return _OPENING[first]
        if first in _WORDS:
            word, token = _WORDS[first]
            self._word(word)
            return token
        if first == 0x27 and self.dialect.single_quotes:
            self.text = self._quoted(first)
            return Token.STRING
        start = self.position - 1
        if match := _NOT_A_NUMBER.match(self.line, start):
            self._word(match[0])
            if not self.dialect.words:
                raise MalformedJsonError("a word for a number")
            self.text = match[0].decode()
            return Token.FLOAT
        if first in _DIGITS_AND_MINUS:
            return self._number(start)
        if first == 0x2B:
            self._consume(2 if self.line[self.position : self.position + 1] == b"I" else 1)
        elif first >= 0x80 or _IDENTIFIER.match(self.line, start)[0]:  # type: ignore[index]
            self._skip_identifier()
        raise MalformedJsonError("a value is missing")

    def _number(self, start: int) -> Token:
        if self.dialect.leading_zeros and (zeros := _LEADING_ZEROS.match(self.line, start)):
            token = self._number_from(zeros.end(1))
            self.text = "-" * (zeros.start(1) - start) + self.text
            return token
        return self._number_from(start)

    def _number_from(self, start: int) -> Token:
        match = _NUMBER.match(self.line, start)
        if match is None:
            self._consume(2 if self.line[start + 1 : start + 2] == b"I" else 1)
            raise MalformedJsonError("a minus without a number")
        self.position = end = match.end()
        whole, fraction, exponent = match.groups()
        if exponent is None and end < len(self.line):
            self._refuse_unfinished(self.line[end : end + 1], whole == b"0" and not fraction, bool(fraction))
        if end - start > MAX_NUMBER_DIGITS and len(match[0].translate(None, b"-+.eE")) > MAX_NUMBER_DIGITS:
            raise MalformedJsonError(f"a number of more than {MAX_NUMBER_DIGITS} digits")
        self.text = match[0].decode()
        return Token.FLOAT if fraction or exponent else Token.INT

    def _refuse_unfinished(self, following: bytes, zero: bool, fraction: bool) -> None:
        """Refuse a number because of the byte after it, and consume the bytes that Jackson reads."""
        if zero and following.isdigit():
            raise MalformedJsonError("a number with a leading zero")
        if following == b"." and not fraction:
            self._consume(2)
            raise MalformedJsonError("a decimal point without digits")
        if following in b"eE":
            signed = self.line[self.position + 1 : self.position + 2] in (b"+", b"-")
            self._consume(3 if signed else 2)
            raise MalformedJsonError("an exponent without digits")

    def _consume(self, count: int) -> None:
        self.position = min(self.position + count, len(self.line))

    def _word(self, word: bytes) -> None:
        start = self.position - 1
        end = start + len(word)
        rest = self.line[end : end + 1]
        if self.line[start:end] == word and not (rest >= b"0" and _IDENTIFIER.fullmatch(rest)):
            self.position = end
            return
        self._skip_identifier()
        raise MalformedJsonError("an unknown word")

    def _skip_identifier(self) -> None:
        """Skip the rest of an unknown word and the character after it, as Jackson does."""
        while True:
            self.position = _IDENTIFIER.match(self.line, self.position).end()  # type: ignore[union-attr]
            if self.position == len(self.line):
                return
            lead = self.line[self.position]
            if lead < 0x80:
                self.position += 1
                return
            char = self._decoded_leniently(self.position + 1, skipped=True)
            if not char.isalnum():
                return
