"""The kafka enumerator: one split for each partition of the topics, which is read batch by batch.

Start at `enumerator`; `assigner` decides what is read, and `cluster` sends the requests to the brokers.
`readers.kafka` reads the records.
"""
