"""flip27's own enumerators, which find splits on the driver.

Each source has one package or module; the reader of the same name is in `readers`. An enumerator uses only
the author's contract. If it needs more, the contract must be extended.
"""
