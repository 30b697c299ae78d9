"""Proves a recommendation: replays base and placement, and compares with what the model said."""
