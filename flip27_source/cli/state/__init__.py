"""`flip27 state`: shows the stored state as tables, and differences. `state_tables` provides the rows."""
