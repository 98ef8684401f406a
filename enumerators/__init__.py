"""Enumerators that come with flip27: they find splits, on the driver.

One package or module for each source; the reader of the same name is in `readers`. An enumerator uses the
author's contract and nothing else: what it needs more of is missing there.
"""
