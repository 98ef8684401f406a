"""Writes docs/api.md from the docstrings of the public names; with --check, only compares."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, Protocol

import flip27_source
from flip27_source import edits, errors, metrics, savepoints, testing
from scripts.made_page import write_or_check

PAGE = Path(__file__).parents[1] / "docs" / "api.md"

INTRODUCTION = """\
# API

This page is made from the docstrings of the code (`python -m scripts.api_page`). What is not here is not
public.

How the parts belong together: [Write an enumerator](write_an_enumerator.md),
[Write a reader](write_a_reader.md), [Testing a source](testing.md), [Savepoints](savepoints.md),
[Edits](edits.md), [Monitoring](monitoring.md), [Troubleshooting](troubleshooting.md).
"""

MODULES = {
    "flip27_source": (flip27_source, "What authors of sources import."),
    "flip27_source.testing": (testing, "Running and checking sources without Spark."),
    "flip27_source.savepoints": (savepoints, "Savepoints for programs."),
    "flip27_source.edits": (edits, "Edits of the state for programs."),
    "flip27_source.metrics": (metrics, "Metrics of running queries."),
}


def page() -> str:
    """The whole page."""
    sections = [INTRODUCTION]
    for name, (module, what) in MODULES.items():
        sections.append(f"## {name}\n\n{what}\n")
        sections += [_entry(public, getattr(module, public)) for public in module.__all__]
    sections.append("## flip27_source.errors\n\nAll derive from Flip27Error.\n")
    sections += [_entry(error.__name__, error) for error in error_classes()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(sections)).rstrip() + "\n"


def error_classes() -> list[type[Exception]]:
    """The error classes, in the order of the module."""
    return [
        found
        for found in vars(errors).values()
        if isinstance(found, type) and issubclass(found, Exception) and found.__module__ == errors.__name__
    ]


def _entry(name: str, value: Any) -> str:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return f"### {name}\n\n{_about(value)}\n"
    lines = [f"### {name}", "", f"```\n{_heading(name, value)}\n```", "", _text(inspect.getdoc(value) or "")]
    if inspect.isclass(value):
        for method, function in _methods(value):
            lines += ["", f"**`{method}{_signature(function)}`**", "", _text(inspect.getdoc(function) or "")]
    return "\n".join(lines) + "\n"


def _about(value: Any) -> str:
    return f"A {type(value).__name__}." if not isinstance(value, str) else "The version of the package."


def _heading(name: str, value: Any) -> str:
    if inspect.isfunction(value):
        return f"{name}{_signature(value)}"
    bases = [base.__name__ for base in value.__bases__ if base not in (object, Generic, Protocol)]
    return f"class {name}({', '.join(bases)})" if bases else f"class {name}"


def _methods(owner: type) -> Iterator[tuple[str, Any]]:
    """Public methods that the class itself defines and that say what they do."""
    for name, value in vars(owner).items():
        function = inspect.unwrap(value.__func__ if isinstance(value, classmethod | staticmethod) else value)
        if isinstance(function, property):
            function = function.fget
        if inspect.isfunction(function) and not name.startswith("_") and function.__doc__:
            yield name, function


def _signature(function: Any) -> str:
    """The parameters as the source has them, without what would differ from one Python to the next."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    return str(signature.replace(parameters=parameters)).replace("'", "")


def _text(docstring: str) -> str:
    """A docstring as Markdown: roles and double backticks become code, sections become lists."""
    text = re.sub(r":\w+:`~?([^`]*)`", lambda match: f"`{match[1].rpartition('.')[2]}`", docstring)
    text = text.replace("``", "`")
    return re.sub(
        r"^(Args|Attributes|Returns|Raises):\n((?:    .*\n?|\n)+)", _section, text, flags=re.MULTILINE
    )


def _section(match: re.Match[str]) -> str:
    items: list[str] = []
    for line in match[2].splitlines():
        if re.match(r" {4}\S", line):
            items.append(line.strip())
        elif line.strip():
            items[-1] += f" {line.strip()}"
    rows = [re.sub(r"^([\w, *]+): ", r"`\1`: ", item) for item in items]
    return f"{match[1]}:\n\n" + "\n".join(f"- {row}" for row in rows) + "\n\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, lambda _: page()))
