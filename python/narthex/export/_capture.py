"""Captures a module whole: the graph of its call, what stands at the graph's inputs and what the call returns."""

from .. import _C
from ..utils import _pytree as pytree
from ._calls import Calls


class Captured:
    """graph: None where nothing was computed. values: the tensors at its inputs. results: what it returns, as
    stand-ins. leaves, out_spec: what the call returned. aliases: the tensors that stood in for the arguments; at
    `numbers` they have an open number as their first size. assigned: buffers that were set anew, {path: tensor}."""

    def __init__(self, mod, preserved: tuple) -> None:
        self.graph, self.values, self.results = None, (), ()
        self.leaves, self.out_spec, self.aliases, self.assigned = [], None, [], {}
        self.function, self.in_spec, self.numbers, self.kept = None, None, (), None
        self.calls = Calls(mod, preserved)

    def call(self, leaves: list):
        """The captured function with these arguments."""
        if self.numbers:
            return self.function(*leaves)
        args, kwargs = pytree.tree_unflatten(leaves, self.in_spec)
        return self.function(*args, **kwargs)

    def again(self, leaves: list) -> list:
        """What the call returns for other arguments of the same kind."""
        with self.kept:
            return pytree.tree_leaves(self.call(leaves))


class _Backend:
    """Takes the graph and answers with tensors that have no elements, so that nothing is computed or written."""

    shares_graph = True

    def __init__(self, captured: Captured) -> None:
        self.captured = captured

    def __call__(self, graph, example_inputs):
        if self.captured.graph is not None:
            raise _Again

        def run(*values):
            results = [_result_of(node) for node in graph.nodes[-1].args[0]]
            self.captured.graph, self.captured.values, self.captured.results = graph, values, results
            return tuple(results)

        return run


class _Again(Exception):
    """The function would be captured a second time."""


def _result_of(node):
    if node is None:
        return None
    return node.value if node.result is None else node.value[node.result]


def _stand_ins(leaves: list) -> list:
    """Other tensors in place of tensors, so that each argument is an object of its own; none shares memory with
    another."""
    storages: set = set()
    return [_stand_in(leaf, storages) if isinstance(leaf, _C.TensorBase) else leaf for leaf in leaves]


def _stand_in(leaf, storages: set):
    made, key = leaf.detach(), _C.storage_key(leaf)
    if key in storages:
        made = made.clone()
    storages.add(key)
    return made.requires_grad_() if leaf.requires_grad else made


def _holder(number: int):
    """A tensor without elements whose first size is the number, which stays open in this way."""
    import narthex

    if number < 0:
        raise NotImplementedError("torch.export: a number below 0 that stays open")
    return narthex.empty(number, 0)


def _mark(leaf, dims: set) -> None:
    from .._dynamo import mark_dynamic, mark_static

    if isinstance(leaf, _C.TensorBase):
        mark_static(leaf, [k for k in range(leaf.ndim) if k not in dims])
        if dims:
            mark_dynamic(leaf, sorted(dims))


def capture(mod, args: tuple, kwargs: dict, open_sizes: list, preserved: tuple = ()) -> Captured:
    """The call mod(*args, **kwargs) with these OpenSizes left open. The module is as it was afterwards. preserved:
    paths of modules of which it is kept how they were called."""
    from .. import _functorch, amp, autocast, fx  # noqa: F401  (loaded later otherwise, which capture does not follow)

    found = Captured(mod, preserved)
    leaves, found.in_spec = pytree.tree_flatten((args, kwargs))
    found.numbers = tuple(size.leaf for size in open_sizes if size.dim is None)
    found.aliases = [_holder(leaves[k]) if k in found.numbers else leaf for k, leaf in enumerate(_stand_ins(leaves))]
    for k, leaf in enumerate(found.aliases):
        _mark(leaf, {size.dim or 0 for size in open_sizes if size.leaf == k})
    function = _caller_of_leaves(mod, found.in_spec, found.numbers) if found.numbers else _caller(mod)
    found.function = _C.CapturedFunction(function, _Backend(found), True, None, "export")
    found.function.no_elements = True
    found.kept = _Kept(mod, found.calls)
    with found.kept, _Exporting():
        found.leaves, found.out_spec = _flatten(found.call(found.aliases))
        found.calls.made = list(found.function.calls or ())
        found.assigned = found.kept.assigned_buffers()
    return found


def _caller(mod):
    def call(*args, **kwargs):
        return mod(*args, **kwargs)

    return call


def _caller_of_leaves(mod, spec, numbers: tuple):
    def call(*leaves):
        leaves = [leaf.size(0) if k in numbers else leaf for k, leaf in enumerate(leaves)]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return mod(*args, **kwargs)

    return call


def _flatten(result) -> tuple:
    """The leaves of a result; those with names (torch.return_types.max) are taken apart too."""
    leaves, spec = pytree.tree_flatten(result)
    named = {type(leaf) for leaf in leaves if type(leaf).__module__ == "torch.return_types"}
    for kind in named:
        pytree.register_pytree_node(kind, lambda x: (list(x), None), lambda children, _, kind=kind: kind(children))
    return pytree.tree_flatten(result) if named else (leaves, spec)


class _Exporting:
    """torch.compiler.is_exporting() is True inside."""

    def __enter__(self) -> None:
        from ..compiler import _exporting

        self.before, _exporting[0] = _exporting[0], True

    def __exit__(self, *error) -> None:
        from ..compiler import _exporting

        _exporting[0] = self.before


class _Kept:
    """What a module's submodules hold, put back when the block ends; inside it their calls are noted."""

    def __init__(self, mod, calls: Calls) -> None:
        self.mod, self.calls, self.before = mod, calls, None

    def __enter__(self) -> None:
        self.before = [
            (path, each, dict(each.__dict__), dict(each._buffers)) for path, each in self.mod.named_modules()
        ]
        self.calls.install()

    def assigned_buffers(self) -> dict:
        found = {}
        for path, each, _, buffers in self.before:
            for name, value in each._buffers.items():
                if value is not buffers.get(name) and isinstance(value, _C.TensorBase):
                    found[f"{path}.{name}" if path else name] = value
        return found

    def __exit__(self, *error) -> None:
        for _, each, attributes, buffers in self.before:
            each._buffers.clear()
            each._buffers.update(buffers)
            if each.__dict__ != attributes or list(map(id, each.__dict__.values())) != list(
                map(id, attributes.values())
            ):
                each.__dict__.clear()
                each.__dict__.update(attributes)
