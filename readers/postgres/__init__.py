"""The postgres reader: chunks of tables as they were, and windows of the log of changes.

Open `pgoutput` for the log: it decodes messages into columns of texts; `values` converts texts to Arrow.
What must not live here: decisions about batches, slots and positions (`enumerators.postgres`).
"""
