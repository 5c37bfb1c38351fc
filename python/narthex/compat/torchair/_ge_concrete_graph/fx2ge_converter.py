"""GeConcreteGraph and GeGraph: not there as Python classes; mode "max-autotune" and nx_session_* are they."""

from ...._later import names

globals().update(
    names(
        "torchair._ge_concrete_graph.fx2ge_converter",
        "mode 'max-autotune', or nx_session_* in narthex.h, do their work",
        ("GeConcreteGraph", "GeGraph"),
    )
)
