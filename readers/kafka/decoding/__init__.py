"""Decoding the values of Kafka records in blocks: start at `decoder`.

A decoder takes an Arrow array of values, and returns an array of decoded values and, for each value that
cannot be decoded, the reason. What must not live here: Kafka, and the handling of values that cannot be
decoded.
"""
