"""Every option and argument of every command takes any text: the command answers, or refuses it cleanly.

``make test`` gives each of them a fourth of the texts, so that each text goes to a fourth of them.
"""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import flip27
from tests.cli.test_app import COMMANDS, PLACED, Places, origin, places, words_for
from tests.odd_values import ODD_TEXTS

__all__ = ["origin", "places"]

NOT_RUN = {("postgres", "drop"), ("import", "kafka"), ("check",)}
"""They call a server or start processes."""
PARAMETERS = [
    pytest.param(words, parameter, id=f"{' '.join(words)} {parameter.opts[0]}")
    for words, command in COMMANDS.items()
    for parameter in command.params
    if not getattr(parameter, "is_flag", False)
]


def valued(parameter: Any, base: list[str], text: str, command: Any) -> list[str]:
    """The words of a command with another value of one option or argument."""
    if parameter.param_type_name == "option":
        return [*base, f"{parameter.opts[0]}={text}"]
    arguments = [item.name for item in command.params if item.param_type_name == "argument"]
    number = arguments.index(parameter.name)
    others = base or [f"value{index}" for index in range(len(arguments))]
    return [*others[:number], *others[number + 1 : len(arguments)], *others[len(arguments) :], "--", text]


@pytest.mark.parametrize("gets_all", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize(("words", "parameter"), PARAMETERS)
def test_an_odd_value_is_used_or_refused_with_an_error(
    words: tuple[str, ...],
    parameter: Any,
    gets_all: bool,
    places: Places,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "in" / "it").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "in" / "it")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    is_run = words in PLACED and words not in NOT_RUN
    base = words_for(words, places) if is_run else []
    first = zlib.crc32(f"{words} {parameter.opts}".encode()) % 4
    codes = set()
    for text in ODD_TEXTS if gets_all else ODD_TEXTS[first::4]:
        given = valued(parameter, base, text, COMMANDS[words])
        if is_run:
            codes.add(flip27(*words, *given).code)
        else:
            codes.add(parsed(words, given))
    assert codes <= {0, 1, 2, 3}


@pytest.mark.parametrize(
    "words",
    ["savepoint show /\udcff", "edit list --state /\udcff", "savepoint requests --state / --lineage a"],
)
def test_a_value_that_cannot_exist_is_refused_with_a_remedy(words: str) -> None:
    assert flip27(*words.split(), "--json").data["error"]["remedy"]


@pytest.mark.slow
def test_a_check_reports_a_location_whose_name_is_too_long() -> None:
    findings = flip27("check", "--state", f"/tmp/{'x' * 300}", "--json").data["findings"]
    assert any(f"in /tmp/{'x' * 300}" in finding["found"] for finding in findings)


def parsed(words: tuple[str, ...], given: list[str]) -> int:
    """Parse a command line without running it; return the exit code."""
    try:
        COMMANDS[words].make_context(words[-1], given)
    except Exception as error:  # noqa: BLE001 - Typer has its own copy of Click's errors
        return getattr(error, "exit_code", -1)
    return 0
