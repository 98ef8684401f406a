"""The kafka reader: records of topic partitions as Arrow batches. Start at `reader`."""
