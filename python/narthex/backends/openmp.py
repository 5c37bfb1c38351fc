"""Whether work runs on several threads as where OpenMP is there: it does, on a team of our own."""


def is_available() -> bool:
    """True."""
    return True
