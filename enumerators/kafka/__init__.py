"""The kafka enumerator: one split for each partition of the topics, which is read batch by batch.

Start at `enumerator`; `assigner` decides and `cluster` asks the brokers. `readers.kafka` reads the records.
"""
