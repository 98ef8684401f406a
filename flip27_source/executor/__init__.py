"""The executor: code that runs inside one Spark task.

Open `subtask` first: it reads the splits of one subtask in order. `retries` decides where a later attempt
stops, and `quarantine` handles splits that cannot be read. The driver's process does not import this package,
and this package does not know the coordinator: a task knows only its partition and the state location.
"""
