"""Converts texts to the values of a column: numbers, decimals, booleans, binary. Dates are in `datetimes`.

Open `texts` first. `ordinary_texts` reads most texts together and the odd ones one by one, for every type.
"""
