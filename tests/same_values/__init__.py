"""Proof that two versions of tracekit give the same tables, JSON values, plans and texts."""
