"""Benchmarks: each module is run on its own and prints a table."""
