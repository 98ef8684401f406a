"""Other projects' test suites as a specification: each of their cases is a test here, or has a reason.

The tables in ``suites`` name the cases of Spark's suites for files and Kafka, and of Flink CDC's and
Debezium's suites for PostgreSQL. The case ``(all)`` stands for a whole suite.
"""

from __future__ import annotations

import ast
import csv
import re
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
TABLES = sorted((TOP / "tests" / "suites").glob("*.csv"))
PAGE = re.compile(r"(docs/\w+\.md)(?:#([\w-]+))?")
NOT_RUN = re.compile(r"\b(skip|skipif|xfail|long)\b")


def cases(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@cache
def functions_in(file: str) -> dict[str, str]:
    """The tests of a file, with all that may keep them from running: marks, also of the file, and skips."""
    found = {}
    marks = ""
    for node in ast.parse((TOP / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node.targets[0]):
            marks = ast.unparse(node.value)
        elif isinstance(node, ast.FunctionDef):
            # Marks of single parameters leave the others.
            whole = [mark for mark in map(ast.unparse, node.decorator_list) if "parametrize" not in mark]
            found[node.name] = " ".join([*whole, *re.findall(r"pytest\.skip\b", ast.unparse(node.body))])
    return {name: f"{marks} {own}" for name, own in found.items()}


@cache
def sections(page: str) -> set[str]:
    """The sections of a page, as links name them; one without a name is the page itself."""
    headings = re.findall(r"^#+ (.+)$", (TOP / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {"", *(re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings)}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_each_case_of_another_suite_is_a_test_that_runs_or_has_a_reason(table: Path) -> None:
    faults = []
    seen = set()
    for case in cases(table):
        name = f"{case['suite']}: {case['case']}"
        file, _, test = case["test"].partition("::")
        if name in seen or not case["case"]:
            faults.append(f"{name} is there twice, or has no name")
        seen.add(name)
        if bool(test) == bool(case["reason"]):
            faults.append(f"{name} needs either a test or a reason")
        elif test and test not in functions_in(file):
            faults.append(f"{name}: {case['test']} does not exist")
        elif test and NOT_RUN.search(functions_in(file)[test]):
            faults.append(f"{name}: {case['test']} does not always run")
        faults += [
            f"{name}: {page} has no section {section}"
            for page, section in PAGE.findall(case["reason"])
            if section not in sections(page)
        ]
    assert faults == []
    assert len(seen) > 50
