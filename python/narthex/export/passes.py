"""torch.export.passes: an exported program changed as a whole."""

from .. import _C
from ..fx.node import map_aggregate
from .exported_program import ExportedProgram


def move_to_device_pass(ep: ExportedProgram, location) -> ExportedProgram:
    """The program with its state, its constants and the devices that its calls name on another device. location: a
    device, or {from: to}. The program itself is changed, and given back."""

    def place(device):
        found = location.get(str(device)) if isinstance(location, dict) else location
        return _C.device(device if found is None else found)

    def moved(value):
        if not isinstance(value, _C.TensorBase):
            return value
        made = value.detach().to(place(value.device))
        made = type(value)(made) if type(value).__name__ == "Parameter" else made
        return made.requires_grad_() if value.requires_grad and not made.requires_grad else made

    def renamed(value):
        return place(value) if isinstance(value, _C.device) else value

    for held in (ep._state_dict, ep._constants):
        held.update({path: moved(value) for path, value in held.items()})
    for node in ep.graph.nodes:
        node.args, node.kwargs = map_aggregate(node.args, renamed), map_aggregate(node.kwargs, renamed)
        val = node.meta.get("val")
        if isinstance(val, _C.TensorBase):
            node.meta["val"] = _C.fake_like(val).to(place(val.device))
        elif isinstance(val, tuple):
            node.meta["val"] = tuple(_C.fake_like(each).to(place(each.device)) for each in val)
    if ep.example_inputs is not None:
        from ..utils._pytree import tree_map

        ep.example_inputs = tree_map(moved, ep.example_inputs)
    ep.graph_module.recompile()
    return ep


__all__ = ["move_to_device_pass"]
