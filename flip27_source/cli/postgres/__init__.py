"""`flip27 postgres`: what an operator does with the PostgreSQL source. Open `commands` first."""
