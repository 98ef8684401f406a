"""Secrets are found in texts whatever encoding has escaped which of their characters."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from unicodedata import normalize
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flip27_source.file_systems.encoded_secrets import EncodedSecrets

ESCAPES: dict[str, Callable[[str], str]] = {
    "%": lambda char: quote(char, safe="") if len(quote(char, safe="")) > 1 else f"%{ord(char):02x}",
    "&": lambda char: f"&#{ord(char)};",
    "\\": lambda char: json.dumps(char)[1:-1] if ord(char) > 127 or char in '"\\' else f"\\u{ord(char):04X}",
}
"""How encodings escape a character, by the character that they always escape."""


LETTERS = "aB3 %&\\\"'+/=<;é€\U0001f511#xu"


@example("3333333\\", [("\\", set()), ("%", {7}), ("\\", set())])
@given(
    secret=st.text(LETTERS, min_size=8, max_size=12).filter(lambda text: text.strip() == text),
    layers=st.lists(st.tuples(st.sampled_from(sorted(ESCAPES)), st.sets(st.integers(0, 40))), max_size=3),
)
def test_a_secret_is_found_whichever_of_its_characters_are_escaped(
    secret: str, layers: list[tuple[str, set[int]]]
) -> None:
    text = secret
    for mark, escaped in layers:
        escape = ESCAPES[mark]
        text = "".join(
            escape(char) if char == mark or number in escaped else char for number, char in enumerate(text)
        )
    secrets = EncodedSecrets([secret], shortest=3)
    assert secrets.masked(f"before {text} after") == "before *** after"
    assert secrets.are_in(text)


@pytest.mark.parametrize(
    "text",
    [
        normalize("NFD", "pässwörter"),
        "pässwörter".encode().decode("latin-1"),
        repr("pässwörter".encode())[2:-1],
        "p%E4sswörter",
        "PÄSSWÖRTER",
        *(base64.b64encode(f"{user}:pässwörter".encode()).decode() for user in ("a", "bo", "ann")),
        base64.urlsafe_b64encode("a:pässwörter, and more".encode()).decode(),
        "pässwörter".encode().hex(" "),
        "pässwörter".encode().hex().upper(),
    ],
)
def test_a_secret_is_found_in_other_forms(text: str) -> None:
    assert EncodedSecrets(["pässwörter"], shortest=3).are_in(f"<{text}>")


def test_secrets_that_overlap_are_masked_together() -> None:
    assert EncodedSecrets(["abc", "bcd"], shortest=3).masked("xabcdx abc") == "x***x ***"
    assert EncodedSecrets(["abab"], shortest=3).masked("xababab") == "x***"


def test_entities_that_stand_for_nothing_or_for_two_characters_move_no_mask() -> None:
    secrets = EncodedSecrets(["x1y2z3w4"], shortest=3)
    assert secrets.masked("&#1;&#1;&bne; x1&#121;2z3w4 after") == "&#1;&#1;&bne; *** after"


def test_short_secrets_have_no_other_forms() -> None:
    secrets = EncodedSecrets(["Test"], shortest=3)
    assert secrets.masked("Test TEST test VGVzdA== 54657374") == "*** TEST test VGVzdA== 54657374"


def test_what_is_no_encoding_is_left_as_it_is() -> None:
    text = "100% & \\ %zz &nothing; &#99999999; \\"
    assert EncodedSecrets(["secret"], shortest=3).masked(text) == text
