"""torch.utils: what stands beside models. `data` feeds them."""


def __getattr__(name: str):
    if name == "data":
        from importlib import import_module

        return import_module(f"{__name__}.data")
    raise AttributeError(f"module 'torch.utils' has no attribute '{name}': Narthex has data so far")
