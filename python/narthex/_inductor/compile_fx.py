"""torch._inductor.compile_fx: what backends of one's own hand a graph on to, for the engine (docs/backends.md)."""

from functools import partial

from .._functorch.compilers import make_boxed_func

__all__ = ["compile_fx", "compile_fx_inner"]


def compile_fx_inner(gm, example_inputs, **kwargs):
    """A callable of one list, from a graph of ATen operators: to be given as fw_compiler and bw_compiler. What kwargs
    say (is_backward, graph_id and such) the engine does not ask."""
    from .._compile import compile

    return make_boxed_func(compile(gm, fullgraph=True))


def compile_fx(
    model_,
    example_inputs_,
    inner_compile=compile_fx_inner,
    config_patches: dict | None = None,
    decompositions: dict | None = None,
    ignore_shape_env: bool = False,
):
    """A callable of the inputs, from a graph that torch.compile gave to a backend, or of one's own; its sizes may be
    open. inner_compile(gm, example_inputs, is_backward=, is_inference=, ...): compiles the ATen graphs of it instead.
    config_patches: names of torch._inductor.config."""
    from .._dynamo.backends import mode_of, narthex
    from .._functorch.aot_autograd import aot_module_simplified

    mode = mode_of(config_patches or {})
    if inner_compile is compile_fx_inner and not decompositions:
        return narthex(model_, example_inputs_, mode=mode)
    told = {"static_input_idxs": (), "cudagraphs": False, "graph_id": None, "is_backward": False, "is_inference": False}
    return aot_module_simplified(
        model_,
        example_inputs_,
        fw_compiler=partial(inner_compile, **told),
        bw_compiler=partial(inner_compile, **{**told, "is_backward": True}),
        inference_compiler=partial(inner_compile, **{**told, "is_inference": True}),
        decompositions=decompositions,
    )
