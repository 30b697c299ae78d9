"""Traces for other tools: each format says what it holds, and the rest is counted."""
