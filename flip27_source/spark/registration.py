"""``flip27_source.register``: registers a format for classes that cannot be imported by name."""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flip27_source.enumerator import SplitEnumerator
    from flip27_source.reader import SplitReader

_CACHE = "__msgspec_cache__"


def register(
    spark: SparkSession,
    name: str = "flip27",
    *,
    enumerator: type[SplitEnumerator[Any]] | None = None,
    reader: type[SplitReader[Any]] | None = None,
    by_value: bool = False,
) -> None:
    """Register ``format(name)`` in a session (classic or Spark Connect).

    The classes may be defined in a notebook: they are pickled by value. Classes of an importable module are
    pickled by name, so the module must be installed wherever flip27-source is: on the driver and every node.

    Args:
        spark: the session.
        name: the name for ``format``.
        enumerator, reader: the classes; the option of the same name replaces one that is left out.
        by_value: pickle the packages of the classes by value, with everything that they define. For code
            next to the script or in ``--py-files``, which does not reach the coordinator's process.
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
    source = type(f"Registered_{name}", (Flip27DataSource,), attributes)
    drop_type_caches()
    with _sent_along(*filter(None, [enumerator, reader])) if by_value else contextlib.nullcontext():
        spark.dataSource.register(source)


def drop_type_caches() -> None:
    """Delete msgspec's caches from all dataclasses.

    msgspec caches type information on a class when a value is first stored, for example by
    ``flip27_source.testing``. A class with this cache cannot be pickled. msgspec recreates it if needed.
    """
    for cls in gc.get_objects():
        # type() rather than isinstance(), which would evaluate lazy proxies.
        if issubclass(type(cls), type) and _CACHE in vars(cls) and not issubclass(cls, msgspec.Struct):
            delattr(cls, _CACHE)


@contextlib.contextmanager
def _sent_along(*classes: type[Any]) -> Iterator[None]:
    """Pickle the packages of ``classes`` by value in this context, except flip27_source."""
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
