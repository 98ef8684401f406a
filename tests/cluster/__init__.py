"""Queries on a cluster of several hosts, and the faults that strike it: ``make cluster``."""
