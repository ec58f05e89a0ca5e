"""A Ray cluster as a place where Jobs run: one of the three rooms that import ray."""
