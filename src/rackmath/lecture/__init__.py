"""The lecture's equations once, a solver for them, and the ledger of its claims."""
