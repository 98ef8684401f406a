"""hybrid: the options of a chain of sources. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .enumerator import SplitEnumerator
from .errors import OptionError
from .reader import SplitReader


def hybrid(
    *sources: tuple[str | type[SplitEnumerator[Any]], Mapping[str, Any]], **common: Any
) -> dict[str, str]:
    """The options of a chain: each source is read to its end, then the next one starts.

        chain = hybrid(
            ("files", {"path": "s3://orders/", "reader": "parquet", "eventTimeOrder": True, ...}),
            ("kafka", {"subscribe": "orders", "startingTimestamp": "{switch}", ...}),
        )
        spark.readStream.format("flip27").options(**chain).load()

    Args:
        sources: the enumerator of each, by name or as a class of an importable module, and its options.
            ``{switch}`` in a value is the place where the source before has ended.
        common: options of the whole chain, such as ``stateLocation`` and ``switchOverlap``.

    Raises:
        OptionError: there are fewer than two sources.
    """
    if len(sources) < 2:
        raise OptionError(
            f"a chain of {len(sources)} sources is given", remedy="give two sources or more, in order"
        )
    options = {"enumerator": "hybrid", **{name: _text(value) for name, value in common.items()}}
    for number, (enumerator, own) in enumerate(sources, 1):
        named = {"enumerator": enumerator, **own}
        options |= {f"hybrid.{number}.{name}": _text(value) for name, value in named.items()}
    return options


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, type) and issubclass(value, SplitEnumerator | SplitReader):
        return f"{value.__module__}:{value.__qualname__}"
    return str(value)
