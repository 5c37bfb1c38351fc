"""AOT: a captured graph becomes functional forward and backward graphs of ATen operators (src/pass does it), which the
engine compiles or compilers of the user's own, as graphs of torch.fx."""

from inspect import signature

from .. import _C
from ..utils import _pytree as pytree
from ._graphs import Names, fake_inputs, forward_of, joint_of, retrace
from .compilers import make_boxed_func as make_boxed_func
from .export import BackwardSignature as BackwardSignature
from .export import GraphSignature as GraphSignature
from .export import aot_export_joint_simple as aot_export_joint_simple
from .export import aot_export_module as aot_export_module
from .partitioners import default_partition
from .partitioners import min_cut_rematerialization_partition as min_cut_rematerialization_partition

_counter = [0]


def _log_graphs(aot, number: int) -> None:
    """Writes the graphs where their logs are on. Costs nothing while torch._logging was never imported."""
    import sys

    logging = sys.modules.get("narthex._logging")
    if logging is None:
        return
    from logging import INFO

    from .._dynamo.log import compile_id
    from ..fx.graph_module import in_class

    shown = [("aot_joint_graph", "Joint graph", aot.joint), ("aot_graphs", "Forward graph", aot.forward)]
    shown.append(("aot_graphs", "Backward graph", aot.backward))
    for artifact, title, graph in shown:
        if graph is not None and logging.enabled(artifact):
            code = in_class(graph.python(shapes=True, lines=True), "<lambda>" if aot.joint is None else "GraphModule")
            text = f"TRACED GRAPH\n ===== {title} {number} =====\n {code}\n"
            logging.artifact("aot", artifact, text, compile_id(), level=INFO)


def aot_graphs(gm, grad_mode=None):
    """The `_C.Aot` of a GraphModule: joint, forward, backward, and compile(mode, device)."""
    if gm.captured_graph is None:
        raise RuntimeError("aot_graphs: of a graph that was built or edited in Python; torch.compile(gm) captures it")
    aot = gm.captured_graph.aot(_C.is_grad_enabled() if grad_mode is None else grad_mode)
    _log_graphs(aot, _counter[0])
    _counter[0] += 1
    return aot


class _LazyBackward:
    """The backward, compiled at its first call: bw_compiler may cost, and many programs never call it."""

    _boxed_call = True

    def __init__(self, gm, compiler) -> None:
        self.gm, self.compiler, self.call = gm, compiler, None

    def __call__(self, args: list):
        if self.call is None:
            self.call = _boxed(_compiled(self.compiler, self.gm))
        return self.call(args)


def _boxed(call):
    return call if getattr(call, "_boxed_call", False) else make_boxed_func(call)


def _compiled(compiler, gm):
    """What the user's compiler makes of a graph; it sees no modes of the caller."""
    with _no_grad():
        made = compiler(gm, fake_inputs(gm))
    if not callable(made):
        raise TypeError(f"{compiler!r} returned {type(made).__name__}; a compiler of AOT must return a callable")
    return made


def _no_grad():
    from ..autograd import no_grad

    return no_grad()


def _partition(partition_fn, joint, n_forward: int, n_inputs: int):
    inputs = fake_inputs(joint)
    keywords = {"num_fwd_outputs": n_forward}
    accepted = signature(partition_fn).parameters
    if "static_lifetime_input_indices" in accepted:
        keywords["static_lifetime_input_indices"] = []
    return partition_fn(joint, [inputs[:n_inputs], inputs[n_inputs:]], **keywords)


def _saved(forward, n_forward: int) -> tuple:
    """Of the values that the forward saves: the place among its inputs, or -1."""
    places = {node: k for k, node in enumerate(forward.graph.find_nodes(op="placeholder"))}
    results = forward.graph.output_node().args[0]
    return tuple(places.get(node, -1) for node in results[n_forward:])


