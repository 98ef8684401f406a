"""Fills the made parts of docs/protocol.md from the code and the tests; with --check, only compares.

Made are the state table of the gateway (by calling it in each of its states) and the list of which
test shows which scenario (from the names of the tests).
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flip27_source.coordination.gateway import AddSplit, SubtaskGateway
from flip27_source.errors import ProtocolError
from scripts.made_page import write_or_check

TOP = Path(__file__).parents[1]
PAGE = TOP / "docs" / "protocol.md"
TESTS = TOP / "tests"

SCENARIOS = [*range(1, 36), *range(44, 68), 70, 71, 74, *range(79, 90), *range(91, 101)]
"""The scenarios that the protocol has to show, or to say why they cannot arise."""

Gateway = SubtaskGateway[Any]


@dataclass(frozen=True, slots=True)
class _Split:
    split_id: str


_ITEM: AddSplit[Any] = AddSplit(_Split("x"), pinned=True)


def _open(gateway: Gateway) -> None:
    pass


def _marked(gateway: Gateway) -> None:
    gateway.mark_for_checkpoint(5)


def _closed(gateway: Gateway) -> None:
    gateway.mark_for_checkpoint(5)
    gateway.try_close(5)
    gateway.send(_ITEM)


_STATES: dict[str, Callable[[Gateway], object]] = {
    "open": _open,
    "marked for 5": _marked,
    "closed by 5": _closed,
}
_CALLS: dict[str, Callable[[Gateway], object]] = {
    "send": lambda gateway: gateway.send(_ITEM),
    "mark 5": lambda gateway: gateway.mark_for_checkpoint(5),
    "mark 6": lambda gateway: gateway.mark_for_checkpoint(6),
    "close 5": lambda gateway: gateway.try_close(5),
    "close 6": lambda gateway: gateway.try_close(6),
    "acknowledge 4": lambda gateway: gateway.open_after(4),
    "acknowledge 5": lambda gateway: gateway.open_after(5),
    "acknowledge 6": lambda gateway: gateway.open_after(6),
    "abort, reset": lambda gateway: gateway.open(),
}


def page(text: str) -> str:
    """The page with its made parts made anew."""
    known = _shown().keys() | _excused(text).keys()
    missing = [number for number in SCENARIOS if number not in known]
    if missing:
        raise SystemExit(f"no test is named after scenarios {missing}, and {PAGE.name} does not say why")
    for name, part in (("gateway", _gateway_table()), ("scenarios", _scenario_table(text))):
        marks = rf"(<!-- {name}: made by scripts.protocol_page -->\n).*?(<!-- end -->)"
        text, found = re.subn(marks, lambda m, part=part: m[1] + part + m[2], text, flags=re.DOTALL)  # type: ignore[misc]
        if found != 1:
            raise SystemExit(f"{PAGE.name} has no place for the part {name}")
    return text


def _gateway_table() -> str:
    lines = ["| state | " + " | ".join(_CALLS) + " |", "|---|" + "---|" * len(_CALLS)]
    for state, prepare in _STATES.items():
        cells = []
        for call in _CALLS.values():
            gateway: Gateway = SubtaskGateway(0)
            prepare(gateway)
            cells.append(_outcome(gateway, call))
        lines.append(f"| {state} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _outcome(gateway: Gateway, call: Callable[[Gateway], object]) -> str:
    before, outbox, waiting = gateway.state, len(gateway), len(list(gateway.waiting()))
    try:
        call(gateway)
    except ProtocolError:
        return "error"
    told = []
    if gateway.state is not before:
        told.append(gateway.state.value)
    if len(list(gateway.waiting())) > waiting:
        told.append("to the outbox" if len(gateway) > outbox else "held back")
    elif len(gateway) > outbox:
        told.append("what was held back goes out")
    return ", ".join(told) or "no effect"


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
