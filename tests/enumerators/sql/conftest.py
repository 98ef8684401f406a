"""Shops for the tests of the sql enumerator."""

from tests.enumerators.sql.shops import shop, sqlite

__all__ = ["shop", "sqlite"]
