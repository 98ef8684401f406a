"""Growth: whether the work of a reader grows with its input and no faster, for every option of every reader.

Tests count calls (``tests/readers/test_linear_growth.py``); ``make growth`` measures CPU time, which shows
what calls do not: C code that looks through a whole block again for each row.
"""
