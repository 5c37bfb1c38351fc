"""torch.__future__: settings of how modules are converted. Parameters keep being the same objects."""


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Not there: converting a module gives its parameters new data."""
    if value:
        raise NotImplementedError("set_overwrite_module_params_on_conversion: parameters stay the same objects")


def get_overwrite_module_params_on_conversion() -> bool:
    """False."""
    return False


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Not there: converting a module gives its parameters new data."""
    if value:
        raise NotImplementedError("set_swap_module_params_on_conversion: parameters stay the same objects")


def get_swap_module_params_on_conversion() -> bool:
    """False."""
    return False
