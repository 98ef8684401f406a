"""Writes docs/api.md from the docstrings of the public names; with --check, only compares."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, Protocol

import flip27_source
from flip27_source import edits, errors, metrics, savepoints, snapshot_then_log, testing
from scripts.made_page import write_or_check

PAGE = Path(__file__).parents[1] / "docs" / "api.md"

_WIDTH = 100

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
    "flip27_source.snapshot_then_log": (snapshot_then_log, "Chunks of tables, then their log."),
    "flip27_source.savepoints": (savepoints, "Savepoints for programs."),
    "flip27_source.edits": (edits, "Edits of the state for programs."),
    "flip27_source.metrics": (metrics, "Metrics of running queries."),
}


def page() -> str:
    """The whole page."""
    sections = [INTRODUCTION]
    for name, (module, what) in MODULES.items():
        sections.append(f"## {name}\n\n{what}\n")
        sections += [entry(public, getattr(module, public)) for public in module.__all__]
    sections.append("## flip27_source.errors\n\nAll derive from Flip27Error.\n")
    sections += [entry(error.__name__, error) for error in error_classes()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(sections)).rstrip() + "\n"


def error_classes() -> list[type[Exception]]:
    """The error classes, in the order of the module."""
    return [
        found
        for found in vars(errors).values()
        if isinstance(found, type) and issubclass(found, Exception) and found.__module__ == errors.__name__
    ]


def entry(name: str, value: Any) -> str:
    """The section of one public name."""
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return f"### {name}\n\n{_about(value)}\n"
    lines = [f"### {name}", "", f"```\n{_heading(name, value)}\n```", "", _text(inspect.getdoc(value) or "")]
    if inspect.isclass(value):
        for heading, function in _members(value):
            lines += ["", heading, "", _text(inspect.getdoc(function) or "")]
    return "\n".join(lines) + "\n"


def _about(value: Any) -> str:
    if isinstance(value, str):
        return "The version of the package."
    return f"An instance of `{type(value).__name__}`."


def _heading(name: str, value: Any) -> str:
    if inspect.isfunction(value):
        return _wrapped(name, inspect.signature(value))
    bases = [base.__name__ for base in value.__bases__ if base not in (object, Generic, Protocol)]
    heading = f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    if issubclass(value, enum.Enum):
        return "\n".join([heading, *(f"    {member.name} = {member.value!r}" for member in value)])
    return f"{heading}\n\n{_wrapped(name, _constructor(value))}" if _is_made_by_users(value) else heading


def _is_made_by_users(value: type) -> bool:
    """Whether a class can be instantiated: protocols and abstract classes are meant for subclasses."""
    makes = "__init__" in vars(value) or dataclasses.is_dataclass(value)
    return makes and not inspect.isabstract(value) and not getattr(value, "_is_protocol", False)


def _constructor(value: type) -> inspect.Signature:
    signature = inspect.signature(value.__init__)  # type: ignore[misc]
    return signature.replace(return_annotation=inspect.Signature.empty)


def _wrapped(name: str, signature: inspect.Signature) -> str:
    """A signature on one line, or with one line for each parameter if that is too long."""
    line = f"{name}{_shown(signature)}"
    if len(line) <= _WIDTH:
        return line
    words = [_shown(inspect.Signature([parameter]))[1:-1] for parameter in _without_self(signature)]
    kinds = [parameter.kind for parameter in _without_self(signature)]
    # A signature of one keyword-only parameter begins with a star, which only the first of them needs.
    words = [
        word.removeprefix("*, ") if kinds[index] is inspect.Parameter.KEYWORD_ONLY else word
        for index, word in enumerate(words)
    ]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        words.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    result = _shown(signature).rpartition(")")[2]
    return "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){result}"])


def _members(owner: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that the class itself defines and that have a docstring."""
    for name, value in vars(owner).items():
        function = inspect.unwrap(value.__func__ if isinstance(value, classmethod | staticmethod) else value)
        is_property = isinstance(function, property | functools.cached_property)
        if is_property:
            function = function.fget if isinstance(function, property) else function.func
        if inspect.isfunction(function) and not name.startswith("_") and function.__doc__:
            signature = inspect.signature(function)
            kind = "classmethod " if isinstance(value, classmethod) else ""
            if is_property:
                kind, shown = "property ", f": {_annotation(signature.return_annotation)}"
            else:
                shown = _shown(signature)
            yield f"{f'*{kind.strip()}* ' if kind else ''}**`{name}{shown}`**", function


def _shown(signature: inspect.Signature) -> str:
    """The parameters as in the source code, without anything that differs between versions of Python."""
    parameters = [
        parameter.replace(default=_Default(parameter.default))
        if parameter.default is not inspect.Parameter.empty
        else parameter
        for parameter in _without_self(signature)
    ]
    return str(signature.replace(parameters=parameters)).replace("'", "")


def _without_self(signature: inspect.Signature) -> list[inspect.Parameter]:
    return [p for p in signature.parameters.values() if p.name not in ("self", "cls")]


def _annotation(given: Any) -> str:
    return given if isinstance(given, str) else inspect.formatannotation(given)


class _Default:
    """A default value as in the source code; ``...`` for one that is private or created at each call."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        if isinstance(self._value, enum.Enum):
            return f"{type(self._value).__name__}.{self._value.name}"
        if isinstance(self._value, str):
            return f'"{self._value}"'
        if isinstance(self._value, int | float | bool | tuple | None):
            return repr(self._value)
        name: str = getattr(self._value, "__qualname__", "_")
        return "..." if name.startswith("_") else name


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
