"""Keeps pyarrow from importing pandas before somebody needs it.

``pa.array`` and ``pa.scalar`` look for pandas once, to recognise its objects, and import it where it is
installed: a quarter of a second of each Python process of Spark. No object of pandas exists before pandas is
imported, so pyarrow is told then. Calls that infer a type (``pa.array([1])``, ``pc.add(column, 1)``) import
pandas nevertheless: readers give the type.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PANDAS = "pandas"


def import_pandas_on_demand() -> None:
    """Let pyarrow take pandas as not installed until it is imported. Called before other threads start."""
    import pyarrow as pa

    is_done = any(isinstance(finder, _PandasFinder) for finder in sys.meta_path)
    if is_done or _PANDAS in sys.modules or not hasattr(pa.lib, "_pandas_api"):
        return
    finder = _PandasFinder()
    sys.meta_path.insert(0, finder)
    pa.lib._pandas_api.have_pandas  # noqa: B018 - looks for pandas, now and never again
    finder.hides = False


class _PandasFinder(MetaPathFinder):
    """Finds pandas as usual, with a loader that tells pyarrow; while it ``hides`` pandas, not at all."""

    hides = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _PANDAS:
            return None
        if self.hides:
            raise ModuleNotFoundError("pandas is imported on demand", name=_PANDAS)
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _TellingLoader(spec.loader)
        return spec


class _TellingLoader(Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        import pyarrow as pa

        # Resources of the package are read by its own loader.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        with contextlib.suppress(ImportError):  # a pandas that is too old for pyarrow
            pa.lib._pandas_api.compat  # noqa: B018 - imports what pyarrow needs of pandas
