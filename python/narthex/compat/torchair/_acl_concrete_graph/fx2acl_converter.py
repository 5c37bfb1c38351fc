"""AclConcreteGraph: not there as a Python class; mode "reduce-overhead" of torch.compile is it."""

from ...._later import names

globals().update(
    names(
        "torchair._acl_concrete_graph.fx2acl_converter", "mode 'reduce-overhead' does its work", ("AclConcreteGraph",)
    )
)
