"""Replays a trace: plan, run, completions, summary."""
