"""ShapeProp: runs a graph and notes at each node what tensor it gave."""

from typing import Any, NamedTuple

from ... import _C
from ..interpreter import Interpreter
from ..node import Node, map_aggregate


class TensorMetadata(NamedTuple):
    """Of a tensor: everything but its elements."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple
    memory_format: Any
    is_quantized: bool
    qparams: dict


def _extract_tensor_metadata(result, include_contiguity: bool = True) -> TensorMetadata:
    import narthex

    found = None
    for memory_format in (
        (narthex.contiguous_format, narthex.channels_last, narthex.channels_last_3d) if include_contiguity else ()
    ):
        fits = result.ndim == {narthex.channels_last: 4, narthex.channels_last_3d: 5}.get(memory_format, result.ndim)
        if fits and result.is_contiguous(memory_format=memory_format):
            found = memory_format
            break
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), found, False, {})


def note_tensors(graph) -> None:
    """meta["tensor_meta"] of the nodes that are known to give a tensor."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, _C.TensorBase):
            node.meta["tensor_meta"] = _extract_tensor_metadata(value)


class ShapeProp(Interpreter):
    """propagate(*inputs) runs the graph; node.meta["tensor_meta"] then has a TensorMetadata, or a structure of them,
    and node.meta["type"] the result's type. fake_mode: a FakeTensorMode, in which nothing has elements."""

    def __init__(self, gm, fake_mode=None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n: Node):
        result, found = super().run_node(n), []

        def note(value):
            if isinstance(value, _C.TensorBase):
                found.append(value)
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        """The graph's result."""
        if self.fake_mode is None:
            return super().run(*args)
        made = [self.fake_mode.from_tensor(x) if isinstance(x, _C.TensorBase) else x for x in args]
        with self.fake_mode:
            return super().run(*made)
