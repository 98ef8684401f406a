"""The readers' differential fuzz: random files, schemas and options, read here and by Spark's own readers.

``make fuzz ARGS="--format csv --cases 1000 --seed 7"``. ``run`` is where to start reading.
"""
