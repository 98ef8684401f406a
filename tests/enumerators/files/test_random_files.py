"""Random files, formats, options, orders of arrival and crashes: the sink has exactly the rows of the files.

``make soak`` plays thousands of such histories; these tests play the same few in every run.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from tests.soak.file_histories import History, histories
from tests.soak.random_files import play


@settings(max_examples=60, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(histories())
def test_each_row_is_read_once_whatever_happens_to_the_files_and_the_query(history: History) -> None:
    play(history)