class Compilers:
    """What AOT is to do with its graphs."""

    def __init__(
        self, fw_compiler, bw_compiler=None, inference_compiler=None, partition_fn=None, decompositions=None
    ) -> None:
        self.forward, self.backward = fw_compiler, bw_compiler or fw_compiler
        self.inference = inference_compiler or fw_compiler
        self.partition, self.decompositions = partition_fn or default_partition, dict(decompositions or {})

    def compile(self, graph, grad_mode: bool, order=None):
        """A `_C.CompiledGraph` of a captured graph. order: for each input that the graph is to show, its place among
        those that it has, or a constant in a tuple of one."""
        aot = graph.aot(grad_mode)
        _log_graphs(aot, _counter[0])
        _counter[0] += 1
        names = Names(aot, len(aot.about[2]) if order is None else len(order), order)
        if aot.joint is None:
            gm = retrace(forward_of(aot, names), self.decompositions)
            call = self._forward(_compiled(self.inference, gm), names)
            return aot.compile_with((call, names.inputs, names.results(0)), None, ())
        joint = retrace(joint_of(aot, names), self.decompositions)
        forward, backward = _partition(self.partition, joint, names.n_forward, names.n_inputs)
        saved = tuple(names.inputs[k] if k >= 0 else -1 for k in _saved(forward, names.n_forward))
        call = self._forward(_compiled(self.forward, forward), names)
        second = (_LazyBackward(backward, self.backward), names.backward_inputs(len(saved)), names.gradients())
        return aot.compile_with((call, names.inputs, names.results(len(saved))), second, saved)

    @staticmethod
    def _forward(call, names: Names):
        if not names.constants:
            return call
        call = _boxed(call)

        def with_constants(args: list):
            for place, value in names.constants.items():
                args[place] = value
            return call(args)

        return make_boxed(with_constants)


def make_boxed(function):
    """`function`, which takes a list, marked as such."""
    function._boxed_call = True
    return function


def _wants_gradients(args) -> bool:
    tensors = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, _C.TensorBase)]
    return _C.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def aot_module_simplified(
    mod,
    args,
    fw_compiler,
    bw_compiler=None,
    partition_fn=None,
    decompositions=None,
    keep_inference_input_mutations=False,
    inference_compiler=None,
    **others,
):
    """What a backend of torch.compile returns to have its graph compiled as ATen graphs: fw_compiler(gm, fake inputs)
    and, at the first backward, bw_compiler each return a callable (boxed or not), which is what runs.
    inference_compiler: for calls that want no gradients. partition_fn(joint, inputs, num_fwd_outputs=) cuts the joint
    graph in two.

    Writes into inputs are copied back around the forward also where keep_inference_input_mutations asks otherwise.
    """
    known = {"cudagraphs", "boxed_forward_device_index", "ignore_shape_env", "disable_functionalization"}
    if unknown := [name for name, given in others.items() if name not in known or given]:
        raise NotImplementedError(f"aot_module_simplified: {', '.join(unknown)} is not there")
    compilers = Compilers(fw_compiler, bw_compiler, inference_compiler, partition_fn, decompositions)
    graph = getattr(mod, "captured_graph", None)
    if graph is not None and mod._has_open_sizes:
        mod.recompile()
        return _ForEachShape(mod, compilers)
    if graph is not None and not mod.was_edited:
        return compilers.compile(graph, _C.is_grad_enabled())
    if graph is not None:
        mod.recompile()
    return Retraced(mod, compilers).prepare(tuple(args))


class Retraced:
    """A function of Python, captured whole at a call and compiled by AOT: what aot_function returns. Captured anew
    where guards say that it would be another graph."""

    def __init__(self, fn, compilers: Compilers, lifted=tuple, dynamic=False) -> None:
        self.compilers, self.lifted = compilers, lifted
        self._ready, self._leaves, self._preparing = [], [], False
        from .._compile import make_backend
        from .._dynamo.eval_frame import OptimizeContext

        context = OptimizeContext(make_backend(self._backend), fullgraph=True, dynamic=dynamic)
        self.captured = context.capture(fn, "aot_function")

    def _backend(self, graph, example_inputs):
        return self._ready.pop() if self._ready else _Late(self, graph.captured_graph)

    def compile(self, graph, values: tuple):
        """The graph compiled for these inputs, shown in the order in which they stand in the call's arguments."""
        return self.compilers.compile(graph, _C.is_grad_enabled(), _order(values, self._leaves))

    def prepare(self, args: tuple):
        """Compiles for these arguments now, before the first call; the same object."""
        self._preparing = True
        try:
            self(*args)
        except _Prepared:
            pass
        finally:
            self._preparing = False
        return self

    def __call__(self, *args, **kwargs):
        self._leaves = [*self.lifted(), *pytree.tree_leaves((args, kwargs))]
        try:
            return self.captured(*args, **kwargs)
        finally:
            self._leaves = []


