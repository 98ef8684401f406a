"""A file that may not be read: root may read all, so the test gives that power up first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from flip27_source.enumerator import Boundedness
from flip27_source.reader import SourceReaderContext
from flip27_source.runtime.holder import CoordinatorHolder
from flip27_source.runtime.subtask import read_subtask
from flip27_source.snapshots.offsets import INITIAL_OFFSET
from flip27_source.source import Source

options = {"enumerator": "files", "reader": "text", "path": sys.argv[1], "discoveryRetries": "0"}
source = Source.resolve(options)
holder = CoordinatorHolder(source, Boundedness.BOUNDED)
start = INITIAL_OFFSET.to_json()
end = holder.latest_offset(start, None)
schema = source.reader_type.default_schema(source.options)
context = SourceReaderContext(options=source.options, schema=schema)
for planned in holder.plan(start, end):
    print(list(read_subtask(source, planned, context)))
"""


def run_without_the_power_of_root(path: Path) -> str:
    program = [sys.executable, "-c", PROGRAM, str(path)]
    if os.geteuid() == 0:
        program = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *program]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_a_file_without_read_permission_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("1\n")
    assert "RecordBatch" in run_without_the_power_of_root(tmp_path)
    (tmp_path / "secret.txt").chmod(0)
    message = run_without_the_power_of_root(tmp_path)
    assert f"{tmp_path}/secret.txt" in message
    assert "SplitReadError" in message
    assert "permission" in message


def test_a_folder_without_permission_is_named_with_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "landing"
    folder.mkdir(mode=0)
    message = run_without_the_power_of_root(folder)
    assert f"path {folder} cannot be listed" in message
    assert "give the driver's user read and execute permission" in message
