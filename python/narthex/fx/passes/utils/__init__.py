"""Patterns found in graphs, and parts of graphs made modules."""
