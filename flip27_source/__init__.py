"""flip27: FLIP-27 sources for Spark Structured Streaming, in Python.

Authors of sources import from here; this module does not import pyspark until it is needed.
"""

from ._version import __version__
from .discovery import DiscoveringEnumerator, Discovery
from .enumerator import (
    Boundedness,
    BoundedRange,
    Budget,
    ForgetsSplits,
    HoldsSplits,
    PerformsActions,
    ReaderInfo,
    RetryPolicy,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from .errors import Flip27Error
from .events import Progress, ReturnSplit, SourceEvent
from .options import Option, Options
from .reader import ReadsRanges, ReadsTogether, SourceReaderContext, SplitReader, YieldsProgress
from .segment import Segment
from .spark.registration import register
from .split import SourceSplit, SplitSize

__all__ = [
    "BoundedRange",
    "Boundedness",
    "Budget",
    "DiscoveringEnumerator",
    "Discovery",
    "Flip27Error",
    "ForgetsSplits",
    "HoldsSplits",
    "Option",
    "Options",
    "PerformsActions",
    "Progress",
    "ReaderInfo",
    "ReadsRanges",
    "ReadsTogether",
    "RetryPolicy",
    "ReturnSplit",
    "Segment",
    "SourceEvent",
    "SourceReaderContext",
    "SourceSplit",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "SplitReader",
    "SplitSize",
    "YieldsProgress",
    "__version__",
    "register",
]
