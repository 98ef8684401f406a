"""Testing without Spark: an engine that can crash anywhere, fakes with literal data, and the laws.

    from flip27_source.testing import CRASH, MicroBatchEngine, check_source, literal_source

    engine = MicroBatchEngine(literal_source({"a": [1, 2, CRASH, 3], "b": [4]}))
    engine.process_all_available()
    assert engine.rows == [(1,), (2,), (3,), (4,)]
    check_source({"path": "/landing"}, enumerator=MyEnumerator, reader=MyReader)

A source is given as for ``format("flip27")``: options, and classes that cannot be imported by name.
Needs neither pytest nor pyspark; every check is a plain function that raises LawBroken.
"""

from .engine import MicroBatchEngine
from .enumerator_laws import ENUMERATOR_LAWS, check_enumerator
from .fakes import END, FakeSource, Link, linked_source, literal_source, paged_source
from .law import LawBroken, TrivialInput
from .markers import BOOM, CRASH, FAIL, Crash, DataError, Fail, Markers
from .reader_laws import PROGRESS_LAWS, READER_LAWS, check_reader
from .registered import check_registered_sources, registered_sources
from .running import peek, plan, run
from .source_laws import SOURCE_LAWS, check_source
from .spark_side import Attempt, Batch
from .steps import Crashed, ExecutorLost, Killed, Step, Victim
from .store_laws import EXCLUSIVE_LAWS, STORE_LAWS, WHOLE_LAWS, check_store
from .tasks import Speculation
from .under_test import SourceUnderTest

__all__ = [
    "BOOM",
    "CRASH",
    "END",
    "FAIL",
    "Attempt",
    "Batch",
    "Crash",
    "Crashed",
    "DataError",
    "ExecutorLost",
    "Fail",
    "FakeSource",
    "Killed",
    "LawBroken",
    "Link",
    "Markers",
    "MicroBatchEngine",
    "SourceUnderTest",
    "Speculation",
    "Step",
    "TrivialInput",
    "Victim",
    "check_enumerator",
    "check_reader",
    "check_registered_sources",
    "check_source",
    "check_store",
    "laws",
    "linked_source",
    "literal_source",
    "paged_source",
    "peek",
    "plan",
    "registered_sources",
    "run",
]


def laws() -> dict[str, tuple[str, ...]]:
    """The texts of the laws of stores, enumerators, readers and sources."""
    return {
        "store": tuple(law.text for law in (*STORE_LAWS, *WHOLE_LAWS, *EXCLUSIVE_LAWS)),
        "enumerator": tuple(law.text for law in ENUMERATOR_LAWS),
        "reader": tuple(law.text for law in (*READER_LAWS, *PROGRESS_LAWS)),
        "source": tuple(law.text for law in SOURCE_LAWS),
    }
