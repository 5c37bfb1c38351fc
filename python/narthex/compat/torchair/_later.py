"""torchair's names that are not there yet. Each raises NotImplementedError when it is used."""

_NAMES = {
    "register_fx_node_ge_converter": "operators reach the engine through ops/, not through converters",
    "register_replacement": "patterns of a program's own are not there yet",
    "scope": "streams and core limits inside a graph are not there yet",
    "ops": "npu_print, record and wait are not there yet",
}


def __getattr__(name: str):
    if name in _NAMES:
        raise NotImplementedError(f"torchair.{name}: {_NAMES[name]}")
    raise AttributeError(f"module 'torchair' has no attribute '{name}': Narthex does not have it")
