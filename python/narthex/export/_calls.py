"""The calls of submodules while a module is captured: which node belongs to which, and how those were called."""

from .. import _C


class Calls:
    """made: (path, number of the call that made it, 0: the root's own) of each call, by number, from 1, which is the
    scope of what is recorded in it. kept: (number, args, kwargs, result) of those of modules whose paths are among
    `preserved`."""

    def __init__(self, mod, preserved: tuple = ()) -> None:
        self.mod, self.preserved = mod, preserved
        self.made: list = []
        self.kept: list = []
        self.noted = None  # (module, its forward, which notes calls): the same at each call, which guards find again
        self.types = {path: _type_name(each) for path, each in mod.named_modules(remove_duplicate=False)}

    def install(self) -> None:
        """Has each submodule's forward note its calls, until its attributes are put back."""
        from ..nn import Module

        self.kept.clear()
        if self.noted is None:
            self.noted = [
                (each, _noted(path, each.forward, self.kept if path in self.preserved else None))
                for path, each in self.mod.named_modules()
                if path and type(each).forward is not Module.forward
            ]
        for each, forward in self.noted:
            each.__dict__["forward"] = forward

    def paths(self) -> dict:
        """{number: path} of all calls; the second call of `a` is a@1."""
        times: dict = {}
        found = {}
        for number, (path, _) in enumerate(self.made, 1):
            before = times.get(path, 0)
            times[path] = before + 1
            found[number] = f"{path}@{before}" if before else path
        return found

    def stacks(self) -> dict:
        """{scope: nn_module_stack} of what is recorded there."""
        paths = self.paths()
        found = {0: {"L__self__": ("", self.types[""])}}
        for number, (path, outer) in enumerate(self.made, 1):
            found[number] = {**found[outer], f"L__self__{paths[number]}": (path, self.types[path])}
        return found


def _type_name(module) -> str:
    cls = type(module)
    first, dot, rest = cls.__module__.partition(".")
    return f"{'torch' if first == 'narthex' else first}{dot}{rest}.{cls.__qualname__}"


def _noted(path: str, forward, kept: list | None):
    def call(*args, **kwargs):
        number = _C.enter_call(path)
        try:
            result = forward(*args, **kwargs)
        finally:
            _C.leave_call(number)
        if kept is not None:
            kept.append((number, args, kwargs, result))
        return result

    return call
