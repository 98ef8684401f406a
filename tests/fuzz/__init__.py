"""The differential fuzz tests of the readers: random files, schemas and options, read here and by Spark.

``make fuzz ARGS="--format csv --cases 1000 --seed 7"``. Start with the module ``run``.
"""
