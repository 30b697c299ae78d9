"""Hardware and software events of a workload beside its throughput, as study D counts them."""
