"""Places where Jobs run: nodes, leases, workers."""
