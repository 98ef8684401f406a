"""Texts to values of one column: numbers, decimals, booleans, binary; dates are in `datetimes`.

Open `texts` first.
"""
