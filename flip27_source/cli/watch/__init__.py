"""`flip27 watch`: shows the progress of a running query. Open `command` first."""
