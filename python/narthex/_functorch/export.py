"""aot_export_module, aot_export_joint_simple: the graphs of AOT for somebody else, without anything that runs them."""

from dataclasses import dataclass, field
from typing import Any

from .. import _C
from ..utils import _pytree as pytree
from ._graphs import Names, forward_of, retrace


@dataclass
class BackwardSignature:
    """Which results of the graph are gradients, by name, and which is the loss."""

    gradients_to_parameters: dict
    gradients_to_user_inputs: dict
    loss_output: str


@dataclass
class GraphSignature:
    """What the placeholders and results of an exported graph are, by name."""

    parameters: list
    buffers: list
    user_inputs: list
    user_outputs: list
    inputs_to_parameters: dict
    inputs_to_buffers: dict
    buffers_to_mutate: dict
    parameters_to_mutate: dict
    user_inputs_to_mutate: dict
    in_spec: Any
    out_spec: Any
    backward_signature: BackwardSignature | None
    input_tokens: list = field(default_factory=list)
    output_tokens: list = field(default_factory=list)


def _functional(call, tensors: list, decompositions) -> tuple:
    """The graph of call(*tensors) without writes, and how it stands to these: written inputs come first."""
    graph = _C.record(call, tuple(tensors), tuple(f"arg{k}_1" for k in range(len(tensors))))
    aot = graph.aot(False)
    names = Names(aot, len(tensors))
    return retrace(forward_of(aot, names), dict(decompositions or {})), names


def _check_outputs(result) -> None:
    if not isinstance(result, tuple):
        raise RuntimeError(
            "Graph output must be a (). This is so that we can avoid pytree processing of the outputs. "
            "Please change the module to have tuple outputs or use aot_module instead."
        )


class _Exported:
    """What is called while a module is recorded: with its parameters, its buffers, then its arguments."""

    def __init__(self, mod, args: tuple, kwargs: dict, loss_index) -> None:
        self.mod, self.loss_index = mod, loss_index
        self.parameters, self.buffers = dict(mod.named_parameters()), dict(mod.named_buffers())
        leaves, self.spec = pytree.tree_flatten((args, kwargs))
        if not all(isinstance(leaf, _C.TensorBase) for leaf in leaves):
            raise NotImplementedError("aot_export_module: arguments that are no tensors are not there yet")
        self.tensors = [*self.parameters.values(), *self.buffers.values(), *leaves]
        self.n_outputs, self.out_spec = 0, None

    def __call__(self, *values):
        from ..autograd import enable_grad, grad, no_grad
        from ..func import functional_call

        state = dict(zip([*self.parameters, *self.buffers], values))
        args, kwargs = pytree.tree_unflatten(list(values[len(state) :]), self.spec)
        with no_grad() if self.loss_index is None else enable_grad():
            result = functional_call(self.mod, state, args, kwargs)
            _check_outputs(result)
            outputs, self.out_spec = pytree.tree_flatten(result)
            self.n_outputs = len(outputs)
            if self.loss_index is None:
                return outputs
            loss = self._loss(outputs)
            wanted = [value for value in values if value.requires_grad]
            found = grad(loss, wanted)
        return [*outputs, *found]

    def _loss(self, outputs: list):
        if not 0 <= self.loss_index < len(outputs):
            raise RuntimeError(f"aot_export_module: output_loss_index {self.loss_index} of {len(outputs)} outputs")
        loss = outputs[self.loss_index]
        if not loss.requires_grad or loss.numel() != 1:
            raise RuntimeError(
                f"The output at index {self.loss_index} was marked as the loss, so it must be a scalar that requires "
                f"grad; it has shape {tuple(loss.shape)} and requires_grad={loss.requires_grad}"
            )
        for k, output in enumerate(outputs):
            if k != self.loss_index and output.requires_grad:
                raise RuntimeError(
                    "Found an output of the forward that requires gradients, that was not the scalar loss. You "
                    f"specified that output index {self.loss_index} is the loss, but we found that the output at index "
                    f"{k} requires gradients: call .detach() on it."
                )
        return loss


