"""Making classes fit to travel by value: those of a notebook, which no other process can import."""

from __future__ import annotations

import gc

import msgspec

_CACHE = "__msgspec_cache__"


def drop_type_caches() -> None:
    """Take from all dataclasses what msgspec has cached on them.

    It does so where a value is first stored, by ``flip27_source.testing`` for one; the cache cannot be
    pickled, and with it neither can the class. It is made anew when it is needed.
    """
    for cls in gc.get_objects():
        # type(), as isinstance() would wake up proxies of all kinds.
        if issubclass(type(cls), type) and _CACHE in vars(cls) and not issubclass(cls, msgspec.Struct):
            delattr(cls, _CACHE)
