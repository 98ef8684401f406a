"""The executor: what runs inside one Spark task.

Open `subtask` first: the splits of one subtask, read in order; `retries` is where a later attempt stops, and
`quarantine` what becomes of a split that cannot be read. Nothing here is imported by the driver's process,
and nothing here knows the coordinator: a task knows its partition and the state location.
"""
