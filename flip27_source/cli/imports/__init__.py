"""`flip27 import`: takes over the positions of other systems. Open `commands` first."""
