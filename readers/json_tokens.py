"""One line of JSON as the tokens that Jackson's parser gives Spark, one at a time.

Spark's results for broken documents are those of Jackson's state when it gives up: what it had
read by then, and where it goes on. So this mirrors Jackson's UTF8StreamJsonParser with Spark's
defaults (single quotes and NaN words allowed; comments, unquoted names, leading zeros not): a name
is read together with the first byte of its value, a string in double quotes only when it is asked
for. What lives here knows nothing of schemas.
"""

from __future__ import annotations

import re
from enum import Enum, auto

MAX_DEPTH = 1000
MAX_NUMBER_CHARS = 1000
MAX_NAME_CHARS = 50_000


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


class MalformedJsonError(Exception):
    """The line is not JSON from some byte on, or a value is not what the schema asks for."""


_ROOT, _ARRAY, _OBJECT = range(3)
_BLANK = re.compile(rb"[ \t\n\r]*")
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_A_NUMBER = re.compile(rb"NaN|Infinity|[+-]INF|[+-]Infinity")
_WORDS = {0x74: (b"true", Token.TRUE), 0x66: (b"false", Token.FALSE), 0x6E: (b"null", Token.NULL)}
_OPENING = {0x7B: Token.START_OBJECT, 0x5B: Token.START_ARRAY}
_PLAIN = {0x22: re.compile(rb'[^"\\\x00-\x1f]*'), 0x27: re.compile(rb"[^'\\\x00-\x1f]*")}
_ESCAPES = {0x62: "\b", 0x74: "\t", 0x6E: "\n", 0x66: "\f", 0x72: "\r"}
_ESCAPES |= {ord(char): char for char in "\"/\\'"}
_UNICODE_ESCAPE = re.compile(rb"[0-9a-fA-F]{4}")
_IDENTIFIER = re.compile(rb"[0-9A-Za-z_$\x00-\x08\x0e-\x1b\x7f-\xff]*")
_DIGITS_AND_MINUS = b"-0123456789"


