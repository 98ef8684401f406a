"""The simulator: one seed plays one life of a query, with all that can go wrong, and checks what came of it.

The real holder, coordinator, stores' logic, readers and files source run on a simulated disk, object
store and landing folder; clock, threads, tasks, crashes and faults are decided by the seed. Open
``simulation`` first. Nothing of Spark is in here; its calls are made in Spark's order by ``query``.
"""
