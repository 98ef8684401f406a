"""One line of JSON as the tokens that Jackson's parser gives Spark, one at a time.

Spark's results for broken documents are those of Jackson's state when it gives up: what it had
read by then, and where it goes on. So this mirrors Jackson's UTF8StreamJsonParser with Spark's
defaults (single quotes and NaN words allowed; comments, unquoted names, leading zeros not): a name
is read together with the first byte of its value, a string in double quotes only when it is asked
for. What lives here knows nothing of schemas.
"""

from __future__ import annotations

import base64
import re
from enum import Enum, auto

MAX_DEPTH = 1000
MAX_NUMBER_DIGITS = 1000
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


class _NotUtf8Error(MalformedJsonError):
    pass


_ROOT, _ARRAY, _OBJECT = range(3)
_BLANK = re.compile(rb"[ \t\n\r]*")
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_A_NUMBER = re.compile(rb"NaN|Infinity|[+-]INF|[+-]Infinity")
_WORDS = {0x74: (b"true", Token.TRUE), 0x66: (b"false", Token.FALSE), 0x6E: (b"null", Token.NULL)}
_OPENING = {0x7B: Token.START_OBJECT, 0x5B: Token.START_ARRAY}
_PLAIN = {0x22: re.compile(rb'[^"\\\x00-\x1f]*'), 0x27: re.compile(rb"[^'\\\x00-\x1f]*")}
_REST_OF_NAME = {0x22: re.compile(rb'(?:[^"\\]|\\.)*"?'), 0x27: re.compile(rb"(?:[^'\\]|\\.)*'?")}
_ESCAPES = {0x62: "\b", 0x74: "\t", 0x6E: "\n", 0x66: "\f", 0x72: "\r"}
_ESCAPES |= {ord(char): char for char in "\"/\\'"}
_HEX = re.compile(rb"[0-9a-fA-F]{0,4}")
_IDENTIFIER = re.compile(rb"[0-9A-Za-z_$\x00-\x08\x0e-\x1b\x7f]*")
_BASE64_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BASE64_STRING = re.compile(rb'((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?)"')
_BASE64_TEXT = re.compile(
    r"(?:[\0- ]*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*[\0- ]*", re.ASCII
)
_BASE64_GROUP = re.compile(r"[^\0- ]{4}")
_QUOTE, _BLANK_SEXTET, _PADDING = -1, -2, -3
_DIGITS_AND_MINUS = b"-0123456789"


