"""`flip27 watch`: how far a query is, while it runs. Open `command` first."""
