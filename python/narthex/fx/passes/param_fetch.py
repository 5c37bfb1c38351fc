"""Arguments of modules that makers of backends read off the nodes that call them."""

from ...nn import BatchNorm2d, Conv2d, Linear, Module, ReLU
from ..graph_module import GraphModule

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


def default_matching(name: str, target_version: int) -> str:
    """The name by which an attribute is kept: its own."""
    return name


# For a class: its version, what is read, and by which name it is kept.
module_fetch_book = {
    Linear: (1, ["weight", "bias"], default_matching),
    Conv2d: (
        1,
        ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"],
        default_matching,
    ),
    BatchNorm2d: (2, ["weight", "bias", "running_mean", "running_var", "eps"], default_matching),
    ReLU: (1, ["inplace"], default_matching),
}


def extract_attrs_for_lowering(mod: Module) -> dict:
    """A module's name and what the book says of its class."""
    if type(mod) not in module_fetch_book:
        raise RuntimeError(f"{mod.__class__} is not supported: no entry of module_fetch_book has it")
    version, names, kept_as = module_fetch_book[type(mod)]
    return {"name": f"torch.{type(mod).__module__.removeprefix('narthex.')}.{type(mod).__name__}"} | {
        kept_as(name, getattr(mod, "_version", None) or version): getattr(mod, name) for name in names
    }


def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Sets `attrs_for_lowering` of nodes that call a module of such a class, in submodules that are graphs, too."""
    modules = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op == "call_module":
            called = modules[node.target]
            if isinstance(called, GraphModule):
                lift_lowering_attrs_to_nodes(called)
            else:
                node.attrs_for_lowering = extract_attrs_for_lowering(called)
