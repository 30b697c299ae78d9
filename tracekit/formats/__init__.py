"""Trace formats: how their files are found, opened and explained."""
