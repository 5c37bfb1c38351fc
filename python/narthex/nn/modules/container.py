"""Modules that hold other modules, and the one that does nothing."""

from .module import Module


class Identity(Module):
    """Returns its input; any arguments of the constructor are ignored."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__()

    def forward(self, input):
        return input


class _Numbered(Module):
    """Submodules under the names "0", "1", ... in order."""

    def _key(self, index: int) -> str:
        size = len(self._modules)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return list(self._modules)[index]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(*self._as_arguments(list(self._modules.values())[index]))
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[self._key(index)] = module

    def append(self, module: Module):
        """Adds `module` at the end and returns self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Appends each of `modules` and returns self."""
        for module in modules:
            self.append(module)
        return self

    @staticmethod
    def _as_arguments(modules: list) -> tuple:
        return tuple(modules)


class Sequential(_Numbered):
    """Calls its modules one after the other, each on what the one before returned."""

    def __init__(self, *args) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], dict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of registered modules; it is not called itself."""

    def __init__(self, modules=None) -> None:
        super().__init__()
        self.extend(modules or ())

    @staticmethod
    def _as_arguments(modules: list) -> tuple:
        return (modules,)
