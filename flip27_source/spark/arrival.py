"""What a pickled source does first where it arrives: check that the same flip27-source is installed there.

Without this check, a node without the package, or with another one, fails with an error of pickle that names
neither the host nor what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flip27_source.contract_version import contract_version


class ChecksArrival:
    """Mix-in of data sources: their pickles check the contract before they import anything else."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (contract_version(),), (type(self), vars(self))

    def __setstate__(self, state: tuple[type[Any], dict[str, Any]]) -> None:
        self.__class__ = state[0]
        vars(self).update(state[1])


def sent_by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a function that runs where flip27-source may be missing: it imports all that it uses.

    cloudpickle sends functions of ``__main__`` by value; any other would be looked up by its name.
    """
    function.__module__ = "__main__"
    return function


@sent_by_value
def _arrived(contract: str) -> Any:
    """An object whose state is unpickled afterwards."""
    import socket
    import sys

    try:
        from flip27_source.contract_version import check_contract
    except ImportError as error:
        version = ".".join(map(str, sys.version_info[:3]))
        raise ImportError(
            f"host {socket.gethostname()} cannot import flip27_source as the driver does ({contract}): "
            f"{error}. Spark runs {sys.executable} there, Python {version}\n  What to do: install the same "
            "build of flip27-source on the driver and on all nodes, for the Python that Spark runs, or set "
            "PYSPARK_PYTHON to one that has it; flip27 check --spark lists what each executor has"
        ) from None
    check_contract(contract)
    from flip27_source.spark.arrival import ChecksArrival

    return object.__new__(ChecksArrival)
