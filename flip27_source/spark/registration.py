"""``flip27_source.register``: make a format of classes that have no importable name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flip27_source.enumerator import SplitEnumerator
    from flip27_source.reader import SplitReader


def register(
    spark: SparkSession,
    name: str = "flip27",
    *,
    enumerator: type[SplitEnumerator[Any]] | None = None,
    reader: type[SplitReader[Any]] | None = None,
) -> None:
    """Register ``format(name)`` in a session (classic or Spark Connect).

    The classes may live in a notebook: they travel by value. flip27-source itself has to be
    installed on the driver and on every node.

    Args:
        spark: the session.
        name: the name for ``format``.
        enumerator, reader: the classes; what is left out is named by the option of that name.
    """
    from .data_source import Flip27DataSource

    attributes = {
        "format_name": name,
        "enumerator": enumerator,
        "reader_type": reader,
        # A class that cannot be found under its module and name is pickled by value.
        "__qualname__": f"Registered_{name}",
        "__module__": Flip27DataSource.__module__,
        "__doc__": f'format("{name}")',
    }
    spark.dataSource.register(type(f"Registered_{name}", (Flip27DataSource,), attributes))
