"""Checks by hand, not part of `make test`: `make check-hostile`."""
