"""Growth: whether the work of a reader grows at most linearly with its input, for every option.

Tests count calls (``tests/readers/test_linear_growth.py``); ``make growth`` measures CPU time, which shows
what calls do not: C code that scans a whole block again for each row.
"""