class Tokens:
    """A pull parser over ``line``; ``token`` is the current token, None before the first."""

    __slots__ = ("_contexts", "_pending", "_unread", "line", "position", "start", "text", "token")

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.position = 3 if line.startswith(b"\xef\xbb\xbf") else 0
        self.start = 0
        """Position of the first byte of the current value."""
        self.text = ""
        """Text of the current number, or of a string once it was read."""
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
        """Step to the next token; None at the end."""
        if self.token is Token.FIELD_NAME:
            return self._value_of_name()
        if self._unread:
            self.string()
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
        """At the start of an object or array, step to its end; elsewhere do nothing."""
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
        """Text of the current string."""
        if self._unread:
            self._unread = False
            self.text = self._quoted(0x22)
        return self.text

    def raw(self) -> bytes:
        """The bytes of the current value, as they are in the line; steps to its end."""
        start = self.start
        self.skip_children()
        return self.line[start : self.position]

    def _value_of_name(self) -> Token | None:
        token, self._pending = self._pending, None
        self.token = token
        if token is not None:
            self._opened(token)
        return token

    def _opened(self, token: Token) -> Token:
        if token is Token.START_OBJECT or token is Token.START_ARRAY:
            if len(self._contexts) > MAX_DEPTH:
                raise MalformedJsonError(f"more than {MAX_DEPTH} levels")
            self._contexts.append([_OBJECT if token is Token.START_OBJECT else _ARRAY, -1, None])
        return token

    def _close(self, last: int) -> Token:
        kind = self._contexts[-1][0]
        if kind != (_ARRAY if last == 0x5D else _OBJECT):
            raise MalformedJsonError("the wrong bracket closes")
        self._contexts.pop()
        self.token = Token.END_ARRAY if last == 0x5D else Token.END_OBJECT
        return self.token

    def _after_blanks(self) -> int:
        position = _BLANK.match(self.line, self.position).end()  # type: ignore[union-attr]
        if position == len(self.line):
            self.position = position
            return -1
        self.position = position + 1
        return self.line[position]

    def _demanded(self) -> int:
        first = self._after_blanks()
        if first < 0:
            raise MalformedJsonError("the line ends within an object or array")
        return first

    def _name(self, first: int) -> str:
        if first not in (0x22, 0x27):
            raise MalformedJsonError("a name in quotes is missing")
        name = self._quoted(first)
        if len(name) > MAX_NAME_CHARS:
            raise MalformedJsonError(f"a name of more than {MAX_NAME_CHARS} characters")
        return name

    def _value(self, first: int) -> Token:
        """The token that begins with the byte before ``position``."""
        if first == 0x22:
            self._unread = True
            return Token.STRING
        if first in _OPENING:
            return _OPENING[first]
        if first in _WORDS:
            word, token = _WORDS[first]
            self._word(word)
            return token
        if first == 0x27:
            self.text = self._quoted(first)
            return Token.STRING
        start = self.position - 1
        if match := _NOT_A_NUMBER.match(self.line, start):
            self._word(match[0])
            self.text = match[0].decode()
            return Token.FLOAT
        if first in _DIGITS_AND_MINUS:
            return self._number(start)
        self._skip_identifier()
        raise MalformedJsonError("a value is missing")

    def _number(self, start: int) -> Token:
        match = _NUMBER.match(self.line, start)
        if match is None:
            self.position += 1
            raise MalformedJsonError("a minus without a number")
        self.position = end = match.end()
        whole, fraction, exponent = match.groups()
        following = self.line[end : end + 1]
        if exponent is None:
            open_end = b"eE" if fraction else b"eE."
            if following and (
                following in open_end or (whole == b"0" and not fraction and following.isdigit())
            ):
                self.position += 1
                raise MalformedJsonError("a number that goes on wrongly")
        digits = len(whole) + len(fraction or b"") + len(exponent or b"")
        if digits > MAX_NUMBER_CHARS:
            raise MalformedJsonError(f"a number of more than {MAX_NUMBER_CHARS} characters")
        self.text = match[0].decode()
        return Token.FLOAT if fraction or exponent else Token.INT

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
        end = _IDENTIFIER.match(self.line, self.position).end()  # type: ignore[union-attr]
        self.position = min(end + 1, len(self.line))

    def _quoted(self, quote: int) -> str:
        """The text up to the closing quote, which is consumed."""
        pieces: list[str] = []
        while True:
            end = _PLAIN[quote].match(self.line, self.position).end()  # type: ignore[union-attr]
            if end > self.position:
                pieces.append(self._decoded(end))
            if end == len(self.line):
                raise MalformedJsonError("a string is not closed")
            self.position = end + 1
            last = self.line[end]
            if last == quote:
                return pieces[0] if len(pieces) == 1 else "".join(pieces)
            if last != 0x5C:
                raise MalformedJsonError("a control character in a string")
            pieces.append(self._escape())

    def _escape(self) -> str:
        if self.position == len(self.line):
            raise MalformedJsonError("a string is not closed")
        letter = self.line[self.position]
        self.position += 1
        if letter == 0x75:
            match = _UNICODE_ESCAPE.match(self.line, self.position)
            if match is None:
                raise MalformedJsonError("a wrong escape sequence")
            self.position += 4
            return chr(int(match[0], 16))
        char = _ESCAPES.get(letter)
        if char is None:
            raise MalformedJsonError("a wrong escape sequence")
        return char

    def _decoded(self, end: int) -> str:
        body = self.line[self.position : end]
        try:
            return body.decode()
        except UnicodeDecodeError:
            return self._decoded_leniently(end)

    def _decoded_leniently(self, end: int) -> str:
        """UTF-8 as Jackson takes it: overlong forms and surrogates pass. The result is UTF-16 units."""
        units: list[str] = []
        while self.position < end:
            lead = self.line[self.position]
            self.position += 1
            if lead < 0x80:
                units.append(chr(lead))
                continue
            more = 1 if lead & 0xE0 == 0xC0 else 2 if lead & 0xF0 == 0xE0 else 3 if lead & 0xF8 == 0xF0 else 0
            if more == 0:
                raise MalformedJsonError("not UTF-8")
            code = lead & (0x3F >> more)
            for _ in range(more):
                if self.position == len(self.line):
                    raise MalformedJsonError("not UTF-8")
                byte = self.line[self.position]
                self.position += 1
                if byte & 0xC0 != 0x80:
                    raise MalformedJsonError("not UTF-8")
                code = code << 6 | byte & 0x3F
            if more < 3:
                units.append(chr(code))
            else:
                units += (chr(0xD800 | (code - 0x10000) >> 10 & 0x7FF), chr(0xDC00 | code & 0x3FF))
        return "".join(units)


def java_utf8(text: str) -> bytes:
    """The text as Java writes it: surrogate pairs joined, a lone surrogate as a question mark."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        units = text.encode("utf-16-le", "surrogatepass")
        return units.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace")
