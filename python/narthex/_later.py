"""Names of PyTorch and torchair that are known and not there yet: using one raises NotImplementedError."""


class Later:
    """Stands where the thing will be: calling it or asking it for anything raises."""

    def __init__(self, name: str, instead: str) -> None:
        self._later = f"{name} is not there yet, a later release brings it: {instead}"

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(self._later)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(self._later)

    def __repr__(self) -> str:
        return f"<{self._later}>"


def names(module: str, instead: str, listed: tuple) -> dict:
    """{name: Later} for `listed` names of `module`, to be put into its globals."""
    return {name: Later(f"{module}.{name}", instead) for name in listed}
