"""``flip27_source.register``: make a format of classes that have no importable name."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
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
    by_value: bool = False,
) -> None:
    """Register ``format(name)`` in a session (classic or Spark Connect).

    The classes may live in a notebook: they travel by value. Classes of an importable module travel
    by name, so it has to be installed on the driver and on every node, as flip27-source itself.

    Args:
        spark: the session.
        name: the name for ``format``.
        enumerator, reader: the classes; what is left out is named by the option of that name.
        by_value: send the packages of the classes along, with all that they define: for code that is here
            alone, beside the script or in ``--py-files``, which do not reach the coordinator's process.
    """
    from .by_value import drop_type_caches
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
    source = type(f"Registered_{name}", (Flip27DataSource,), attributes)
    drop_type_caches()
    with _sent_along(*filter(None, [enumerator, reader])) if by_value else contextlib.nullcontext():
        spark.dataSource.register(source)


@contextlib.contextmanager
def _sent_along(*classes: type[Any]) -> Iterator[None]:
    """What is pickled in here takes the packages of ``classes`` along, other than this one."""
    cloudpickle: Any = importlib.import_module("pyspark.cloudpickle")
    names = {cls.__module__.partition(".")[0] for cls in classes} - {"__main__", "flip27_source"}
    modules = [sys.modules[name] for name in names]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
