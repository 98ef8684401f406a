"""The coordination: FLIP-27's OperatorCoordinator. Pure and single-threaded: no I/O, clock or randomness.

Open `coordinator` first: facts in, decisions out; `gateway` and `checkpoint_states` contain the state
tables, and `packing` packs splits into tasks. If a test here needs Spark, a sleep or a file, a decision is in
the wrong place.
"""
