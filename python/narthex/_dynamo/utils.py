"""torch._dynamo.utils: what was captured, counted and timed; what programs that compile reach for around it."""

import time
from collections import Counter, OrderedDict, defaultdict
from contextlib import contextmanager

from .. import _C
from .._absent import getter
from .._guards import detect_fake_mode as detect_fake_mode
from .comparing import log as log
from .comparing import rmse as rmse
from .comparing import same as same

counters: defaultdict = defaultdict(Counter)
collectors: list = []  # of explain, while it runs
compilation_time_metrics: OrderedDict = OrderedDict()  # what dynamo_timed timed: seconds, by name
guard_failures: defaultdict = defaultdict(list)  # nothing is written here: a compiled function's `recompiles` tell


def is_compile_supported(device_type) -> bool:
    """Whether torch.compile makes graphs for a device: where there is such a one, and this CPython is captured."""
    from . import is_dynamo_supported

    kind = _C.device(device_type).type
    return is_dynamo_supported() and kind in ("cpu", "npu")


# ---- times
@contextmanager
def dynamo_timed(key: str, *args, **kwargs):
    """What runs inside is timed under the name `key`, which compile_times tells."""
    start = time.perf_counter()
    try:
        yield
    finally:
        compilation_time_metrics.setdefault(key, []).append(time.perf_counter() - start)


def compile_times(repr: str = "str", aggregate: bool = False):
    """The seconds that backends took for graphs: a text, or ("csv") a list of headers and one of texts. aggregate:
    their sum instead of each."""

    def show(values: list, form: str) -> str:
        return ", ".join(format(value, form) for value in ([sum(values)] if aggregate else values))

    if repr == "csv":
        return list(compilation_time_metrics), [show(each, ".6f") for each in compilation_time_metrics.values()]
    if repr != "str":
        return None
    rows = [(name, show(each, ".4f")) for name, each in compilation_time_metrics.items()]
    return "TorchDynamo compilation metrics:\n" + tabulate(rows, headers=("Function", "Runtimes (s)"))


def tabulate(rows, headers) -> str:
    """A table as text: by the package tabulate, where it is installed, else with commas."""
    try:
        from tabulate import tabulate as table
    except ImportError:
        return "\n".join(", ".join(map(str, row)) for row in (headers, *rows))
    return table(rows, headers=headers)


@contextmanager
def disable_cache_limit():
    """Inside, functions may be compiled any number of times."""
    from . import config

    with config.patch(recompile_limit=2**31 - 1, accumulated_recompile_limit=2**31 - 1):
        yield


# ---- objects
def istype(obj, allowed_types) -> bool:
    """Whether its class is this one, or one of several, itself."""
    return type(obj) in allowed_types if isinstance(allowed_types, (tuple, list, set)) else type(obj) is allowed_types


def istensor(obj) -> bool:
    """Whether it is a tensor or a parameter, of no class of the program's own."""
    from .. import Tensor
    from ..nn import Parameter

    return type(obj) in (Tensor, Parameter)


def is_lazy_module(mod) -> bool:
    """Whether it is a module whose parameters wait for its first call."""
    from ..nn.modules.lazy import LazyModuleMixin

    return isinstance(mod, LazyModuleMixin)


def nnmodule_has_hooks(
    mod,
    check_forward_hooks: bool = False,
    check_backward_hooks: bool = False,
    check_state_dict_hooks: bool = False,
) -> bool:
    """Whether a module has hooks of the kinds that are asked for; of any, where none is."""
    kinds = {"forward": check_forward_hooks, "backward": check_backward_hooks, "state_dict": check_state_dict_hooks}
    kinds = {kind for kind, wanted in kinds.items() if wanted} or set(kinds)
    names = [name for name in vars(mod) if name.endswith("_hooks") and any(kind in name for kind in kinds)]
    return any(getattr(mod, name) for name in names)


def count_calls(g) -> int:
    """The calls in a graph."""
    return sum("call" in node.op for node in g.nodes)


def deepcopy_to_fake_tensor(obj, fake_mode):
    """A copy of a module, or of nested containers, in which tensors have no elements."""
    import copy

    from ..nn import Module, Parameter
    from ..utils._pytree import tree_leaves

    tensors = [*obj.parameters(), *obj.buffers()] if isinstance(obj, Module) else tree_leaves(obj)
    memo = {}
    for tensor in tensors:
        if isinstance(tensor, _C.TensorBase):
            fake = fake_mode.from_tensor(tensor.detach())
            wants = tensor.requires_grad
            memo[id(tensor)] = Parameter(fake, wants) if isinstance(tensor, Parameter) else fake.requires_grad_(wants)
    return copy.deepcopy(obj, memo)


