"""The databases of the enumerator's tests, for the tests of the sql reader."""

from tests.enumerators.sql.shops import shop, sqlite

__all__ = ["shop", "sqlite"]
