"""Makes classes picklable by value, such as those of a notebook, which no other process can import."""

from __future__ import annotations

import gc

import msgspec

_CACHE = "__msgspec_cache__"


def drop_type_caches() -> None:
    """Delete msgspec's caches from all dataclasses.

    msgspec caches type information on a class when a value is first stored, for example by
    ``flip27_source.testing``. A class with this cache cannot be pickled. msgspec recreates it if needed.
    """
    for cls in gc.get_objects():
        # type() rather than isinstance(), which would evaluate lazy proxies.
        if issubclass(type(cls), type) and _CACHE in vars(cls) and not issubclass(cls, msgspec.Struct):
            delattr(cls, _CACHE)
