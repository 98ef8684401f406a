"""The coordination: FLIP-27's OperatorCoordinator. Pure and single-threaded: no I/O, no clock, no chance.

Open `coordinator` first: facts in, decisions out; `gateway` and `checkpoint_states` hold the tables of
states, and `packing` makes tasks of splits. A test here that needs Spark, a sleep or a file shows a
decision in the wrong place.
"""
