"""Shops for the tests of the sql enumerator."""

from tests.enumerators.sql.fixtures import shop, sqlite

__all__ = ["shop", "sqlite"]
