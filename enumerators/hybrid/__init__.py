"""The hybrid enumerator: a chain of sources, read one after another (Flink: HybridSource).

Open ``enumerator`` first. What must not be here: anything about a particular source of a chain.
"""
