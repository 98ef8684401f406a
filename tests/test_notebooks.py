"""The notebooks run from the first cell to the last, and their outputs match the stored ones."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from scripts.notebooks import NOTEBOOKS, execute, read, tidy

EACH_NOTEBOOK = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds_of_outputs(notebook: Any) -> list[list[str]]:
    """The kinds of output of each code cell: text, a table, a picture."""
    return [
        [kind for output in cell.outputs for kind in sorted(output.get("data", ["text/plain"]))]
        for cell in code_cells(notebook)
    ]


@pytest.mark.slow
@EACH_NOTEBOOK
def test_a_notebook_runs_and_its_outputs_are_of_the_stored_kinds(file: Path, tmp_path: Path) -> None:
    assert kinds_of_outputs(execute(file, tmp_path)) == kinds_of_outputs(read(file))


@EACH_NOTEBOOK
def test_a_notebook_is_stored_as_it_was_run_and_reveals_nothing_about_the_machine(file: Path) -> None:
    assert tidy(read(file), file.parent) == read(file), "run make notebooks"
    counts = [cell.execution_count for cell in code_cells(read(file))]
    assert counts == list(range(1, len(counts) + 1))


@EACH_NOTEBOOK
def test_a_notebook_has_assertions_and_a_plot(file: Path) -> None:
    notebook = read(file)
    trees = [ast.parse(cell.source) for cell in code_cells(notebook) if not cell.source.startswith("%%")]
    assert sum(isinstance(node, ast.Assert) for tree in trees for node in ast.walk(tree)) >= 3
    assert any("image/png" in kinds for kinds in kinds_of_outputs(notebook))


@EACH_NOTEBOOK
def test_links_of_a_notebook_have_existing_targets(file: Path) -> None:
    texts = [cell.source for cell in read(file).cells if cell.cell_type == "markdown"]
    links = [link for text in texts for link in re.findall(r"\]\(([^)#:]+)\)", text.replace("\n", " "))]
    assert [link for link in links if not (file.parent / link).exists()] == []


def test_an_assertion_that_fails_in_a_cell_fails_the_run(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell("assert 1 + 1 == 3, 'arithmetic has changed'")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "wrong.ipynb")
    with pytest.raises(CellExecutionError, match="arithmetic has changed"):
        execute(tmp_path / "wrong.ipynb", tmp_path)
