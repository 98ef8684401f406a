"""docs/cli.md has an example of every command and names every option."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.cli_page import commands

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "cli.md").read_text()
COMMANDS = dict(commands())


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_an_example_and_every_option_is_named(words: str) -> None:
    section = PAGE.partition(f"## {words}\n")[2].partition("\n## ")[0]
    assert f"```bash\n{words} " in section or f"```bash\n{words}\n" in section
    assert "`--json` prints" in section
    for parameter in COMMANDS[words].params:
        is_option = parameter.param_type_name == "option"
        assert f"`{parameter.opts[0] if is_option else parameter.metavar}" in section
    assert "None" not in section
