"""deploy/constraints.txt."""

from __future__ import annotations

import subprocess
import sys

from tests.pages.running import REPOSITORY


def test_the_constraints_name_every_required_package_and_no_address() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.constraints", "--check"],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "://" not in (REPOSITORY / "deploy/constraints.txt").read_text()
