"""Settings of opt_einsum, which is not used; they change nothing."""

enabled = False
strategy = None


def is_available() -> bool:
    """False."""
    return False
