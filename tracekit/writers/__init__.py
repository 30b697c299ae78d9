"""Writers of traces for other tools: what a format cannot hold is counted."""
