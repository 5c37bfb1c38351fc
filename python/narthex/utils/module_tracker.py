"""torch.utils.module_tracker: in which modules of the program what runs now stands."""

from weakref import WeakKeyDictionary

from .. import _C
from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Inside, `parents` has the names of the modules that run, "Global" among them: in forward, and in a backward those
    that what it differentiates stands in. A module is called by its attribute in the module that called it; a class's
    name begins.

    In backward a module begins with the first gradient that arrives at what it gave, and ends when all that it was
    given have theirs. `parents` is of the backward that runs, if one does.
    """

    def __init__(self) -> None:
        self._forward = {"Global"}
        self._backward: tuple = 0, set()  # the number of a backward, its modules
        self._names: WeakKeyDictionary = WeakKeyDictionary()
        self._children: WeakKeyDictionary = WeakKeyDictionary()
        self._handles: list = []

    @property
    def parents(self) -> set:
        """The names."""
        run = _C.grad_run()[0]
        if run == 0:
            return self._forward
        if self._backward[0] != run:
            self._backward = run, {"Global"}
        return self._backward[1]

    @property
    def is_bw(self) -> bool:
        """Whether a backward runs."""
        return _C.grad_run()[0] != 0

    def _name(self, module) -> str:
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._children:
            self._children[module] = True
            for attribute, child in module.named_children():
                self._names[child] = f"{name}.{attribute}"
                self._name(child)
        return name

    def _before(self, module, args) -> None:
        name = self._name(module)
        self.parents.add(name)
        waiting = [x for x in tree_leaves(args) if _records(x)]
        left: dict = {}

        def arrived(gradient) -> None:
            run = _C.grad_run()[0]
            left[run] = left.get(run, len(waiting)) - 1
            if left[run] == 0:
                del left[run]
                self.parents.discard(name)

        self._handles += [x.register_hook(arrived) for x in waiting]

    def _behind(self, module, args, result) -> None:
        name = self._name(module)
        self.parents.discard(name)
        begun: set = set()

        def arrives(gradient) -> None:
            run = _C.grad_run()[0]
            if run not in begun:
                begun.add(run)
                self.parents.add(name)

        self._handles += [x.register_hook(arrives) for x in tree_leaves(result) if _records(x)]

    def __enter__(self) -> "ModuleTracker":
        self._forward = {"Global"}
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._behind),
        ]
        return self

    def __exit__(self, *exception) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []


def _records(x) -> bool:
    return isinstance(x, _C.TensorBase) and x.requires_grad
