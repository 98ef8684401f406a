"""Writes docs/cli.md from the commands of ``flip27``; with --check, only compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from flip27_source.cli.app import whole_app
from scripts.made_page import write_or_check

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"

COMMON = ("--lineage", "--storage", "--json")

INTRODUCTION = """\
# The command line

All commands of `flip27`, with their options and their output. This page is generated from the code
(`python -m scripts.cli_page`).

```bash
pip install "flip27-source[cli]"
flip27 --install-completion        # Tab completes commands, options and values: bash, zsh, fish, PowerShell
```

The commands need neither Spark nor the classes of a source, except `demo` and `check --spark`. They may be
used while a query runs.

- They print tables: with borders on a terminal, elsewhere as aligned columns, one line for each row, with at
  least two blanks between cells and `-` for unknown values. Times are in UTC, such as
  `2026-01-03T10:00:00.250Z`.
- `--json` is for programs: one JSON value on standard output and nothing else there. Its fields are those
  named here, and those of the views in [state.md](state.md); times are ISO 8601, in UTC. An error is
  `{"error": {"kind", "what", "remedy"}}`.
- An option has the same meaning in all commands: `--state` is a `stateLocation`, `--checkpoint-location` is
  where Spark keeps the checkpoint of a query, `--checkpoint` is the number of a checkpoint of the source.
- Notes, questions and errors go to standard error. An error says what to do.
- No secret is printed: neither the value of an option that names a credential, nor the user and password in
  a URL, not even if a library's error contains them. But `ps` and the shell's history show the arguments of a
  command, so let the file system find credentials by itself (environment, profile, role).

| exit code | |
|---|---|
| 0 | done |
| 1 | refused, or something is wrong: the error says what and what to do |
| 2 | wrong usage: an unknown command or option, or an invalid value |
| 3 | `check`: a check failed; `import`, `export`, `notifications show`, `retire`: a problem is described |

The exit code is also 1 for a damaged savepoint (`savepoint verify`), lost or duplicated rows (`demo`), and
an answer other than yes (`savepoint delete`, `postgres drop`, `retire`, `notifications create` and `drop`).

These options are the same in all commands that have them:

"""


def page() -> str:
    """The whole page."""
    found = dict(commands())
    common = {name: item for command in found.values() for item in command.params for name in item.opts}
    head = INTRODUCTION + "\n".join(_table([common[name] for name in COMMON]))
    return "\n".join([head, "", *(_section(words, item) for words, item in found.items())])


def commands() -> Iterator[tuple[str, Any]]:
    """Every command, with the words that lead to it."""
    yield from _below(typer.main.get_command(whole_app()), "flip27")


def _below(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
    for name, item in (inner or {}).items():
        yield from _below(item, f"{words} {name}")


def _section(words: str, command: Any) -> str:
    example, _, answers = (command.epilog or "").partition("\n\n")
    own = [parameter for parameter in command.params if parameter.opts[0] not in COMMON]
    further = [f"`{name}`" for item in command.params for name in item.opts if name in COMMON]
    return "\n".join(
        [
            f"## {words}",
            "",
            command.help,
            "",
            f"```bash\n{example.removeprefix('Example: ')}\n```",
            "",
            *_table(own),
            *([""] if own else []),
            f"Further options: {', '.join(further)}.",
            "",
            answers.replace("JSON:", "`--json` prints"),
            "",
        ]
    )


def _table(parameters: list[Any]) -> list[str]:
    return ["| | default | |", "|---|---|---|", *map(_row, parameters)] if parameters else []


def _row(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    names = ", ".join(parameter.opts) if is_option else parameter.metavar or parameter.name
    metavar = f" {parameter.metavar}" if is_option and parameter.metavar else ""
    default = "needed" if parameter.required else _shown(parameter.default)
    return f"| `{names}{metavar}` | {default} | {parameter.help} |".replace(
        "|N..M|N..|..M", ", N..M, N.., ..M"
    )


def _shown(default: object) -> str:
    return "" if default in (None, False, (), []) else f"`{default}`"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, lambda _: page()))
