"""The controller: verbs, phases, queue, reconciliation and the ledger. Plain Python; it does not know Ray."""
