"""The HTTP API: plain FastAPI over the controller's verbs and the ledger; it does not know Serve."""
