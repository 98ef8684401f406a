"""Decoding the values of Kafka records in blocks: start at `decoder`.

A decoder takes an Arrow array of values and gives an array of decoded values, and the values that do not
decode, with the reasons. What must not live here: Kafka, and what becomes of values that cannot be decoded.
"""
