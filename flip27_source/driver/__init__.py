"""The driver: what runs in the process of the coordinator, between Spark's calls and the stored state.

Open `holder` first: it takes Spark's calls and carries out what the coordinator decides. Threads, the log,
requests and clean-up hang on it. Nothing here is imported by a task, and nothing here decides what a batch
holds: that is `coordination`.
"""
