"""Folders without read permission, and the permissions of files that are written."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.without_root import run_without_root

QUERY = """
import os, sys
from pathlib import Path
from flip27_source import savepoints
from flip27_source.testing import MicroBatchEngine

root = Path(sys.argv[1])
os.umask(int(sys.argv[2], 8))
options = {
    "enumerator": "files", "reader": "text", "path": str(root / "landing"), "maxFilesPerTrigger": "1",
    "stateLocation": str(root / "made/state"), "taskReports": "always",
    "cleanSource": "archive", "sourceArchiveDir": str(root / "made/archive"),
}
engine = MicroBatchEngine(options)
engine.process_all_available()
savepoints.create(state=options["stateLocation"], to=str(root / "made/savepoints"), copy=True)
savepoints.request(state=options["stateLocation"], to=str(root / "made/savepoints"))
engine.stop()
"""

PROGRAM = """
import sys
from flip27_source.testing import MicroBatchEngine

options = {"enumerator": "files", "reader": "text", "path": sys.argv[1], "discoveryRetries": "0"}
MicroBatchEngine(options).process_all_available()
"""


def test_the_error_for_a_folder_without_permission_names_it_and_a_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "landing"
    folder.mkdir(mode=0)
    message = run_without_root(PROGRAM, folder).stderr
    assert f"path {folder} cannot be listed" in message
    assert "give the driver's user read and execute permission" in message


@pytest.mark.parametrize("umask", [0o077, 0o027, 0o002, 0o022])
def test_every_written_file_has_the_permissions_given_by_the_umask(tmp_path: Path, umask: int) -> None:
    """Spark's checkpoint does the same: executors may run as another user of the driver's group."""
    (tmp_path / "landing").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "landing" / name).write_text("1\n")
    program = [sys.executable, "-c", QUERY, str(tmp_path), f"{umask:o}"]
    subprocess.run(program, check=True, timeout=60)
    made = sorted((tmp_path / "made").rglob("*"))
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in made if path.suffix != ".txt"}
    assert {path.parent.name for path in made} >= {"checkpoints", "reports", "drivers", "requests", "landing"}
    assert any(path.name == "_metadata" for path in made)
    wanted = {path: (0o777 if path.is_dir() else 0o666) & ~umask for path in modes}
    assert modes == wanted