class _Late:
    """A graph that is compiled when its first inputs come: which arguments of the function they are shows only then."""

    def __init__(self, owner: Retraced, graph) -> None:
        self.owner, self.graph, self.call = owner, graph, None

    def __call__(self, *values):
        if self.call is None:
            self.call = self.owner.compile(self.graph, values)
            if self.owner._preparing:
                self.owner._ready.append(self)
                raise _Prepared
        return self.call(*values)


class _ForEachShape:
    """A graph whose sizes vary: the user's compilers get one of numbers for each shape that comes."""

    def __init__(self, mod, compilers: Compilers) -> None:
        self.mod, self.compilers, self.made = mod, compilers, {}

    def __call__(self, *args):
        key = tuple(arg.shape if isinstance(arg, _C.TensorBase) else arg for arg in args)
        if key not in self.made:
            self.made[key] = Retraced(self.mod, self.compilers)
        return self.made[key](*args)


class _Prepared(Exception):
    """The graph is compiled and need not run."""


def _order(inputs: tuple, leaves: list) -> tuple:
    """The graph's inputs in the order of the leaves, then what is no leaf; a leaf that is no tensor, or that the graph
    does not use, as a tuple of itself."""
    places = {id(tensor): k for k, tensor in enumerate(inputs)}
    order = [places.pop(id(leaf), (leaf,)) for leaf in leaves]
    return (*order, *places.values())


def aot_function(
    fn,
    fw_compiler,
    bw_compiler=None,
    partition_fn=None,
    decompositions=None,
    num_params_buffers=0,
    keep_inference_input_mutations=False,
    inference_compiler=None,
    *,
    dynamic=False,
    enable_log=True,
    disable_functionalization=False,
):
    """`fn`, whose forward and backward graphs are compiled by the user's compilers at its first call. The graphs'
    inputs are the leaves of its arguments in order. Unlike PyTorch, what fn reads is guarded."""
    if disable_functionalization:
        raise NotImplementedError("aot_function: disable_functionalization is not there: graphs are functional")
    compilers = Compilers(fw_compiler, bw_compiler, inference_compiler, partition_fn, decompositions)
    return Retraced(fn, compilers, dynamic=True if dynamic else False)


def aot_module(mod, *args, **kwargs):
    """A module that calls `mod` compiled as aot_function(fw_compiler, ...) says: parameters and buffers are the graphs'
    first inputs."""
    from ..nn import Module

    if not isinstance(mod, Module):
        raise TypeError(f"aot_module: expected a module, got {type(mod).__name__}")

    class AOTModule(Module):
        def __init__(self) -> None:
            super().__init__()
            self.orig_module = mod
            call = aot_function(mod, *args, **kwargs)
            call.lifted = lambda: [*mod.parameters(), *mod.buffers()]
            self.__dict__["_compiled_call"] = call

        def forward(self, *inputs, **keywords):
            return self._compiled_call(*inputs, **keywords)

    return AOTModule()


def compiled_function(*args, **kwargs):
    """The older name of aot_function."""
    return aot_function(*args, **kwargs)


compiled_module = aot_module
__all__ = [
    "BackwardSignature", "GraphSignature", "aot_export_joint_simple", "aot_export_module", "aot_function", "aot_graphs",
    "aot_module", "aot_module_simplified", "compiled_function", "compiled_module", "default_partition",
    "make_boxed_func", "min_cut_rematerialization_partition",
]  # fmt: skip
