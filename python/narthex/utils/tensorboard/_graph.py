"""The operators that a module calls as the graph that TensorBoard draws: what make_fx traces."""

from __future__ import annotations

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef


def graph_of(model, inputs, verbose: bool = False) -> GraphDef:
    """See SummaryWriter.add_graph()."""
    if inputs is None:
        raise ValueError("add_graph: input_to_model is needed: the graph is what the module calls for it")
    from ...fx.experimental.proxy_tensor import make_fx

    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    graph = make_fx(lambda *values: model(*values))(*given).graph
    if verbose:
        print(graph)
    nodes = []
    for node in graph.nodes:
        made = NodeDef(name=node.name, op="IO Node" if node.op in ("placeholder", "output") else str(node.target),
                       input=[source.name for source in node.all_input_nodes])  # fmt: skip
        value = node.meta.get("val")
        if hasattr(value, "shape"):
            sizes = TensorShapeProto(dim=[TensorShapeProto.Dim(size=int(size)) for size in value.shape])
            made.attr["_output_shapes"].CopyFrom(AttrValue(list=AttrValue.ListValue(shape=[sizes])))
        nodes.append(made)
    return GraphDef(node=nodes, versions=VersionDef(producer=22))
