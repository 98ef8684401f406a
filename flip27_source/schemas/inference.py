"""Schema inference if the user gives no schema: optional mix-ins of an enumerator and of a reader.

They are called in a planning process, before there is a coordinator. The inferred schema is recorded in the
state location, so that a restart uses the same schema. Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from ..options import Options
from ..split import SplitT

if TYPE_CHECKING:
    import pyarrow as pa


class FindsSchema(ABC):
    """Optional power of a reader or an enumerator: it requests the schema from the source.

    For tables, topics with a registry, and whatever else knows its columns. The source then takes the
    option ``schemaEvolutionMode``: a reader that finds new columns calls ``context.check_new_columns``.
    """

    @classmethod
    @abstractmethod
    def find_schema(cls, options: Options) -> pa.Schema | None:
        """The columns; None if the source has none yet.

        Called if the user gives no schema, in a planning process, before there is an enumerator or a reader;
        I/O is allowed. With a ``stateLocation`` it is called once: its result is recorded, and every later
        start uses the same schema. Only types that Spark has are allowed; NOT NULL is kept.

        Raises:
            SchemaError: the schema cannot be found; the error has a remedy. Any other error is turned into a
                SchemaError.
        """

    @classmethod
    def records_schema(cls, options: Options) -> bool:
        """Whether the schema is recorded; False if options define it, and may change it at a restart."""
        return True

    @classmethod
    def complete_found(cls, schema: pa.Schema, options: Options) -> pa.Schema:
        """The schema of the DataFrame: ``schema``, found or recorded, with columns that options add."""
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSample(Generic[SplitT]):
    """Some splits of a source, for inferring a schema.

    Attributes:
        splits: the sampled splits.
        folders: for files, every directory that contains files, sampled or not.
    """

    splits: tuple[SplitT, ...]
    folders: tuple[str, ...] = ()


class SamplesSplits(ABC, Generic[SplitT]):
    """Optional mix-in of an enumerator: it finds sample splits without being started."""

    @classmethod
    @abstractmethod
    def sample_splits(cls, options: Options, count: int) -> SplitSample[SplitT]:
        """At most ``count`` splits; the same splits as long as the source does not change.

        Raises:
            OptionError, DiscoveryError: the source cannot be read.
        """


class InfersSchema(ABC, Generic[SplitT]):
    """Optional mix-in of a reader: it infers the schema of some splits."""

    @classmethod
    @abstractmethod
    def sample_size(cls, options: Options) -> int:
        """The number of splits to sample."""

    @classmethod
    @abstractmethod
    def infer_schema(cls, sample: SplitSample[SplitT], options: Options) -> pa.Schema | None:
        """The schema of the sample; None if nothing can be inferred.

        Raises:
            SplitReadError, SchemaError: a split cannot be read, or two splits have incompatible schemas.
        """

    @classmethod
    def complete_schema(cls, inferred: pa.Schema | None, options: Options) -> pa.Schema | None:
        """The schema of the DataFrame: ``inferred`` plus columns from options; None if there are none."""
        return inferred
