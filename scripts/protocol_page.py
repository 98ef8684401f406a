"""Fills the generated parts of docs/protocol.md from the code and the tests; with --check, only compares.

The generated parts are the state tables of the gateway and of the checkpoint, from the data that the code
uses, and the list of the tests that show each scenario, from the names of the tests.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from flip27_source.coordination.checkpoint_states import CHECKPOINT_TRANSITIONS
from flip27_source.coordination.gateway import TRANSITIONS
from scripts.made_page import write_or_check

TOP = Path(__file__).parents[1]
PAGE = TOP / "docs" / "protocol.md"
TESTS = TOP / "tests"

SCENARIOS = [*range(1, 36), *range(44, 68), 70, 71, 74, *range(79, 90), *range(91, 101)]
"""The scenarios that tests must show, or for which the page must say why they cannot arise."""


def page(text: str) -> str:
    """The page with its generated parts generated again."""
    known = _shown().keys() | _excused(text).keys()
    missing = [number for number in SCENARIOS if number not in known]
    if missing:
        raise SystemExit(f"no test is named after scenarios {missing}, and {PAGE.name} does not say why")
    parts = {
        "gateway": _gateway_table(),
        "checkpoint": _checkpoint_table(),
        "scenarios": _scenario_table(text),
    }
    for name, part in parts.items():
        marks = rf"(<!-- {name}: made by scripts.protocol_page -->\n).*?(<!-- end -->)"
        text, found = re.subn(marks, lambda m, part=part: m[1] + part + m[2], text, flags=re.DOTALL)  # type: ignore[misc]
        if found != 1:
            raise SystemExit(f"{PAGE.name} has no place for the generated part {name}")
    return text


def _gateway_table() -> str:
    lines = ["| state | call | next state | effect | because |", "|---|---|---|---|---|"]
    for item in TRANSITIONS:
        next_state = "the same" if item.next_state is item.state else item.next_state.value
        cells = (item.state.value, item.call.value, next_state, item.effect.value, item.rule)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _checkpoint_table() -> str:
    lines = ["| state | call | next state | because |", "|---|---|---|---|"]
    for item in CHECKPOINT_TRANSITIONS:
        next_state = "the same" if item.next_state is item.state else item.next_state.value
        lines.append(f"| {item.state.value} | {item.call.value} | {next_state} | {item.rule} |")
    return "\n".join(lines) + "\n"


def _tests() -> Iterator[tuple[str, str]]:
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield str(file.relative_to(TOP)), node.name


@functools.cache
def _shown() -> dict[int, list[str]]:
    shown: dict[int, list[str]] = {}
    for file, name in _tests():
        for number in re.findall(r"_S(\d+)(?=_|$)", name):
            sentence = re.sub(r"(_[SRI]\d+)+$", "", name).removeprefix("test_").replace("_", " ")
            shown.setdefault(int(number), []).append(f"{sentence} (`{file}`)")
    return shown


def _excused(text: str) -> dict[int, str]:
    return {int(m[1]): m[2] for m in re.finditer(r"^- \*\*S(\d+)\*\*: (.+)$", text, re.MULTILINE)}


def _scenario_table(text: str) -> str:
    shown, excused = _shown(), _excused(text)
    lines = ["| scenario | shown by |", "|---|---|"]
    for number in SCENARIOS:
        tests = "; ".join(shown.get(number, []))
        lines.append(f"| S{number} | {tests or 'cannot arise: see below'} |")
    assert all(number in shown or number in excused for number in SCENARIOS)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page))