def _signature(gm, names: Names, exported: _Exported) -> GraphSignature:
    inputs = [node.name for node in gm.graph.find_nodes(op="placeholder")]
    results = [getattr(node, "name", None) for node in gm.graph.output_node().args[0]]
    n, m = len(exported.parameters), len(exported.parameters) + len(exported.buffers)
    at = names.n_mutated + exported.n_outputs
    paths = dict(zip(inputs, [*exported.parameters, *exported.buffers]))
    written = {results[k]: inputs[place] for k, place in enumerate(names.mutated)}
    backward = None
    if exported.loss_index is not None:
        wanted = [name for name, value in zip(inputs, exported.tensors) if value.requires_grad]
        grads = dict(zip(results[at:], wanted))
        backward = BackwardSignature(
            {grad: paths[name] for grad, name in grads.items() if name in paths},
            {grad: name for grad, name in grads.items() if name not in paths},
            results[names.n_mutated + exported.loss_index],
        )
    in_buffers = set(inputs[n:m])
    return GraphSignature(
        parameters=list(exported.parameters),
        buffers=list(exported.buffers),
        user_inputs=inputs[m:],
        user_outputs=results[names.n_mutated : at],
        inputs_to_parameters=dict(zip(inputs[:n], exported.parameters)),
        inputs_to_buffers=dict(zip(inputs[n:m], exported.buffers)),
        buffers_to_mutate={result: paths[name] for result, name in written.items() if name in in_buffers},
        parameters_to_mutate={
            result: paths[name] for result, name in written.items() if name in paths and name not in in_buffers
        },
        user_inputs_to_mutate={result: name for result, name in written.items() if name not in paths},
        in_spec=exported.spec,
        out_spec=exported.out_spec,
        backward_signature=backward,
    )


def aot_export_module(
    mod, args, *, trace_joint, output_loss_index=None, pre_dispatch=False, decompositions=None, kwargs=None, **others
):
    """(GraphModule, GraphSignature) of a module that returns a tuple: its inputs are parameters, buffers, arguments; it
    returns new values of what is written, the outputs and, with trace_joint, the gradients of the output that is the
    loss. Unlike PyTorch, the loss is named in backward_signature as the result that it is, also behind written ones; a
    parameter that the loss does not depend on raises."""
    if pre_dispatch or any(others.values()):
        raise NotImplementedError("aot_export_module: pre_dispatch, dynamic shapes and tokens are not there")
    if trace_joint and output_loss_index is None:
        raise RuntimeError(
            "If trace_joint=True it is required that one of your forward outputs must be a scalar loss.\n"
            "You must specify the which (index) output is the loss with output_loss_index."
        )
    exported = _Exported(mod, tuple(args), dict(kwargs or {}), output_loss_index if trace_joint else None)
    gm, names = _functional(exported, exported.tensors, decompositions)
    return gm, _signature(gm, names, exported)


def aot_export_joint_simple(func, args, *, trace_joint, num_params_buffers=0, decompositions=None):
    """The functional graph of func(*args), which returns a tuple and writes nothing. trace_joint is not there yet."""
    if trace_joint:
        raise NotImplementedError("aot_export_joint_simple: trace_joint is not there yet: use aot_function")
    from ..autograd import no_grad

    def call(*values):
        with no_grad():
            result = func(*values)
        _check_outputs(result)
        given = set(map(id, values))
        if any(id(out) in given or id(out._base) in given for out in result):
            raise RuntimeError("aot_export_joint_simple does not support outputs that alias inputs.")
        return result

    gm, names = _functional(call, list(args), decompositions)
    if names.n_mutated:
        raise RuntimeError("aot_export_joint_simple does not support input mutations. Please use aot_export_module")
    return gm
