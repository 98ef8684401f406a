"""`flip27 check`: whether this machine and a state location are ready for a query. Open `command` first."""
