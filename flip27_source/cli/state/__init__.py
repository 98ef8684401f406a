"""`flip27 state`: the stored state as tables, and what differs. The rows are those of `state_tables`."""