def identity(x):
    """x."""
    return x


def nothing(*args, **kwargs) -> None:
    """None, whatever it is given."""


def product(it):
    """Of all of them; 1 of none."""
    from math import prod

    return prod(it)


def import_submodule(mod) -> None:
    """Imports every file of a package whose name begins with no underscore."""
    from importlib import import_module
    from os import listdir
    from os.path import dirname

    for name in sorted(listdir(dirname(mod.__file__))):
        if name.endswith(".py") and name[0] != "_":
            import_module(f"{mod.__name__}.{name[:-3]}")


_said: set = set()


def print_once(*args) -> None:
    """Prints what it has not printed yet."""
    if args not in _said:
        _said.add(args)
        print(*args)


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warns of what it has not warned of yet."""
    if msg not in _said:
        from warnings import warn

        _said.add(msg)
        warn(msg, stacklevel=stacklevel + 1)


# ---- states
@contextmanager
def preserve_rng_state():
    """What is drawn inside is drawn again behind."""
    from ..random import get_rng_state, set_rng_state

    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)


def checkpoint_params(gm):
    """A function that puts the module's parameters and buffers, and the random numbers, back to what they are here."""
    from .. import no_grad
    from ..random import get_rng_state, set_rng_state

    before = get_rng_state()
    saved = [(tensor, tensor._version, tensor.detach().clone()) for tensor in (*gm.parameters(), *gm.buffers())]

    def restore() -> None:
        set_rng_state(before)
        with no_grad():
            for tensor, version, value in saved:
                if tensor._version != version:
                    tensor.copy_(value)

    return restore


def clone_input(x, *, dtype=None):
    """A copy with x's strides, where one has room for that; of a leaf one that requires grad as it does, with a copy of
    its gradient. A fake one itself."""
    from .. import empty_strided, no_grad

    if x._is_fake:
        return x
    with no_grad():
        try:
            copy = empty_strided(x.shape, x.stride(), dtype=dtype or x.dtype, device=x.device).copy_(x)
        except RuntimeError:  # several elements share memory, or there are no strides
            copy = x.clone()
    if x.is_leaf:
        copy.requires_grad_(x.requires_grad)
        if x.grad is not None:
            copy.grad = clone_input(x.grad, dtype=dtype)
    for name in ("_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_static_indices"):
        if hasattr(x, name):
            setattr(copy, name, set(getattr(x, name)))
    return copy


def clone_inputs(example_inputs):
    """clone_input of each tensor of a dict or sequence: a dict or a list."""
    if type(example_inputs) is dict:
        made = {}
        for key, value in example_inputs.items():
            if not isinstance(value, (tuple, _C.TensorBase)):
                raise AssertionError(f"Expected value to be a torch.Tensor, got {type(value)}")
            made[key] = clone_inputs(value) if isinstance(value, tuple) else clone_input(value)
        return made
    return [clone_input(each) if isinstance(each, _C.TensorBase) else each for each in example_inputs]


def timed(model, example_inputs, times: int = 1) -> tuple:
    """(the last result, seconds) of calls of `model` with these inputs, from the same seed."""
    from .. import manual_seed

    manual_seed(1337)
    start = time.perf_counter()
    for _ in range(times):
        result = model(*example_inputs)
    return result, time.perf_counter() - start


# ---- what was captured
def count_graph(graph) -> None:
    """A graph goes to its backend: one for each captured piece, and for each set of sizes that it is fitted to."""
    counters["stats"]["unique_graphs"] += 1
    counters["stats"]["calls_captured"] += graph.n_calls


def _on_end(code: str, reason: str, detail, file, line: int, function) -> None:
    counters["frames"]["total"] += 1
    counters["frames"]["ok"] += 1
    if code:
        counters["graph_break"][f"{reason}: {detail}" if detail else reason] += 1
    for collect in collectors:
        collect(code, reason, detail, file, line, function)


_C.set_capture_listener(_on_end)
__getattr__ = getter("torch._dynamo.utils")


def called_with(title: str, inner, args: tuple, kwargs: dict):
    """`inner`, or, as `explain` and `export` were called once, what it gives for the arguments, with a warning."""
    import warnings

    if not args and not kwargs:
        return inner
    warnings.warn(
        f"{title}(f, *args, **kwargs) is deprecated, use {title}(f)(*args, **kwargs) instead.  If you don't migrate, "
        f"we may break your {title} call in the future if your user defined kwargs conflict with future kwargs added "
        f"to {title}(f).",
        FutureWarning,
        stacklevel=3,
    )
    return inner(*args, **kwargs)
