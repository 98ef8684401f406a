"""The soak: a talkative source, killed at random points for as long as one likes, then counted."""
