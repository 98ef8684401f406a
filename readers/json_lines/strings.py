"""Strings within a JSON line: escapes, UTF-8 and base64 as Jackson reads them.

The rules, and the position after an error, are Jackson's: they decide what Spark reads from the rest of
a malformed line.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

MAX_NAME_CHARS = 50_000

_PLAIN = {0x22: re.compile(rb'[^"\\\x00-\x1f]*'), 0x27: re.compile(rb"[^'\\\x00-\x1f]*")}
_PLAIN_WITH_CONTROLS = {0x22: re.compile(rb'[^"\\]*'), 0x27: re.compile(rb"[^'\\]*")}
_REST_OF_NAME = {0x22: re.compile(rb'(?:[^"\\]|\\.)*"?'), 0x27: re.compile(rb"(?:[^'\\]|\\.)*'?")}
_ESCAPES = {0x62: "\b", 0x74: "\t", 0x6E: "\n", 0x66: "\f", 0x72: "\r"}
_ESCAPES |= {ord(char): char for char in "\"/\\'"}
_APOSTROPHE = 0x27
# Java's identifier characters in ISO-8859-1, as which Jackson decodes each byte, and a few other characters.
_UNQUOTED_NAME = re.compile(
    rb"[0-9A-Za-z_$@#*+\x7f-\x9f\xa2-\xa5\xaa\xad\xb5\xba\xc0-\xd6\xd8-\xf6\xf8-\xff-]*"
)
_HEX = re.compile(rb"[0-9a-fA-F]{0,4}")
_BASE64_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BASE64_STRING = re.compile(rb'((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?)"')
_BASE64_TEXT = re.compile(
    r"(?:[\0- ]*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*[\0- ]*", re.ASCII
)
_BASE64_GROUP = re.compile(r"[^\0- ]{4}")
_QUOTE, _BLANK_SEXTET, _PADDING = -1, -2, -3


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonDialect:
    """The syntax accepted beyond the JSON standard; the defaults are Spark's.

    Attributes:
        comments: accept comments as in Java and C++.
        unquoted_names: accept names of fields without quotes.
        single_quotes: accept single quotes around names and strings.
        leading_zeros: accept leading zeros in numbers.
        words: accept NaN, Infinity and the like as numbers.
        any_escape: accept a backslash before any character.
        control_characters: accept control characters in strings.
    """

    comments: bool = False
    unquoted_names: bool = False
    single_quotes: bool = True
    leading_zeros: bool = False
    words: bool = True
    any_escape: bool = False
    control_characters: bool = False


SPARK_DIALECT = JsonDialect()


class MalformedJsonError(Exception):
    """The line is invalid JSON, or a value does not match the schema."""


class _NotUtf8Error(MalformedJsonError):
    pass


class StringCursor:
    """A place in ``line`` from which strings are read."""

    __slots__ = ("dialect", "line", "position")

    def __init__(self, line: bytes, position: int, dialect: JsonDialect = SPARK_DIALECT) -> None:
        self.line = line
        self.position = position
        self.dialect = dialect

    def _name(self, first: int) -> str:
        if first != 0x22 and (first != _APOSTROPHE or not self.dialect.single_quotes):
            if self.dialect.unquoted_names:
                return self._unquoted_name()
            if first >= 0x80:
                self.position -= 1
                self._decoded_leniently(self.position + 1, skipped=True)
            raise MalformedJsonError("a name in quotes is missing")
        start = self.position
        try:
            name = self._quoted(first, is_name=True)
        except _NotUtf8Error:
            # Jackson finds the end of a name before it decodes the name.
            self.position = _REST_OF_NAME[first].match(self.line, self.position).end()  # type: ignore[union-attr]
            raise
        escaped = b"\\u" in self.line[start : self.position]
        if len(name) > MAX_NAME_CHARS:
            raise MalformedJsonError(f"a name of more than {MAX_NAME_CHARS} characters")
        try:
            return _joined(name, "strict" if escaped else "surrogatepass")
        except UnicodeDecodeError:
            raise MalformedJsonError("half a surrogate pair in a name") from None

    def _unquoted_name(self) -> str:
        start = self.position - 1
        end = _UNQUOTED_NAME.match(self.line, start).end()  # type: ignore[union-attr]
        self.position = max(end, self.position)
        if end in (start, len(self.line)):
            raise MalformedJsonError("a name is missing, or the line ends with it")
        name = StringCursor(self.line[start:end], 0)._decoded(end - start, skipped=False)
        return _joined(name, "surrogatepass")

    def _quoted(self, quote: int, *, skipped: bool = False, is_name: bool = False) -> str:
        """The text up to the closing quote, which is consumed; Jackson checks skipped text less."""
        pieces: list[str] = []
        # In values, Jackson allows control characters only between double quotes.
        takes_controls = self.dialect.control_characters and (is_name or quote != _APOSTROPHE)
        plain = _PLAIN_WITH_CONTROLS if takes_controls else _PLAIN
        while True:
            end = plain[quote].match(self.line, self.position).end()  # type: ignore[union-attr]
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
        if char is None or (letter == _APOSTROPHE and not self.dialect.single_quotes):
            self.position -= 1
            char = self._decoded_leniently(self.position + 1, skipped=True)
            if not self.dialect.any_escape:
                raise MalformedJsonError("a wrong escape sequence")
            if len(char) > 1:  # Jackson keeps the low bits of such a character's code point
                char = chr(ord(_joined(char, "surrogatepass")) & 0xFFFF)
        return char

    def _decoded(self, end: int, skipped: bool) -> str:
        body = self.line[self.position : end]
        try:
            return body.decode()
        except UnicodeDecodeError:
            return self._decoded_leniently(end, skipped)

    def _decoded_leniently(self, end: int, skipped: bool) -> str:
        """Decode UTF-8 as Jackson does, with overlong forms. The result is UTF-16 units."""
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

    def _quoted_base64(self) -> bytes:
        """The bytes of a base64 string, up to the closing quote, which is consumed."""
        simple = _BASE64_STRING.match(self.line, self.position)
        if simple:
            self.position = simple.end()
            return plain_base64(simple[1].decode())
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
        return bytes(decoded)

    def _sextet(self, index: int) -> int:
        """The value of the next base64 character in a group of four, or a mark."""
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


def plain_base64(text: str) -> bytes:
    if not _BASE64_TEXT.fullmatch(text):
        raise MalformedJsonError("not base64")
    return b"".join(base64.b64decode(group) for group in _BASE64_GROUP.findall(text))


def java_utf8(text: str) -> bytes:
    """The text as Java encodes it: surrogate pairs joined, a lone surrogate as a question mark."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _joined(text, "surrogatepass").encode("utf-8", "replace")


def _joined(text: str, lone_surrogates: str) -> str:
    """The text with each surrogate pair joined to one character; escapes leave two."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", lone_surrogates)
