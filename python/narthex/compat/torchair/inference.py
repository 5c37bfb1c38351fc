"""torchair.inference: gears of dynamic sizes and caches of compiled graphs. Not there yet."""


def set_dim_gears(t, dim_gears) -> None:
    """Raises NotImplementedError."""
    raise NotImplementedError(
        "set_dim_gears: several gears in one graph are not there yet; each shape gets its own graph"
    )


def get_dim_gears(t):
    """The gears set on a tensor: None, since none can be set."""
    return None


def cache_compile(func, *, config=None, **options):
    """Raises NotImplementedError."""
    raise NotImplementedError("cache_compile is not there yet; torch.compile takes milliseconds")


def readable_cache(cache_bin, *, print_output=True, file=None):
    """Raises NotImplementedError."""
    raise NotImplementedError("readable_cache is not there yet")
