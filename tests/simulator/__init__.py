"""The simulator: each seed plays one life of a query, with all that can go wrong, and checks the outcome.

The real holder, coordinator, stores' logic, readers and files source run on a simulated disk, object
store and landing folder; clock, threads, tasks, crashes and faults are decided by the seed. Open
``simulation`` first. Spark does not run; ``query`` makes its calls in Spark's order.
"""