class Tokens:
    """A pull parser over ``line``; ``token`` is the current token, None before the first."""

    __slots__ = ("_contexts", "_pending", "_unread", "line", "position", "start", "text", "token")

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.position = 3 if line.startswith(b"\xef\xbb\xbf") and len(line) > 3 else 0
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

    def base64(self) -> bytes:
        """The bytes that the current string stands for.

        Where Jackson refuses it, it goes on reading the string from there: a missing last character
        makes it take the closing quote for the last, and the rest of the line for the string.
        """
        if not self._unread:
            return _plain_base64(self.text)
        simple = _BASE64_STRING.match(self.line, self.position)
        if simple:
            self.position = simple.end()
            self._unread = False
            return _plain_base64(simple[1].decode())
        decoded = bytearray()
        while (first := self._sextet(0)) != _QUOTE:
            if first == _BLANK_SEXTET:
                continue
            bits = first << 6 | self._sextet(1)
            third = self._sextet(2)
            if third == _PADDING:
                if self._sextet(3) != _PADDING:
                    raise MalformedJsonError("not base64")
                decoded.append(bits >> 4 & 0xFF)
                continue
            bits = bits << 6 | third
            fourth = self._sextet(3)
            if fourth == _PADDING:
                decoded += (bits >> 2 & 0xFFFF).to_bytes(2)
            else:
                decoded += ((bits << 6 | fourth) & 0xFFFFFF).to_bytes(3)
        self._unread = False
        return bytes(decoded)

    def _sextet(self, index: int) -> int:
        """The next base64 character of a group of four; what it stands for, or a mark."""
        if self.position == len(self.line):
            raise MalformedJsonError("a string is not closed")
        byte = self.line[self.position]
        self.position += 1
        if index == 0 and byte <= 0x20:
            return _BLANK_SEXTET
        if byte == 0x22 and index != 1:
            if index == 0:
                return _QUOTE
            self.position -= 1
            raise MalformedJsonError("base64 without its padding")
        char = chr(byte)
        if byte == 0x5C:
            char = self._escape()
            if index == 0 and char <= " ":
                return _BLANK_SEXTET
        if char == "=" and index > 1:
            return _PADDING
        value = _BASE64_ALPHABET.find(char)
        if value < 0:
            raise MalformedJsonError("not base64")
        return value

    def raw(self) -> bytes:
        """The bytes of the current value, as they are in the line; steps to its end."""
        start = self.start
        self.skip_children()
        return self.line[start : self.position]

    def _value_of_name(self) -> Token | None:
        token, self._pending = self._pending, None
        self.token = token if token is None else self._opened(token)
        return token

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
        position = _BLANK.match(self.line, self.position).end()  # type: ignore[union-attr]
        if position == len(self.line):
            self.position = position
            return -1
        self.position = position + 1
        first = self.line[position]
        if first < 0x20 or first == 0x2F:
            raise MalformedJsonError("a control character or comment between values")
        return first

    def _demanded(self) -> int:
        first = self._after_blanks()
        if first < 0:
            raise MalformedJsonError("the line ends within an object or array")
        return first

    def _name(self, first: int) -> str:
        if first not in (0x22, 0x27):
            if first >= 0x80:
                self.position -= 1
                self._decoded_leniently(self.position + 1, skipped=True)
            raise MalformedJsonError("a name in quotes is missing")
        start = self.position
        try:
            name = self._quoted(first)
        except _NotUtf8Error:
            # Jackson looks for the end of a name first, and decodes it then.
            self.position = _REST_OF_NAME[first].match(self.line, self.position).end()  # type: ignore[union-attr]
            raise
        escaped = b"\\u" in self.line[start : self.position]
        if len(name) > MAX_NAME_CHARS:
            raise MalformedJsonError(f"a name of more than {MAX_NAME_CHARS} characters")
        try:
            return _joined(name, "strict" if escaped else "surrogatepass")
        except UnicodeDecodeError:
            raise MalformedJsonError("half a surrogate pair in a name") from None

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
        if first == 0x2B:
            self._consume(2 if self.line[self.position : self.position + 1] == b"I" else 1)
        elif first >= 0x80 or _IDENTIFIER.match(self.line, start)[0]:  # type: ignore[index]
            self._skip_identifier()
        raise MalformedJsonError("a value is missing")

    def _number(self, start: int) -> Token:
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
        """Refuse a number by the byte after it, with the bytes consumed that Jackson looks at."""
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
        """Step over the rest of an unknown word and the character after it, as Jackson does."""
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

    def _quoted(self, quote: int, *, skipped: bool = False) -> str:
        """The text up to the closing quote, which is consumed; Jackson checks less when it skips."""
        pieces: list[str] = []
        while True:
            end = _PLAIN[quote].match(self.line, self.position).end()  # type: ignore[union-attr]
            if end > self.position:
                pieces.append(self._decoded(end, skipped))
            self.position = min(end + 1, len(self.line))
            if end == len(self.line):
                raise MalformedJsonError("a string is not closed")
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
            digits = _HEX.match(self.line, self.position)[0]  # type: ignore[index]
            self.position += len(digits)
            if len(digits) < 4:
                self.position = min(self.position + 1, len(self.line))
                raise MalformedJsonError("a wrong escape sequence")
            return chr(int(digits, 16))
        char = _ESCAPES.get(letter)
        if char is None:
            self.position -= 1
            self._decoded_leniently(self.position + 1, skipped=True)
            raise MalformedJsonError("a wrong escape sequence")
        return char

    def _decoded(self, end: int, skipped: bool) -> str:
        body = self.line[self.position : end]
        try:
            return body.decode()
        except UnicodeDecodeError:
            return self._decoded_leniently(end, skipped)

    def _decoded_leniently(self, end: int, skipped: bool) -> str:
        """UTF-8 as Jackson takes it: overlong forms pass. The result is UTF-16 units."""
        units: list[str] = []
        while self.position < end:
            lead = self.line[self.position]
            self.position += 1
            if lead < 0x80:
                units.append(chr(lead))
                continue
            more = 1 if lead & 0xE0 == 0xC0 else 2 if lead & 0xF0 == 0xE0 else 3 if lead & 0xF8 == 0xF0 else 0
            if more == 0:
                raise _NotUtf8Error("not UTF-8")
            code = lead & (0x3F >> more)
            for _ in range(more):
                if self.position == len(self.line):
                    raise _NotUtf8Error("not UTF-8")
                byte = self.line[self.position]
                self.position += 1
                if byte & 0xC0 != 0x80:
                    raise _NotUtf8Error("not UTF-8")
                code = code << 6 | byte & 0x3F
            if 0xD800 <= code <= 0xDFFF and not skipped:
                raise _NotUtf8Error("not UTF-8")
            if more < 3:
                units.append(chr(code))
            else:
                units += (chr(0xD800 | (code - 0x10000) >> 10 & 0x7FF), chr(0xDC00 | code & 0x3FF))
        return "".join(units)


def _plain_base64(text: str) -> bytes:
    if not _BASE64_TEXT.fullmatch(text):
        raise MalformedJsonError("not base64")
    return b"".join(base64.b64decode(group) for group in _BASE64_GROUP.findall(text))


def java_utf8(text: str) -> bytes:
    """The text as Java writes it: surrogate pairs joined, a lone surrogate as a question mark."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _joined(text, "surrogatepass").encode("utf-8", "replace")


def _joined(text: str, lone_surrogates: str) -> str:
    """The text with surrogate pairs, which escapes leave as two characters, made one."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", lone_surrogates)
