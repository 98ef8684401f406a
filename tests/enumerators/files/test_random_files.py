"""Random files, formats, options, orders of arrival and crashes: the sink has exactly the rows of the files.

``make soak`` plays thousands of such histories; these tests play the same few in every run.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from tests.soak.file_histories import History, histories
from tests.soak.random_files import play


@settings(max_examples=60, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(histories())
def test_rows_out_equal_rows_in_whatever_happens_to_files_and_query(history: History) -> None:
    play(history)
