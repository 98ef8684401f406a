"""Runs the notebooks and stores their outputs: ``make notebooks``.

Each runs in an empty folder and its own kernel. The stored outputs reveal nothing about the machine:
no paths, no log, no metadata of editors.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from flip27_source.cli.demo.process import spark_environment

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))

_CELL_TIMEOUT_S = 300
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def read(file: Path) -> Any:
    """Read a notebook."""
    return nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]


def execute(file: Path, folder: Path) -> Any:
    """Run a notebook from its first cell to its last.

    Args:
        folder: an empty folder, in which the notebook runs and creates its temporary folders.

    Returns:
        The notebook with its new outputs. The file itself does not change.

    Raises:
        CellExecutionError: a cell failed, or an assertion in it.
    """
    client = NotebookClient(
        read(file),
        timeout=_CELL_TIMEOUT_S,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    return tidy(client.execute(env={**spark_environment(), "TMPDIR": str(folder)}), folder)


def tidy(notebook: Any, folder: Path) -> Any:
    """Remove from the notebook what differs between machines and between editors.

    Temporary folders are renamed to ``/tmp/flip27``; standard error, which is Spark's log, is removed.
    """
    notebook.metadata = nbformat.from_dict(_METADATA)  # type: ignore[no-untyped-call]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [_neutral(output, folder) for output in cell.outputs if not _is_log(output)]
    return notebook


def _is_log(output: Any) -> bool:
    return bool(output.output_type == "stream" and output.name == "stderr")


def _neutral(output: Any, folder: Path) -> Any:
    place = re.compile(re.escape(str(folder)) + r"/flip27-\w+")
    if "text" in output:
        output.text = place.sub("/tmp/flip27", output.text)
    for kind, content in output.get("data", {}).items():
        if kind.startswith("text/"):
            output.data[kind] = place.sub("/tmp/flip27", content)
    if "metadata" in output:
        output.metadata = {}
    return output


def main(words: Sequence[str] | None = None) -> None:
    """Run the command, for all notebooks or for the given ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="names such as quickstart (default: all)")
    asked = parser.parse_args(words).names
    for file in [file for file in NOTEBOOKS if not asked or file.stem in asked]:
        print(f"{file.name} ...", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute(file, Path(folder).resolve())
        nbformat.write(notebook, file)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
