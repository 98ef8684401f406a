"""Schemas of files: found out of samples (`inference`), merged, hinted at, and evolved (`evolution`)."""
