"""The driver: code that runs in the coordinator's process, between Spark's calls and the stored state.

Open `holder` first: it takes Spark's calls, carries out the coordinator's decisions, and owns the threads,
the log, requests and clean-up. No task imports this package, and this package does not decide what a batch
contains: `coordination` does.
"""
