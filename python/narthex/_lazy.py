"""torch._lazy: lazy tensors are not there yet; naming anything here raises NotImplementedError."""


def __getattr__(name: str):
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(f"torch._lazy.{name}: lazy tensors are not there yet: use torch.compile")
