"""Converts texts to the values of a column: numbers, decimals, booleans, binary. Dates are in `datetimes`.

Open `texts` first.
"""
