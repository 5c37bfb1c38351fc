"""AOT: a captured graph becomes functional forward and backward graphs (src/pass does it). Names and logs."""

from .. import _C

_counter = [0]


def _log_graphs(aot, number: int) -> None:
    """Writes the graphs where their logs are on. Costs nothing while torch._logging was never imported."""
    import sys

    logging = sys.modules.get("narthex._logging")
    if logging is None:
        return
    from .._dynamo.log import compile_id

    shown = [("aot_joint_graph", "Joint graph", aot.joint), ("aot_graphs", "Forward graph", aot.forward)]
    shown.append(("aot_graphs", "Backward graph", aot.backward))
    for artifact, title, graph in shown:
        if graph is not None and logging.enabled(artifact):
            text = f"TRACED GRAPH\n ===== {title} {number} =====\n{graph.python(shapes=True, lines=True)}\n"
            logging.artifact("aot", artifact, text, compile_id())


def aot_graphs(gm, grad_mode=None):
    """The `_C.Aot` of a GraphModule: joint, forward, backward, and compile(mode, device)."""
    if gm.captured_graph is None:
        raise RuntimeError("aot_graphs: of a graph that was built or edited in Python; torch.compile(gm) captures it")
    aot = gm.captured_graph.aot(_C.is_grad_enabled() if grad_mode is None else grad_mode)
    _log_graphs(aot, _counter[0])
    _counter[0] += 1
    return aot


def aot_module_simplified(mod, args, fw_compiler, bw_compiler=None, partition_fn=None, decompositions=None, **others):
    """Not there yet for compilers of one's own: raises NotImplementedError. Use torch.compile with a backend."""
    raise NotImplementedError(
        "aot_module_simplified: separate forward and backward compilers are not there yet; "
        "aot_graphs(mod).compile(mode, device) compiles both with the engine"
    )
