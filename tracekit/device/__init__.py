"""Characterizes a device as study B does: latencies, IOPS, and a profile fitted to them."""
