"""Plan files: what the replayer runs, whatever the plan was made of."""
