"""The page about state says what the code does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from flip27_source.snapshots.views import SPARK_NAMES, VIEWS

REPOSITORY = Path(__file__).parents[2]


def test_the_tables_of_the_page_are_made_from_the_code() -> None:
    script = [sys.executable, "scripts/state_page.py", "--check"]
    done = subprocess.run(script, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, "run python scripts/state_page.py"


def test_every_column_has_a_type_that_spark_has_a_name_for() -> None:
    types = {column.type for view in VIEWS.values() for column in view.columns}
    assert types <= SPARK_NAMES.keys()
