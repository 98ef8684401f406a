"""What older versions of Spark lack; docs/deployment.md contains this list as a table.

``python -m scripts.spark_versions_table`` writes the table. A test of a feature is marked ``needs(name)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import pyspark
import pytest

from flip27_source.spark.versions import PASSES_LIMITS, PUSHES_FILTERS

VERSIONS = ("4.0", "4.1", "4.2", "4.3")
"""Spark's versions, each tested in its newest release: by ``make compat``, the last by ``make test``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Something that users notice, and that not every version of Spark has.

    Attributes:
        since: the first version that has it; the first of all if every version does.
        present: whether the Spark of this process has it.
        before: what applies in older versions.
        shown_by: tests of it, from the folder tests on.
    """

    name: str
    since: str = VERSIONS[0]
    present: bool = True
    before: str = ""
    shown_by: tuple[str, ...]


_STREAMING = "spark/test_streaming.py"
VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))

FEATURES = (
    Feature(
        name="exactly once over restarts, repeated batches and killed drivers",
        shown_by=(
            f"{_STREAMING}::test_files_arrive_once_over_two_runs",
            f"{_STREAMING}::test_a_replayed_batch_is_the_same_batch",
            "spark/test_drivers.py::test_a_driver_killed_at_steps_of_a_batch_loses_nothing_and_repeats_nothing",
            "spark/test_rolled_back.py",
        ),
    ),
    Feature(
        name="limits of a batch (`maxFilesPerTrigger`, ...) with a processing-time trigger",
        shown_by=(f"{_STREAMING}::test_files_arrive_once_over_two_runs",),
    ),
    Feature(
        name="reports of tasks, events, quarantine, savepoints, edits, `flip27_state`",
        shown_by=(
            "spark/test_reports.py",
            "spark/test_savepoints.py",
            "spark/test_edits.py",
            "spark/test_state.py",
        ),
    ),
    Feature(
        name="sources that wait for each other (`alignmentGroup`), and paced replay (`replaySpeed`)",
        shown_by=("spark/test_groups.py",),
    ),
    Feature(
        name="native reads, `flip27_source.parsed`",
        shown_by=("spark/test_native.py", "spark/test_native_columns.py", "spark/test_parsed.py"),
    ),
    Feature(
        name="lines of CSV as variants (`singleVariantColumn`)",
        since="4.1",
        present=VERSION >= (4, 1),
        before="not in Spark; lines of JSON have them",
        shown_by=("spark/test_parsed.py::test_a_line_is_parsed_into_one_variant_column",),
    ),
    Feature(
        name="flip27's readers return the rows of files that Spark's own readers return",
        shown_by=("readers/columnar", "readers/csv_lines", "readers/test_text.py"),
    ),
    Feature(
        name="malformed lines of JSON are read as Spark's own reader does",
        since="4.3",
        present=VERSION >= (4, 3),
        before="flip27 reads them as Spark 4.3 does; older readers of Spark differ",
        shown_by=("readers/json_lines", "readers/schemas", "fuzz"),
    ),
    Feature(name="Spark Connect", shown_by=("spark/test_connect.py",)),
    Feature(
        name="columns that a reader yields in another order arrive by name",
        shown_by=("spark/test_authors.py::test_columns_in_another_order_arrive_by_name",),
    ),
    Feature(
        name="`Trigger.AvailableNow`, batch by batch",
        since="4.2",
        present=PASSES_LIMITS,
        before="it reads one batch: [read everything](#read-what-is-there-before-spark-42) in another way",
        shown_by=(f"{_STREAMING}::test_available_now_reads_what_existed_at_its_start_and_ends",),
    ),
    Feature(
        name="`Trigger.Once` takes no notice of limits",
        since="4.2",
        present=PASSES_LIMITS,
        before="it reads one batch, within the limits",
        shown_by=(f"{_STREAMING}::test_trigger_once_reads_everything_in_one_batch_whatever_the_limits",),
    ),
    Feature(
        name="the backlog, and what tasks have reported, in `latestOffset` of progress events",
        since="4.2",
        present=PASSES_LIMITS,
        before="the backlog is in `endOffset.summary`; metrics have it, without the numbers of tasks",
        shown_by=(
            "spark/test_reports.py::test_the_numbers_reported_by_tasks_are_in_the_progress_of_the_query",
        ),
    ),
    Feature(
        name="sources with names that may change places (`readStream.name`)",
        since="4.3",
        present=VERSION >= (4, 3),  # 4.2 has only the method
        before="sources are matched by their order; give each its own `uid`",
        shown_by=(f"{_STREAMING}::test_sources_with_names_keep_their_positions_when_they_change_places",),
    ),
    Feature(
        name="Spark Declarative Pipelines",
        since="4.1",
        present=find_spec("pyspark.pipelines") is not None,
        before="not in Spark",
        shown_by=("spark/test_pipelines.py",),
    ),
    Feature(
        name="asynchronous progress tracking, with [an option](guarantees.md#what-is-not-promised)",
        shown_by=(f"{_STREAMING}::test_a_query_with_asynchronous_progress_tracking_loses_no_row",),
    ),
    Feature(
        name="the plan of a loaded batch frame is kept for later actions",
        since="4.1",
        present=PUSHES_FILTERS,  # Spark 4.1 has changed both
        before="frames made of it plan again, and read what has arrived since",
        shown_by=(
            f"{_STREAMING}::test_a_batch_read_returns_all_rows_without_a_state_and_none_of_an_empty_folder",
            "spark/test_kafka.py::test_a_loaded_batch_frame_keeps_its_records_and_a_new_load_has_later_ones",
        ),
    ),
    Feature(
        name="filters of batch reads leave out files",
        since="4.1",
        present=PUSHES_FILTERS,
        before="all files are read; rows are the same",
        shown_by=("spark/test_pushed_filters.py",),
    ),
)


def has(name: str) -> bool:
    """Whether Spark has the feature whose name contains ``name``."""
    return _named(name).present


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test where Spark lacks the feature whose name contains ``name``."""
    feature = _named(name)
    return pytest.mark.skipif(not feature.present, reason=f"needs {name}: Spark {feature.since}")


def _named(name: str) -> Feature:
    (feature,) = (feature for feature in FEATURES if name in feature.name)
    return feature
