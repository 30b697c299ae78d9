"""The report: reads the trace folder, computes what is said, draws, and writes one HTML file."""
