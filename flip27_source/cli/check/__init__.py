"""`flip27 check`: checks that a machine and a state location are ready for a query. Open `command` first."""
