"""Benchmarks against PyTorch: `make bench`, or `python -m bench` with ROW=name for one row."""
