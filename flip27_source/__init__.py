"""flip27: FLIP-27 sources for Spark Structured Streaming, in Python.

Authors of sources import from here; this module does not import pyspark until it is needed.
"""

from ._version import __version__
from .chains import hybrid
from .discovery import DiscoveringEnumerator, Discovery
from .enumerator import Backlog, BoundedRange, Budget, Division, SourceEnd, SplitEnumerator
from .enumerator_context import Boundedness, ReaderInfo, RetryPolicy, SplitEnumeratorContext
from .enumerator_mixins import (
    CompletesPositions,
    CutsSomeSplits,
    FollowsEventTime,
    ForgetsSplits,
    HoldsSplits,
    LimitsEdits,
    NamedPosition,
    NamesPositions,
    PerformsActions,
)
from .errors import Flip27Error
from .event_time import EventTimeBucket, EventTimeRange
from .events import Progress, ReturnSplit, SourceEvent
from .options import Change, Option, Options, ReadingOption
from .reader import (
    KnowsConstants,
    KnowsEventTimes,
    ReadsEventTimeBuckets,
    ReadsRanges,
    ReadsTogether,
    SourceReaderContext,
    SplitReader,
    YieldsProgress,
)
from .schemas.inference import FindsSchema, InfersSchema, SamplesSplits, SplitSample
from .segment import Segment
from .spark.parsed import parsed
from .spark.registration import register
from .spark.starts import start_in_turn
from .split import SourceSplit, SplitSize

__all__ = [
    "Backlog",
    "BoundedRange",
    "Boundedness",
    "Budget",
    "Change",
    "CompletesPositions",
    "CutsSomeSplits",
    "DiscoveringEnumerator",
    "Discovery",
    "Division",
    "EventTimeBucket",
    "EventTimeRange",
    "FindsSchema",
    "Flip27Error",
    "FollowsEventTime",
    "ForgetsSplits",
    "HoldsSplits",
    "InfersSchema",
    "KnowsConstants",
    "KnowsEventTimes",
    "LimitsEdits",
    "NamedPosition",
    "NamesPositions",
    "Option",
    "Options",
    "PerformsActions",
    "Progress",
    "ReaderInfo",
    "ReadingOption",
    "ReadsEventTimeBuckets",
    "ReadsRanges",
    "ReadsTogether",
    "RetryPolicy",
    "ReturnSplit",
    "SamplesSplits",
    "Segment",
    "SourceEnd",
    "SourceEvent",
    "SourceReaderContext",
    "SourceSplit",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "SplitReader",
    "SplitSample",
    "SplitSize",
    "YieldsProgress",
    "__version__",
    "hybrid",
    "parsed",
    "register",
    "start_in_turn",
]
