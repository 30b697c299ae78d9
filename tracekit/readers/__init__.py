"""Readers of traces: captures of block events, and the formats of other tools."""
