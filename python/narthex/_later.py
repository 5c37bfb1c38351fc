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


def class_for(name: str, instead: str, *bases: type) -> type:
    """A class of that name, for who imports it to ask isinstance(): nothing is one. Making one raises."""
    text = f"{name} is not there yet, a later release brings it: {instead}"

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(text)

    module, _, own = name.rpartition(".")
    return type(own, bases, {"__init__": __init__, "__module__": module, "__doc__": f"Not there yet: {instead}."})


def names(module: str, instead: str, listed: tuple) -> dict:
    """{name: what stands in its place} for `listed` names of `module`, for its globals: classes for Words."""
    return {name: (class_for if name[:1].isupper() else Later)(f"{module}.{name}", instead) for name in listed}


def never(module: str, why: str, listed: tuple) -> dict:
    """{name: a function without arguments that says False} for `listed` questions of `module`, for its globals."""

    def answer(name: str):
        def no() -> bool:
            return False

        no.__name__, no.__qualname__, no.__module__, no.__doc__ = name, name, module, f"False: {why}."
        return no

    return {name: answer(name) for name in listed}
