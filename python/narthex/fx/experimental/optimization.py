"""Edits of graphs of modules for inference: batch norms into the convolutions before them, no dropout."""

import copy

from ... import nn
from ...nn.utils.fusion import fuse_conv_bn_eval
from .. import Graph, GraphModule, Transformer, symbolic_trace


def _parent_name(target: str) -> tuple[str, str]:
    """("a.b", "c") of "a.b.c"."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern, node, modules: dict) -> bool:
    """Whether `node` calls a layer of the pattern's second class with what a call of one of its first class gave."""
    calls = (node.args[0], node) if node.args else ()
    for each, wanted in zip(calls, pattern):
        if getattr(each, "op", None) != "call_module" or type(modules.get(each.target)) is not wanted:
            return False
    return bool(calls)


def replace_node_module(node, modules: dict, new_module) -> None:
    """Puts a module in the place of the one that `node` calls."""
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """The traced model, batch norms that alone take a convolution's result fused into it: for inference. no_trace: the
    model is a GraphModule already."""
    fx_model = model if inplace else copy.deepcopy(model)
    if not no_trace or not isinstance(model, GraphModule):
        fx_model = symbolic_trace(fx_model)
    modules, graph = dict(fx_model.named_modules()), copy.deepcopy(fx_model.graph)
    for pattern in ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d)):
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            convolution, norm = modules[node.args[0].target], modules[node.target]
            if norm.track_running_stats:
                replace_node_module(node.args[0], modules, fuse_conv_bn_eval(convolution, norm))
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
    return GraphModule(fx_model, graph)


def remove_dropout(model: nn.Module) -> nn.Module:
    """The traced model without its layers of dropout."""
    fx_model = symbolic_trace(model)

    class WithoutDropout(Transformer):
        def call_module(self, target, args: tuple, kwargs: dict):
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return WithoutDropout(fx_model).transform()


def extract_subgraph(orig_module: nn.Module, nodes: list, inputs: list, outputs: list) -> GraphModule:
    """The module of these nodes alone, of what `inputs` gave them, with a list of `outputs`."""
    graph, made = Graph(), {}
    for node in inputs:
        made[node] = graph.placeholder(node.name)
    for node in nodes:
        made[node] = graph.node_copy(node, lambda each: made[each])
    graph.output([made[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)
