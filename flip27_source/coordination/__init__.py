"""Coordination: FLIP-27's OperatorCoordinator. Pure and single-threaded: no I/O, clock or randomness.

Open `coordinator` first: it is the protocol, which takes facts and returns decisions. `gateway` and
`checkpoint_states` contain the state tables. `batch_collector` decides what is in a batch, and `packing`
packs it into tasks. If a test here needs Spark, a sleep or a file, a decision is in the wrong place.
"""
