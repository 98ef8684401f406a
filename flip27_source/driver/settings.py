"""The coordinator's settings, derived from a source's options."""

from __future__ import annotations

from ..coordination.actions import ActionPolicy
from ..coordination.context import CoordinatorSettings
from ..coordination.subtask_reports import ReportDemand
from ..enumerator_context import Boundedness
from ..reader import YieldsProgress
from ..source import Source
from ..source_options import (
    MAX_ACTION_ATTEMPTS,
    MAX_PARTITION_BYTES,
    MAX_QUARANTINED_SPLITS,
    ON_ACTION_ERROR,
    PARALLELISM,
    POLL_INTERVAL,
)


def settings_of(
    source: Source, boundedness: Boundedness, *, reports: ReportDemand, one_batch: bool, cores: int
) -> CoordinatorSettings:
    """The settings of a source's coordinator; ``cores`` is the parallelism if the option is not set."""
    options = source.options
    chosen = options[PARALLELISM]
    return CoordinatorSettings(
        boundedness=boundedness,
        parallelism=chosen or cores,
        # A parallelism that the user set is kept; otherwise large batches get more tasks.
        max_partition_bytes=None if chosen else options[MAX_PARTITION_BYTES],
        reader_type=source.reader_type,
        options=options,
        reports=reports,
        one_batch=one_batch,
        reader_bounds_splits=issubclass(source.reader_type, YieldsProgress) and not one_batch,
        poll_interval_ms=round(options[POLL_INTERVAL] * 1000),
        max_quarantined_splits=options[MAX_QUARANTINED_SPLITS],
        action_policy=ActionPolicy(
            max_attempts=options[MAX_ACTION_ATTEMPTS], fail=options[ON_ACTION_ERROR] == "fail"
        ),
    )
